"""An edge: one row of docs/edge_cases.md and its tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Edge:
    """`run(T, *tensors)` for T tinygrad_lite or torch; floats in `args` make float64 tensors, arrays their own dtype.

    value: what comes out, a number, nested list or tuple of these (one a result). Zeros are told from -0.0.
    grads: the gradient of the result's sum in each floating argument.
    raises: (exception, part of its message) instead.
    captures: False where the result's size depends on data, or values are read: compiling raises CaptureError.
    torch: PyTorch does the same. `note` says what it does where it does not.
    """

    family: str
    case: str
    outcome: str
    run: Callable[..., Any]
    args: tuple[Any, ...] = ()
    value: Any = None
    grads: Sequence[Any] | None = None
    raises: tuple[type[Exception], str] | None = None
    captures: bool = True
    torch: bool = True
    note: str = ""
    rtol: float = 1e-9

    def arrays(self) -> list[np.ndarray]:
        return [np.asarray(a) for a in self.args]


def markdown(edges: Sequence[Edge]) -> str:
    """A table a family."""
    lines: list[str] = []
    for family in dict.fromkeys(e.family for e in edges):
        lines += [f"## {family}", "", "| case | what happens | PyTorch |", "|---|---|---|"]
        for edge in edges:
            if edge.family == family:
                lines.append(f"| {edge.case} | {edge.outcome} | {'the same' if edge.torch else edge.note} |")
        lines.append("")
    return "\n".join(lines)
