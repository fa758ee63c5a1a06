"""Sums, means and maxima of table rows by bag."""

from __future__ import annotations

import math

import tinygrad_lite.creation as creation
from tinygrad_lite.functional.indexing import embedding
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.types import float32

__all__ = ["embedding_bag"]

_MODES = ("sum", "mean", "max")


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of weight[input] over each bag; an empty bag gives 0. `sparse` changes nothing.

    Shapes: input (B, N), B bags of N, or (N,) with the bags' starts `offsets` (B,), to (B, dim). Indices equal to
    padding_idx count as not there. With include_last_offset the last offset is the end.

    Raises:
        ValueError: an unknown mode, an input of another rank, offsets that do not go with it.
        NotImplementedError: max_norm, scale_grad_by_freq, or per_sample_weights with another mode than "sum".
    """
    _check(input, offsets, mode, per_sample_weights)
    if max_norm is not None or scale_grad_by_freq:
        raise NotImplementedError("embedding_bag: max_norm and scale_grad_by_freq are not supported")
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise ValueError(f"embedding_bag: padding_idx {padding_idx} lies outside a table of {weight.shape[0]} rows")
    rows = embedding(input, weight)
    present = creation.ones(*input.shape, 1, dtype=rows.dtype)
    if padding_idx is not None:
        present = (input != padding_idx % weight.shape[0]).to(rows.dtype).unsqueeze(-1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if offsets is None:
        return _even(rows, present, mode)
    return _ragged(rows, present, offsets[:-1] if include_last_offset else offsets, mode)


def _check(input: Tensor, offsets: Tensor | None, mode: str, weights: Tensor | None) -> None:
    if mode not in _MODES:
        raise ValueError(f"embedding_bag: mode must be one of {', '.join(_MODES)}, not {mode!r}")
    if input.dim() not in (1, 2):
        raise ValueError(f"embedding_bag: input must have 1 or 2 axes, not {input.dim()}")
    if (input.dim() == 1) != (offsets is not None):
        raise ValueError("embedding_bag: offsets go with an input of 1 axis, and only with that")
    if offsets is not None and offsets.dim() != 1:
        raise ValueError(f"embedding_bag: offsets must have 1 axis, not {offsets.dim()}")
    if weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights go with mode 'sum', not {mode!r}")
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        given, expected = tuple(weights.shape), tuple(input.shape)
        raise ValueError(f"embedding_bag: per_sample_weights have shape {given}, the input {expected}")


def _even(rows: Tensor, present: Tensor, mode: str) -> Tensor:
    if mode == "max":
        if not rows.shape[1]:
            return creation.zeros(rows.shape[0], rows.shape[2], dtype=rows.dtype)
        top = rows.masked_fill(present == 0, -math.inf).max(dim=1)[0]
        return top.masked_fill(top == -math.inf, 0.0)
    total = (rows * present).sum(dim=1)
    return total / present.sum(dim=1).clamp(min=1.0) if mode == "mean" else total


def _ragged(rows: Tensor, present: Tensor, offsets: Tensor, mode: str) -> Tensor:
    bags, count = offsets.shape[0], rows.shape[0]
    # the bag of a row: how many bags start at or before it
    bag = (offsets <= creation.arange(count).unsqueeze(1)).sum(dim=1) - 1
    index = bag.unsqueeze(1).expand(count, rows.shape[1])
    if mode == "max":
        low = creation.full((bags, rows.shape[1]), -math.inf, dtype=rows.dtype)
        top = low.scatter_reduce(0, index, rows.masked_fill(present == 0, -math.inf), "amax")
        return top.masked_fill(top == -math.inf, 0.0)
    empty = creation.zeros(bags, rows.shape[1], dtype=rows.dtype)
    total = empty.scatter_add(0, index, rows * present)
    if mode == "sum":
        return total
    sizes = creation.zeros(bags, 1, dtype=float32).to(rows.dtype).scatter_add(0, bag.unsqueeze(1), present)
    return total / sizes.clamp(min=1.0)
