"""Reductions over axes, under PyTorch's names and argument names. Order statistics are in `statistics.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tinygrad_lite.functional import pointwise
from tinygrad_lite.functional.common import Scalar, as_dtype, axis_list, fresh, node_of, wrap
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import DType, uint8
from tinygrad_lite.ops import composite, create, indexing, movement, reduce
from tinygrad_lite.ops import elementwise as ew

__all__ = [
    "MinMax",
    "ValuesIndices",
    "all",
    "amax",
    "amin",
    "aminmax",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "dist",
    "logsumexp",
    "max",
    "mean",
    "min",
    "nanmean",
    "nansum",
    "norm",
    "prod",
    "renorm",
    "std",
    "std_mean",
    "sum",
    "var",
    "var_mean",
]

Dim = int | tuple[int, ...] | list[int] | None


class ValuesIndices(NamedTuple):
    """Elements and where they were found."""

    values: Tensor
    indices: Tensor


class MinMax(NamedTuple):
    """The smallest and the largest elements."""

    min: Tensor
    max: Tensor


def _cast(input: Tensor, dtype: DType | None) -> Node:
    node = node_of(input, "input")
    return node if dtype is None else ew.cast(node, as_dtype(dtype))


def _as(node: Node, dtype: DType | None) -> Tensor:
    """The result in the dtype asked for: integers are reduced in int64."""
    return wrap(node if dtype is None else ew.cast(node, as_dtype(dtype)))


# ---- sums ---------------------------------------------------------------------------------------------------


def sum(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Σ over `dim` (all axes by default); integers and bools add up in int64, 16-bit floats in float32."""
    return _as(reduce.sum(_cast(input, dtype), axis_list(dim), keepdim), dtype)


