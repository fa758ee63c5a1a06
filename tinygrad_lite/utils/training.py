"""Devices around a training loop: early stopping, and gradients of a large batch from small ones."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_lite import creation
from tinygrad_lite.nn.module import Module
from tinygrad_lite.tensor import Tensor


class EarlyStopping:
    """Says when a metric has not improved for `patience` steps, and puts the best weights back.

    Attributes:
        best, best_step: the best value and the step it came at; steps count from 0.
        stopped: whether it said so.

    Raises:
        ValueError: patience below 1, min_delta below 0, an unknown mode.
    """

    def __init__(
        self, patience: int = 5, min_delta: float = 0.0, mode: str = "min", model: Module | None = None
    ) -> None:
        if patience < 1 or min_delta < 0 or mode not in ("min", "max"):
            raise ValueError(
                f"EarlyStopping: patience {patience} must be at least 1, min_delta {min_delta} at least 0, "
                f"mode {mode!r} 'min' or 'max'"
            )
        self.patience, self.min_delta, self.mode, self.model = patience, min_delta, mode, model
        self.best = math.inf if mode == "min" else -math.inf
        self.best_step, self.steps, self.stopped = -1, 0, False
        self._weights: Any = None

    def step(self, metric: float) -> bool:
        """Take the latest value; True when it is time to stop. NaN is no improvement."""
        value = float(metric)
        gain = self.best - value if self.mode == "min" else value - self.best
        if gain > self.min_delta:
            self.best, self.best_step = value, self.steps
            if self.model is not None:
                self._weights = {name: copy.copy(t.numpy()) for name, t in self.model.state_dict().items()}
        self.steps += 1
        self.stopped = self.steps - 1 - self.best_step >= self.patience
        return self.stopped

    def restore(self) -> None:
        """Give the model the weights it had at its best. RuntimeError where there is no model, or was no step."""
        if self.model is None or self._weights is None:
            raise RuntimeError("EarlyStopping: nothing to restore: it was given no model, or no metric improved")
        self.model.load_state_dict(self._weights)


def accumulate(loss_of: Callable[..., Tensor], batch: Sequence[Tensor], pieces: int) -> Tensor:
    """backward() of a mean loss over a batch, cut along its first axis into equal pieces; the mean loss.

    Gradients add up to the whole batch's, so long as loss_of is a mean over examples that do not see each other (batch
    norm in training is none). `loss_of(*piece)`.

    Raises:
        ValueError: pieces that do not divide the batch, or tensors of different length.
    """
    sizes = {len(x) for x in batch}
    if len(sizes) != 1 or pieces < 1 or next(iter(sizes)) % pieces:
        raise ValueError(f"accumulate: {pieces} pieces do not divide batches of {', '.join(map(str, sorted(sizes)))}")
    size = next(iter(sizes)) // pieces
    total = creation.tensor(0.0)
    for i in range(pieces):
        loss = loss_of(*(x[i * size : (i + 1) * size] for x in batch)) / pieces
        loss.backward()
        total = total + loss.detach()
    return total
