"""Convolutions as padding, windows and one matrix product; transposed ones as a product and overlap-add.

The columns of a batch lie as (C · window, N · positions): one product with the weights (O, C · window) serves the whole
batch, and its gradients by weights and by columns are single products too. Where every output channel has one input
channel (depthwise), windows are multiplied and summed where they lie, without columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import bool_
from tinygrad_lite.ops import contract, convolution, create, elementwise, movement, reduce
from tinygrad_lite.ops.window import unwindow, window

Ints = tuple[int, ...]
Pairs = Sequence[tuple[int, int]]


class Geometry(NamedTuple):
    """How a window moves over the spatial axes; one entry an axis."""

    stride: Ints
    padding: tuple[tuple[int, int], ...]  # before, after
    dilation: Ints


def padded(x: Node, amounts: Pairs, value: float | int = 0) -> Node:
    """`value` before and after the last len(amounts) axes; negative amounts cut."""
    first = x.type.ndim - len(amounts)
    low, high = ([0] * first + [max(a, 0) for a in side] for side in zip(*amounts, strict=True))
    cut_low, cut_high = ([0] * first + [max(-a, 0) for a in side] for side in zip(*amounts, strict=True))
    stops = [s - c for s, c in zip(x.shape, cut_high, strict=True)]
    if any(b < a for a, b in zip(cut_low, stops, strict=True)):
        raise RuntimeError(f"pad: {list(amounts)} cuts more than there is of {x.type}")
    x = movement.slice_(x, cut_low, stops)
    if value == 0:
        return movement.pad(x, low, high)
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        parts = [_filled(x, axis, before, value), x, _filled(x, axis, after, value)]
        x = movement.concat([p for p in parts if p is x or p.shape[axis]], axis) if before or after else x
    return x


def _filled(x: Node, axis: int, size: int, value: float | int) -> Node:
    return create.full([size if a == axis else s for a, s in enumerate(x.shape)], value, x.dtype)


def convolve(x: Node, weight: Node, bias: Node | None, geometry: Geometry, groups: int = 1) -> Node:
    """Cross-correlation of x (N, C, *S) with weight (O, C / groups, *K): (N, O, *positions).

    LeCun et al., Neural Computation 1 (1989); the arrangement as a product: Chellapilla, Puri, Simard, IWFHR 2006.

    Raises:
        RuntimeError: shapes, dtypes or groups that do not fit; a window larger than the padded input.
    """
    _check(x, weight, bias, groups, weight.shape[0] if weight.type.ndim else 0, transposed=False)
    _check_fits(x, weight.shape[2:], geometry)
    if convolution.applies(x, weight, geometry.padding, groups):
        result = convolution.convolution(x, weight, *geometry)
    else:
        result = by_windows(x, weight, geometry, groups)
    return result if bias is None else elementwise.add(result, _per_channel(bias, result))


def by_windows(x: Node, weight: Node, geometry: Geometry, groups: int = 1) -> Node:
    """`convolve` in windows and products, of operands that fit together."""
    kernel = weight.shape[2:]
    x = padded(x, geometry.padding)
    axes = tuple(range(2, x.type.ndim))
    plain = all(k == 1 for k in kernel) and all(s == 1 for s in geometry.stride)
    if plain:
        windows = movement.reshape(x, (*x.shape, *kernel))
    else:
        windows = window(x, axes, kernel, geometry.stride, geometry.dilation)
    depthwise = groups == x.shape[1] == weight.shape[0] and not plain
    return _depthwise(windows, weight) if depthwise else _product(windows, weight, groups)


def gradient(g: Node, x: Node, weight: Node, geometry: Geometry, i: int) -> Node:
    """The gradient of `convolve` by x (i = 0) or weight (i = 1), in one group, from that of its result."""
    kernel, axes, order = weight.shape[2:], tuple(range(2, x.type.ndim)), (geometry.stride, geometry.dilation)
    if i == 1:
        columns = _columns(window(padded(x, geometry.padding), axes, kernel, *order), len(axes))
        rows = movement.reshape(movement.transpose(g, 0, 1), (g.shape[1], -1))
        return movement.reshape(contract.matmul(rows, movement.transpose(columns, 0, 1)), weight.shape)
    full = [n + low + high for n, (low, high) in zip(x.shape[2:], geometry.padding, strict=True)]
    whole = unwindow(create.zeros((*x.shape[:2], *full), x.dtype), _spread(g, weight, 1), axes, kernel, *order)
    return padded(whole, [(-low, -high) for low, high in geometry.padding])


def _columns(windows: Node, dims: int) -> Node:
    """windows (N, C, *P, *K) as (C · K, N · P)."""
    order = (1, *range(2 + dims, 2 + 2 * dims), 0, *range(2, 2 + dims))
    rows = windows.shape[1] * math.prod(windows.shape[2 + dims :])
    return movement.reshape(movement.permute(windows, order), (rows, -1))


def _per_channel(bias: Node, x: Node) -> Node:
    return movement.reshape(bias, (-1, *(1,) * (x.type.ndim - 2)))


def _product(windows: Node, weight: Node, groups: int) -> Node:
    """windows (N, C, *P, *K) and weight (O, C / groups, *K)."""
    dims = weight.type.ndim - 2
    batch, channels, places, kernel = windows.shape[0], windows.shape[1], windows.shape[2 : 2 + dims], weight.shape[2:]
    order = (1, *range(2 + dims, 2 + 2 * dims), 0, *range(2, 2 + dims))
    inner, outer = channels // groups * math.prod(kernel), batch * math.prod(places)
    lead = () if groups == 1 else (groups,)
    columns = movement.reshape(movement.permute(windows, order), (*lead, inner, outer))
    rows = movement.reshape(weight, (*lead, weight.shape[0] // groups, inner))
    product = movement.reshape(contract.matmul(rows, columns), (weight.shape[0], batch, *places))
    return movement.transpose(product, 0, 1)


def _depthwise(windows: Node, weight: Node) -> Node:
    """windows (N, C, *P, *K) and weight (C, 1, *K), summed over K with the last axis of P innermost."""
    dims = weight.type.ndim - 2
    moved = movement.permute(windows, _columnwise(2, dims))
    shape = (weight.shape[0], *(1,) * (dims - 1), *weight.shape[2:], 1)
    axes = tuple(range(1 + dims, 1 + 2 * dims))
    return reduce.sum(elementwise.mul(moved, movement.reshape(weight, shape)), axes)


def _columnwise(lead: int, dims: int) -> tuple[int, ...]:
    """The order of (*lead, *P, *K) in which the last axis of P comes last: sums over K then add rows to rows."""
    return (*range(lead + dims - 1), *range(lead + dims, lead + 2 * dims), lead + dims - 1)


def convolve_transposed(
    x: Node, weight: Node, bias: Node | None, geometry: Geometry, output_padding: Ints, groups: int = 1
) -> Node:
    """The adjoint of `convolve` in its input: x (N, C, *S), weight (C, O / groups, *K), to (N, O, *T).

    T = (S - 1) stride - padding before and after + dilation (K - 1) + 1 + output_padding.

    Raises:
        RuntimeError: shapes, dtypes or groups that do not fit; an output_padding not below stride or dilation.
    """
    outputs = weight.shape[1] * groups if weight.type.ndim > 1 else 0
    _check(x, weight, bias, groups, outputs, transposed=True)
    for extra, s, d in zip(output_padding, geometry.stride, geometry.dilation, strict=True):
        if extra >= max(s, d):
            raise RuntimeError(
                f"output padding must be smaller than either stride or dilation, but got output_padding "
                f"{list(output_padding)}, stride {list(geometry.stride)}, dilation {list(geometry.dilation)}"
            )
    windows = _spread(x, weight, groups)
    kernel, axes = weight.shape[2:], tuple(range(2, x.type.ndim))
    sizes = zip(x.shape[2:], kernel, geometry.stride, geometry.dilation, strict=True)
    full = [(n - 1) * s + d * (k - 1) + 1 for n, k, s, d in sizes]
    base = create.zeros((x.shape[0], outputs, *full), x.dtype)
    whole = unwindow(base, windows, axes, kernel, geometry.stride, geometry.dilation)
    amounts = [(-low, extra - high) for (low, high), extra in zip(geometry.padding, output_padding, strict=True)]
    if any(f + sum(a) < 1 for f, a in zip(full, amounts, strict=True)):
        raise RuntimeError(
            f"conv_transpose{len(kernel)}d: padding {list(geometry.padding)} leaves nothing of an output of {full}"
        )
    result = padded(whole, amounts)
    return result if bias is None else elementwise.add(result, _per_channel(bias, result))


def _spread(x: Node, weight: Node, groups: int) -> Node:
    """What every input position adds to the window around it: (N, O, *S, *K)."""
    batch, channels, places = x.shape[0], x.shape[1], x.shape[2:]
    kernel, dims = weight.shape[2:], len(places)
    inputs, outputs, lead = channels // groups, weight.shape[1], () if groups == 1 else (groups,)
    rows = movement.reshape(weight, (*lead, inputs, outputs * math.prod(kernel)))
    columns = movement.reshape(movement.transpose(x, 0, 1), (*lead, inputs, batch * math.prod(places)))
    product = contract.matmul(movement.transpose(rows, -2, -1), columns)
    split = movement.reshape(product, (groups * outputs, *kernel, batch, *places))
    return movement.permute(split, (1 + dims, 0, *range(2 + dims, 2 + 2 * dims), *range(1, 1 + dims)))


def _check(x: Node, weight: Node, bias: Node | None, groups: int, outputs: int, transposed: bool) -> None:
    if weight.type.ndim < 3 or x.type.ndim != weight.type.ndim:
        raise RuntimeError(f"conv: expected an input of {weight.type.ndim} axes for weight {weight.type}, got {x.type}")
    if weight.dtype is not x.dtype or x.dtype is bool_ or (bias is not None and bias.dtype is not x.dtype):
        types = ", ".join(str(t.type) for t in (x, weight, bias) if t is not None)
        raise RuntimeError(f"conv: input, weight and bias must have one number dtype, got {types}")
    divided = weight.shape[0]
    if groups < 1 or divided % groups:
        raise RuntimeError(f"conv: {divided} channels of weight {weight.type} cannot be divided into {groups} groups")
    wanted = weight.shape[0] if transposed else weight.shape[1] * groups
    if x.shape[1] != wanted:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(x.shape)} to have "
            f"{wanted} channels, but got {x.shape[1]} channels instead"
        )
    if bias is not None and bias.shape != (outputs,):
        raise RuntimeError(f"conv: expected bias of shape [{outputs}], got {bias.type}")
    if 0 in weight.shape:
        raise RuntimeError(f"conv: weight {weight.type} should not be empty")


def _check_fits(x: Node, kernel: Ints, geometry: Geometry) -> None:
    sizes = [n + low + high for n, (low, high) in zip(x.shape[2:], geometry.padding, strict=True)]
    extents = [d * (k - 1) + 1 for k, d in zip(kernel, geometry.dilation, strict=True)]
    if any(n < e for n, e in zip(sizes, extents, strict=True)):
        raise RuntimeError(
            f"conv{len(kernel)}d: Calculated padded input size per channel: {sizes}. Kernel size: {extents}. "
            "Kernel size can't be greater than actual input size"
        )
