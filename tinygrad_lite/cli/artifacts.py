"""What a finished run leaves beside its checkpoint: the loss curve, the model's graph, the captured step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

SMOOTHING = 50  # steps that one point of the drawn training loss averages


def draw_losses(losses: Sequence[float], validations: Iterable[tuple[int, float]], paths: Iterable[Path]) -> None:
    """Training and validation loss over the steps, in the format of each path's suffix."""
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot(xlabel="step", ylabel="loss, nats a character")
    steps = np.arange(1, len(losses) + 1)
    axes.plot(steps, losses, color="0.85", linewidth=0.8)
    axes.plot(steps, running_mean(losses, SMOOTHING), label=f"training, mean of {SMOOTHING} steps")
    at, values = zip(*validations, strict=True)
    axes.plot(at, values, "o-", label=f"validation, last {values[-1]:.3f}")
    axes.grid(alpha=0.3)
    axes.legend()
    for path in paths:
        figure.savefig(path, dpi=120)


def running_mean(values: Sequence[float], width: int) -> np.ndarray:
    """The mean of each value and those before it, `width` in all where there are as many."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(sums))
    starts = np.maximum(ends - width, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)
