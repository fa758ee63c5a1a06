"""Reductions over axes, under PyTorch's names and argument names."""

from __future__ import annotations

import builtins
import math
from typing import Any, NamedTuple

from tinygrad_lite.functional import pointwise
from tinygrad_lite.functional.common import as_dtype, axis_list, fresh, node_of, wrap
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import DType
from tinygrad_lite.ops import composite, create, indexing, movement, reduce
from tinygrad_lite.ops import elementwise as ew

__all__ = [
    "ValuesIndices",
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "logsumexp",
    "max",
    "mean",
    "median",
    "min",
    "norm",
    "prod",
    "std",
    "sum",
    "var",
    "var_mean",
]

Dim = int | tuple[int, ...] | list[int] | None


class ValuesIndices(NamedTuple):
    """Elements and where they were found."""

    values: Tensor
    indices: Tensor


def _cast(input: Tensor, dtype: DType | None) -> Node:
    node = node_of(input, "input")
    return node if dtype is None else ew.cast(node, as_dtype(dtype))


def sum(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Σ over `dim` (all axes by default); integers and bools add up in int64."""
    return wrap(reduce.sum(_cast(input, dtype), axis_list(dim), keepdim))


def mean(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Σ / n. RuntimeError unless floating."""
    return wrap(reduce.mean(_cast(input, dtype), axis_list(dim), keepdim))


def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Product over one axis or all."""
    return wrap(reduce.prod(_cast(input, dtype), axis_list(dim), keepdim))


def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The largest element; with `dim`, (values, indices) along it; with another tensor, `maximum`."""
    if isinstance(dim, Tensor) or other is not None:
        return pointwise.maximum(input, dim if other is None else other)
    return _extremum(input, dim, keepdim, reduce.max, reduce.argmax)


def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The smallest element; with `dim`, (values, indices) along it; with another tensor, `minimum`."""
    if isinstance(dim, Tensor) or other is not None:
        return pointwise.minimum(input, dim if other is None else other)
    return _extremum(input, dim, keepdim, reduce.min, reduce.argmin)


def _extremum(input: Tensor, dim: int | None, keepdim: bool, value: Any, arg: Any) -> Any:
    node = node_of(input, "input")
    if dim is None:
        return wrap(value(node))
    if not node.type.ndim:
        movement.normalize_axis(dim, 0)
        return ValuesIndices(fresh(node, node), wrap(arg(node, None)))
    index = arg(node, dim, keepdim=True)
    # Taken by index, so that the gradient goes to the element found, also among equals.
    values = indexing.take_along(node, index, dim)
    if not keepdim:
        values, index = movement.squeeze(values, dim), movement.squeeze(index, dim)
    return ValuesIndices(wrap(values), wrap(index))


def amax(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The largest element over `dim`; equals share the gradient."""
    node = node_of(input, "input")
    return fresh(reduce.max(node, axis_list(dim), keepdim), node)


def amin(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The smallest element over `dim`; equals share the gradient."""
    node = node_of(input, "input")
    return fresh(reduce.min(node, axis_list(dim), keepdim), node)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the largest element is first met: int64, along `dim` or in the flattened tensor."""
    return wrap(reduce.argmax(node_of(input, "input"), dim, keepdim))


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the smallest element is first met: int64, along `dim` or in the flattened tensor."""
    return wrap(reduce.argmin(node_of(input, "input"), dim, keepdim))


def any(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether one of the elements is nonzero."""
    return wrap(reduce.any(node_of(input, "input"), axis_list(dim), keepdim))


def all(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are nonzero."""
    return wrap(reduce.all(node_of(input, "input"), axis_list(dim), keepdim))


def _freedom(dim: Any, unbiased: bool | None, correction: float | None) -> tuple[Any, float]:
    """var(True) and var(unbiased=True) stand for correction=1, as in PyTorch."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is not None:
        return dim, correction
    return dim, 1.0 if unbiased is None else float(unbiased)


def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Σ (x - mean)² / (n - correction), correction 1 by default."""
    dim, correction = _freedom(dim, unbiased, correction)
    return wrap(reduce.var(node_of(input, "input"), axis_list(dim), correction, keepdim))


def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The square root of `var`."""
    dim, correction = _freedom(dim, unbiased, correction)
    return wrap(reduce.std(node_of(input, "input"), axis_list(dim), correction, keepdim))


def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(var, mean)."""
    return var(input, dim, unbiased, keepdim, correction=correction), mean(input, None if dim is True else dim, keepdim)


def logsumexp(input: Tensor, dim: Dim, keepdim: bool = False) -> Tensor:
    """log Σ exp(x) without overflow."""
    node = node_of(input, "input")
    axes = movement.normalize_axes(axis_list(dim), node.type.ndim)
    return wrap(composite.logsumexp(node, axes, keepdim))


def norm(input: Tensor, p: float | str = 2, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """(Σ |x|^p)^(1/p); p may be inf, -inf or 0; "fro" is 2."""
    node, axes = node_of(input, "input"), axis_list(dim)
    order = 2.0 if p == "fro" else float(p)
    if order == 2:
        return wrap(ew.sqrt(reduce.sum(ew.mul(node, node), axes, keepdim)))
    size = ew.abs(node)
    if math.isinf(order):
        return wrap((reduce.max if order > 0 else reduce.min)(size, axes, keepdim))
    if order == 0:
        return wrap(reduce.sum(ew.cast(ew.ne(node, 0), node.dtype), axes, keepdim))
    if order == 1:
        return wrap(reduce.sum(size, axes, keepdim))
    return wrap(ew.pow(reduce.sum(ew.pow(size, order), axes, keepdim), 1 / order))


def count_nonzero(input: Tensor, dim: Dim = None) -> Tensor:
    """How many elements are nonzero, int64."""
    return wrap(reduce.sum(ew.truth(node_of(input, "input")), axis_list(dim)))


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Running sums along `dim`, by doubling: log₂ n shifted additions."""
    node = _cast(input, dtype)
    node = node if node.dtype.kind == "f" else reduce._widened(node)
    return fresh(_scan(node, dim, ew.add, 0), node_of(input))


def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Running products along `dim`, by doubling."""
    node = _cast(input, dtype)
    node = node if node.dtype.kind == "f" else reduce._widened(node)
    return fresh(_scan(node, dim, ew.mul, 1), node_of(input))


def _scan(x: Node, dim: int, combine: Any, neutral: int) -> Node:
    if not x.type.ndim:
        return x
    axis = movement.normalize_axis(dim, x.type.ndim)
    size, step = x.shape[axis], 1
    while step < size:
        head = _filled(x, axis, step, neutral)
        shifted = movement.concat([head, movement.narrow(x, axis, 0, size - step)], axis)
        x, step = combine(x, shifted), step * 2
    return x


def _filled(x: Node, axis: int, length: int, value: int) -> Node:
    shape = tuple(length if a == axis else s for a, s in enumerate(x.shape))
    return create.full(shape, float(value) if x.dtype.kind == "f" else value, x.dtype)


def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower middle element; with `dim`, (values, indices). Reads values."""
    from tinygrad_lite.functional.indexing import sort

    if dim is None:
        flat = input.reshape(-1)
        return sort(flat)[0][(builtins.max(flat.numel(), 1) - 1) // 2]
    ordered = sort(input, dim)
    middle = (input.shape[dim] - 1) // 2
    picked = [part.narrow(dim, middle, 1) for part in ordered]
    return ValuesIndices(*(p if keepdim else p.squeeze(dim) for p in picked))
