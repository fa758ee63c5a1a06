"""What the section scripts share: headings, tables, the folder for pictures (the first argument), training loops."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tinygrad_lite as tl
from tinygrad_lite import Tensor, nn


def heading(text: str) -> None:
    """A title line."""
    print(f"\n{text}\n{'-' * len(text)}")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Aligned columns; numbers to six significant digits."""
    cells = [[_cell(c) for c in row] for row in (columns, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    if isinstance(value, Tensor):
        return _cell(value.item() if value.numel() == 1 else value.tolist())
    if isinstance(value, bool) or not isinstance(value, int | float | list):
        return str(value)
    if isinstance(value, list):
        return "(" + ", ".join(_cell(v) for v in value) + ")"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def folder() -> Path:
    """Where pictures go: the script's first argument, or runs/documents."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/documents")
    path.mkdir(parents=True, exist_ok=True)
    return path


def trained(model: nn.Module, loss_of: Callable[..., Tensor], batch: Callable[[int], Sequence[Tensor]], steps: int,
            lr: float = 1e-2, clip: float | None = 1.0) -> list[float]:  # fmt: skip
    """Losses of compiled AdamW steps on batch(0), batch(1), …"""
    optimizer = tl.optim.AdamW(model.parameters(), lr=lr)

    @tl.compile
    def step(*arrays: Tensor) -> Tensor:
        loss = loss_of(*arrays)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return [step(*batch(i)).item() for i in range(steps)]