def nansum(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """`sum` with NaN taken as 0; no gradient flows to NaN."""
    return _as(reduce.sum(_numbers(_cast(input, dtype)), axis_list(dim), keepdim), dtype)


def _numbers(x: Node) -> Node:
    return ew.where(ew.ne(x, x), 0.0, x) if x.dtype.kind == "f" else x


def mean(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Σ / n. RuntimeError unless floating."""
    return wrap(reduce.mean(_cast(input, dtype), axis_list(dim), keepdim))


def nanmean(input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The mean of the elements that are not NaN; NaN of nothing."""
    node, axes = _cast(input, dtype), axis_list(dim)
    if node.dtype.kind != "f":
        raise RuntimeError(f"nanmean(): expected input to have floating point dtype but got {node.type}")
    wide = ew.cast(node, node.dtype.working)
    count = reduce.sum(ew.cast(ew.eq(wide, wide), wide.dtype), axes, keepdim)
    return wrap(ew.cast(ew.div(reduce.sum(_numbers(wide), axes, keepdim), count), node.dtype))


def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Product over one axis or all; gradients are exact also where elements are 0."""
    return _as(reduce.prod(_cast(input, dtype), axis_list(dim), keepdim), dtype)


def count_nonzero(input: Tensor, dim: Dim = None) -> Tensor:
    """How many elements are nonzero, int64."""
    return wrap(reduce.sum(ew.truth(node_of(input, "input")), axis_list(dim)))


# ---- extrema ------------------------------------------------------------------------------------------------


def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The largest element; with `dim`, (values, indices) along it; with another tensor, `maximum`.

    NaN wins. Without `dim` equals share the gradient, along `dim` the element found has it.
    """
    if isinstance(dim, Tensor) or other is not None:
        return pointwise.maximum(input, dim if other is None else other)
    return _extremum(input, dim, keepdim, reduce.max, reduce.argmax)


def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
    """The smallest element; with `dim`, (values, indices) along it; with another tensor, `minimum`.

    NaN wins. Without `dim` equals share the gradient, along `dim` the element found has it.
    """
    if isinstance(dim, Tensor) or other is not None:
        return pointwise.minimum(input, dim if other is None else other)
    return _extremum(input, dim, keepdim, reduce.min, reduce.argmin)


def _extremum(input: Tensor, dim: int | None, keepdim: bool, value: Any, arg: Any) -> Any:
    node = node_of(input, "input")
    if dim is None:
        return fresh(value(node), node)
    if not node.type.ndim:
        movement.normalize_axis(dim, 0)
        return ValuesIndices(fresh(node, node), wrap(create.full((), 0)))
    index = arg(_comparable(node), dim, keepdim=True)
    # Taken by index, so that the gradient goes to the element found, also among equals.
    values = indexing.take_along(node, index, dim)
    if not keepdim:
        values, index = movement.squeeze(values, dim), movement.squeeze(index, dim)
    return ValuesIndices(wrap(values), wrap(index))


def _comparable(x: Node) -> Node:
    """bool as uint8, which argmax takes."""
    return ew.cast(x, uint8) if x.dtype.kind == "b" else x


def amax(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The largest element over `dim`; NaN wins; equals share the gradient."""
    node = node_of(input, "input")
    return fresh(reduce.max(node, axis_list(dim), keepdim), node)


def amin(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The smallest element over `dim`; NaN wins; equals share the gradient."""
    node = node_of(input, "input")
    return fresh(reduce.min(node, axis_list(dim), keepdim), node)


def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """(min, max) over one axis or all; NaN wins; equals share the gradient."""
    return MinMax(amin(input, dim, keepdim), amax(input, dim, keepdim))


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the largest element is first met: int64, along `dim` or in the flattened tensor."""
    return wrap(reduce.argmax(node_of(input, "input"), dim, keepdim))


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the smallest element is first met: int64, along `dim` or in the flattened tensor."""
    return wrap(reduce.argmin(node_of(input, "input"), dim, keepdim))


# ---- truth ----------------------------------------------------------------------------------------------------


def any(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether one of the elements is nonzero; of uint8 as uint8, else as bool. An empty `dim` reduces nothing."""
    return _decided(reduce.any, input, dim, keepdim)


def all(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are nonzero; of uint8 as uint8, else as bool. An empty `dim` reduces nothing."""
    return _decided(reduce.all, input, dim, keepdim)


def _decided(rule: Any, input: Tensor, dim: Dim, keepdim: bool) -> Tensor:
    node = node_of(input, "input")
    nothing = isinstance(dim, Sequence) and not dim
    truth = ew.truth(node) if nothing else rule(node, axis_list(dim), keepdim)
    return wrap(ew.cast(truth, uint8)) if node.dtype is uint8 else fresh(truth, node)


# ---- spread ---------------------------------------------------------------------------------------------------


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
    """The square root of `var`; its gradient at 0 is 0."""
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
    centre = mean(input, None if isinstance(dim, bool) else dim, keepdim)
    return var(input, dim, unbiased, keepdim, correction=correction), centre


def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(std, mean)."""
    centre = mean(input, None if isinstance(dim, bool) else dim, keepdim)
    return std(input, dim, unbiased, keepdim, correction=correction), centre


# ---- norms ----------------------------------------------------------------------------------------------------


def logsumexp(input: Tensor, dim: Dim, keepdim: bool = False) -> Tensor:
    """log Σ exp(x) without overflow; -inf of a row of -inf, where its gradient is 0. Integers become float32."""
    node = node_of(input, "input")
    axes = movement.normalize_axes(axis_list(dim), node.type.ndim)
    wide = ew.cast(node, node.dtype.working) if node.dtype.kind == "f" else ew.mul(node, 1.0)
    result = composite.logsumexp(wide, axes, keepdim)
    return wrap(ew.cast(result, node.dtype) if node.dtype.kind == "f" else result)


def norm(
    input: Tensor, p: float | str | None = "fro", dim: Dim = None, keepdim: bool = False, dtype: DType | None = None
) -> Tensor:
    """(Σ |x|^p)^(1/p) over `dim`; p may be inf, -inf or 0; "fro" is 2. Its gradient at 0 is 0.

    p "nuc" is the sum of a matrix's singular values, over two dims.
    """
    if p == "nuc":
        from tinygrad_lite.functional.linalg import matrix_norm

        axes = tuple(range(input.ndim)) if dim is None else dim
        return matrix_norm(input, "nuc", axes, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm: p must be a number or 'fro', or 'nuc', got {p!r}")
    return vector_norm(input, 2.0 if p is None or p == "fro" else p, dim, keepdim, dtype=dtype)


def vector_norm(
    x: Tensor, ord: Scalar | str = 2, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """(Σ |x|^ord)^(1/ord) over `dim`, all axes by default; ord may be inf, -inf or 0. Its gradient at 0 is 0.

    Raises:
        RuntimeError: not floating. IndexError: inf or -inf of nothing.
    """
    node = _cast(x, dtype)
    if node.dtype.kind != "f":
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {node.type}")
    wide = ew.cast(node, node.dtype.working)
    return wrap(ew.cast(_norm(wide, float(ord), axis_list(dim), keepdim), node.dtype))


def _norm(x: Node, order: float, axes: Any, keepdim: bool) -> Node:
    if order == 2:
        return reduce.root(reduce.sum(ew.mul(x, x), axes, keepdim))
    size = ew.abs(x)
    if math.isinf(order):
        return (reduce.max if order > 0 else reduce.min)(size, axes, keepdim)
    if order == 1:
        return reduce.sum(size, axes, keepdim)
    zero = ew.eq(x, 0.0)
    if order == 0:  # the product keeps the result in the graph, with the gradient 0
        return reduce.sum(ew.where(zero, 0.0, ew.add(ew.mul(ew.sign(size), 0.0), 1.0)), axes, keepdim)
    powers = ew.power(ew.where(zero, 1.0, size), order)
    total = reduce.sum(ew.where(zero, 0.0 if order > 0 else math.inf, powers), axes, keepdim)
    flat = ew.logical_or(ew.eq(total, 0.0), ew.eq(total, math.inf))
    end = ew.power(ew.detach(total), 1 / order)
    return ew.where(flat, end, ew.power(ew.where(flat, 1.0, total), 1 / order))


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other."""
    node_of(input, "input"), node_of(other, "other")
    return vector_norm(pointwise.sub(input, other), p)


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Slices along `dim` scaled down to a p-norm of `maxnorm` at most. RuntimeError for vectors and for maxnorm < 0."""
    node = node_of(input, "input")
    if node.type.ndim < 2 or maxnorm < 0 or p <= 0:
        raise RuntimeError(f"renorm: needs two axes, p > 0 and maxnorm >= 0, got {node.type}, {p} and {maxnorm}")
    axis = movement.normalize_axis(dim, node.type.ndim)
    others = tuple(a for a in range(node.type.ndim) if a != axis)
    sizes = vector_norm(input, p, others, True)._read()
    factor = ew.where(ew.gt(sizes, maxnorm), ew.div(maxnorm, ew.add(sizes, 1e-7)), 1.0)
    return wrap(ew.mul(node, factor))
