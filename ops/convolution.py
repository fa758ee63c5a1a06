"""Convolution as an op of its own: the sums run in registers, straight from a padded image, with no matrix of columns.

Three ops, one kernel each: forward, and the gradients by the input and by the weight. Higher derivatives go through the
composite in `conv.py`. Cross-correlation as in LeCun et al. (1989); products of shifted images as in the implicit
method of Chetlur et al., "cuDNN" (2014).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, moved_bytes, register
from tinygrad_lite.ir.record import mode, record
from tinygrad_lite.ir.types import TensorType, float32

Array = np.ndarray[Any, Any]
Pair = tuple[int, int]
Pads = tuple[Pair, Pair]
Ints = tuple[int, ...]


def out_size(size: int, kernel: int, stride: int, pads: Pair, dilation: int) -> int:
    """Positions of a window along one axis."""
    return (size + sum(pads) - dilation * (kernel - 1) - 1) // stride + 1


def _out_shape(x: tuple[int, ...], w: tuple[int, ...], stride: Pair, padding: Pads, dilation: Pair) -> tuple[int, ...]:
    places = zip(x[2:], w[2:], stride, padding, dilation, strict=True)
    return (x[0], w[0], *(out_size(*each) for each in places))


def _infer_forward(x: TensorType, w: TensorType, *, stride: Pair, padding: Pads, dilation: Pair) -> TensorType:
    if not (x.ndim == w.ndim == 4 and x.dtype is w.dtype is float32 and x.shape[1] == w.shape[1]):
        raise TypeError(f"convolution: needs f32[N,C,H,W] and f32[O,C,KH,KW], got {x} and {w}")
    shape = _out_shape(x.shape, w.shape, stride, padding, dilation)
    if min(shape) < 1:
        raise RuntimeError(
            f"convolution: a window of {w} with dilation {dilation} is larger than {x} padded by {padding}"
        )
    return TensorType(x.dtype, shape)


def _infer_input(
    g: TensorType, w: TensorType, *, size: Pair, stride: Pair, padding: Pads, dilation: Pair
) -> TensorType:
    result = TensorType(g.dtype, (g.shape[0], w.shape[1], *size))
    _check_gradient(g, result, w, stride, padding, dilation)
    return result


def _infer_weight(
    g: TensorType, x: TensorType, *, kernel: Pair, stride: Pair, padding: Pads, dilation: Pair
) -> TensorType:
    result = TensorType(g.dtype, (g.shape[1], x.shape[1], *kernel))
    _check_gradient(g, x, result, stride, padding, dilation)
    return result


def _check_gradient(g: TensorType, x: TensorType, w: TensorType, stride: Pair, padding: Pads, dilation: Pair) -> None:
    if g != _infer_forward(x, w, stride=stride, padding=padding, dilation=dilation):
        raise RuntimeError(f"convolution: gradient {g} does not fit input {x} and weight {w}")


# ---- NumPy -----------------------------------------------------------------------------------------------


def _shifts(out: tuple[int, ...], kernel: Pair, stride: Pair, dilation: Pair) -> list[tuple[int, int, slice, slice]]:
    """For each place in the window, what of the padded image it meets."""
    (rows, columns), found = out[2:], []
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            top, left = i * dilation[0], j * dilation[1]
            down = slice(top, top + (rows - 1) * stride[0] + 1, stride[0])
            across = slice(left, left + (columns - 1) * stride[1] + 1, stride[1])
            found.append((i, j, down, across))
    return found


def _padded(x: Array, padding: Pads) -> Array:
    return np.pad(x, ((0, 0), (0, 0), *padding))


def _forward(x: Array, w: Array, *, stride: Pair, padding: Pads, dilation: Pair) -> Array:
    image = _padded(x, padding)
    out = np.zeros(_out_shape(x.shape, w.shape, stride, padding, dilation), x.dtype)
    for i, j, down, across in _shifts(out.shape, w.shape[2:], stride, dilation):
        out += np.einsum("nchw,oc->nohw", image[:, :, down, across], w[:, :, i, j], optimize=True)
    return out


def _by_input(g: Array, w: Array, *, size: Pair, stride: Pair, padding: Pads, dilation: Pair) -> Array:
    image = np.zeros((g.shape[0], w.shape[1], *(n + sum(p) for n, p in zip(size, padding, strict=True))), g.dtype)
    for i, j, down, across in _shifts(g.shape, w.shape[2:], stride, dilation):
        image[:, :, down, across] += np.einsum("nohw,oc->nchw", g, w[:, :, i, j], optimize=True)
    (top, _), (left, _) = padding
    return image[:, :, top : top + size[0], left : left + size[1]].copy()


def _by_weight(g: Array, x: Array, *, kernel: Pair, stride: Pair, padding: Pads, dilation: Pair) -> Array:
    image = _padded(x, padding)
    out = np.zeros((g.shape[1], x.shape[1], *kernel), g.dtype)
    for i, j, down, across in _shifts(g.shape, kernel, stride, dilation):
        out[:, :, i, j] = np.einsum("nohw,nchw->oc", g, image[:, :, down, across], optimize=True)
    return out


# ---- derivatives -----------------------------------------------------------------------------------------


def _vjp(g: Node, node: Node, i: int) -> Node:
    x, w = node.inputs
    if mode.grad_enabled:  # somebody will differentiate the gradient: give it ordinary ops
        return _composite_vjp(g, node, i)
    if i == 0:
        return record(BY_INPUT, g, w, size=x.shape[2:], **node.attrs)
    return record(BY_WEIGHT, g, x, kernel=w.shape[2:], **node.attrs)


def _composite_vjp(g: Node, node: Node, i: int) -> Node:
    from tinygrad_lite.ops import conv  # it builds on this op

    x, w = node.inputs
    return conv.gradient(g, x, w, conv.Geometry(**node.attrs), i)


def _cost(node: Node) -> Cost:
    a, b = node.inputs
    if node.op is FORWARD:
        return Cost(2 * node.type.size * math.prod(b.shape[1:]), moved_bytes(node))
    if node.op is BY_INPUT:
        return Cost(2 * a.type.size * math.prod(b.shape[1:]), moved_bytes(node))
    return Cost(2 * a.type.size * math.prod(node.shape[1:]), moved_bytes(node))


def _op(
    name: str, infer: Callable[..., TensorType], rule: Callable[..., Array], vjp: Any = None, traits: str = ""
) -> Op:
    return register(Op(name, Kind.CONVOLUTION, infer, rule, vjp, cost=_cost, traits=frozenset(traits.split())))


FORWARD = _op("convolution", _infer_forward, _forward, _vjp)
BY_INPUT = _op("convolution_by_input", _infer_input, _by_input)
BY_WEIGHT = _op("convolution_by_weight", _infer_weight, _by_weight, traits="dense")


def applies(x: Node, w: Node, padding: tuple[Pair, ...], groups: int) -> bool:
    """Whether the op takes these operands: images in float32, one group, padding that adds, nothing empty."""
    plain = x.type.ndim == w.type.ndim == 4 and groups == 1 and min(n for p in padding for n in p) >= 0
    return plain and x.dtype is w.dtype is float32 and 0 not in (*x.shape, *w.shape)


def convolution(x: Node, w: Node, stride: Ints, padding: tuple[Pair, ...], dilation: Ints) -> Node:
    """Cross-correlation of x (N, C, H, W) with w (O, C, KH, KW): (N, O, positions)."""
    return record(FORWARD, x, w, stride=tuple(stride), padding=tuple(map(tuple, padding)), dilation=tuple(dilation))
