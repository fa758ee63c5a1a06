"""Convolutions, transposed convolutions, unfold and fold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_lite.functional.common import fresh, node_of, wrap
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import create, movement
from tinygrad_lite.ops.conv import Geometry, convolve, convolve_transposed, padded
from tinygrad_lite.ops.window import positions, unwindow, window

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "fold",
    "unfold",
]

Size = int | Sequence[int]


def each_axis(value: Any, dims: int, name: str) -> tuple[int, ...]:
    """One integer an axis, of one for all or a sequence.

    Raises:
        TypeError: not integers. RuntimeError: another number of them.
    """
    given = [value] if isinstance(value, int) or not isinstance(value, Sequence) else list(value)
    if any(isinstance(v, bool) or not hasattr(v, "__index__") for v in given):
        raise TypeError(f"{name} must be an int or a tuple of {dims} ints, got {value!r}")
    numbers = tuple(int(v.__index__()) for v in given)
    if len(numbers) not in (1, dims):
        raise RuntimeError(f"expected {name} to be a single integer or a list of {dims} values, but got {name}={value}")
    return numbers * dims if len(numbers) == 1 else numbers


def _positive(value: Any, dims: int, name: str) -> tuple[int, ...]:
    numbers = each_axis(value, dims, name)
    if min(numbers) < 1:
        raise RuntimeError(f"non-positive {name} is not supported, got {list(numbers)}")
    return numbers


def batched(x: Node, dims: int, name: str) -> tuple[Node, bool]:
    """x as (N, C, *S), and whether it lacked N. RuntimeError for another number of axes."""
    if x.type.ndim == dims + 2:
        return x, False
    if x.type.ndim != dims + 1:
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but got input of size: "
            f"{list(x.shape)}"
        )
    return movement.unsqueeze(x, 0), True


def _geometry(stride: Any, padding: Any, dilation: Any, kernel: tuple[int, ...]) -> Geometry:
    dims = len(kernel)
    steps, gaps = _positive(stride, dims, "stride"), _positive(dilation, dims, "dilation")
    if not isinstance(padding, str):
        amounts = each_axis(padding, dims, "padding")
        if min(amounts) < 0:
            raise RuntimeError(f"negative padding is not supported, got {list(amounts)}")
        return Geometry(steps, tuple((p, p) for p in amounts), gaps)
    if padding == "valid":
        return Geometry(steps, ((0, 0),) * dims, gaps)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string {padding!r}, should be one of 'valid', 'same'")
    if any(s != 1 for s in steps):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for d, k in zip(gaps, kernel, strict=True)]
    return Geometry(steps, tuple((t // 2, t - t // 2) for t in totals), gaps)


def _operands(name: str, dims: int, input: Tensor, weight: Tensor) -> tuple[Node, bool, Node]:
    x, w = node_of(input, "input"), node_of(weight, "weight")
    if w.type.ndim != dims + 2:
        raise RuntimeError(f"{name}: expected a weight of {dims + 2} axes, got {w.type}")
    return *batched(x, dims, name), w


def _convolution(dims: int) -> Callable[..., Tensor]:
    name = f"conv{dims}d"

    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
    ) -> Tensor:
        x, single, w = _operands(name, dims, input, weight)
        b = None if bias is None else node_of(bias, "bias")
        result = convolve(x, w, b, _geometry(stride, padding, dilation, w.shape[2:]), groups)
        return wrap(movement.squeeze(result, 0) if single else result)

    conv.__name__ = conv.__qualname__ = name
    conv.__doc__ = f"""Cross-correlation over {dims} axes.

    Shapes: input (N, C, *S) or (C, *S), weight (O, C / groups, *K), bias (O,).

    `padding` is an amount for both sides, "valid" (none) or "same" (the output has the input's size; stride 1 only).

    Raises:
        RuntimeError: shapes, dtypes, groups or options that do not fit.
    """
    return conv


def _transposed_convolution(dims: int) -> Callable[..., Tensor]:
    name = f"conv_transpose{dims}d"

    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Size = 1,
        padding: Size | str = 0,
        output_padding: Size = 0,
        groups: int = 1,
        dilation: Size = 1,
    ) -> Tensor:
        x, single, w = _operands(name, dims, input, weight)
        b = None if bias is None else node_of(bias, "bias")
        extra = each_axis(output_padding, dims, "output_padding")
        if min(extra) < 0:
            raise RuntimeError(f"negative output_padding is not supported, got {list(extra)}")
        if isinstance(padding, str):
            raise TypeError(f"{name}: padding must be an int or a tuple of ints, not {padding!r}")
        result = convolve_transposed(x, w, b, _geometry(stride, padding, dilation, w.shape[2:]), extra, groups)
        return wrap(movement.squeeze(result, 0) if single else result)

    conv.__name__ = conv.__qualname__ = name
    conv.__doc__ = f"""The adjoint of conv{dims}d.

    Shapes: input (N, C, *S) or (C, *S), weight (C, O / groups, *K), bias (O,).
    An axis becomes (S - 1) stride - 2 padding + dilation (K - 1) + 1 + output_padding long.

    Raises:
        RuntimeError: shapes, dtypes, groups or options that do not fit.
    """
    return conv


conv1d, conv2d, conv3d = (_convolution(dims) for dims in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (_transposed_convolution(dims) for dims in (1, 2, 3))


# ---- unfold and fold --------------------------------------------------------------------------------------------


def _blocks(name: str, kernel_size: Size, dilation: Size, padding: Size, stride: Size) -> tuple[tuple[int, ...], ...]:
    named = {"kernel_size": kernel_size, "dilation": dilation, "stride": stride}
    sizes = (_positive(value, 2, option) for option, value in named.items())
    amounts = each_axis(padding, 2, "padding")
    if min(amounts) < 0:
        raise RuntimeError(f"{name}: padding should be non-negative, got {list(amounts)}")
    return (*sizes, amounts)


def unfold(input: Tensor, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1) -> Tensor:
    """Windows of images as columns: (N, C, H, W) to (N, C · window, positions), or the same without N.

    Raises:
        RuntimeError: not an image; a window larger than the padded input.
    """
    sizes, gaps, steps, amounts = _blocks("unfold", kernel_size, dilation, padding, stride)
    x, single = batched(node_of(input, "input"), 2, "unfold")
    x = padded(x, [(p, p) for p in amounts])
    parts = movement.permute(window(x, (2, 3), sizes, steps, gaps), (0, 1, 4, 5, 2, 3))
    result = movement.reshape(parts, (x.shape[0], x.shape[1] * math.prod(sizes), math.prod(parts.shape[-2:])))
    return fresh(movement.squeeze(result, 0) if single else result, x)


def fold(
    input: Tensor,
    output_size: Size,
    kernel_size: Size,
    dilation: Size = 1,
    padding: Size = 0,
    stride: Size = 1,
) -> Tensor:
    """The adjoint of `unfold`: columns (N, C · window, positions) added up into images (N, C, *output_size).

    Raises:
        RuntimeError: columns that do not fit the windows or their number.
    """
    sizes, gaps, steps, amounts = _blocks("fold", kernel_size, dilation, padding, stride)
    target = _positive(output_size, 2, "output_size")
    x, single = batched(node_of(input, "input"), 1, "fold")
    whole = [n + 2 * p for n, p in zip(target, amounts, strict=True)]
    counts = [positions(n, *k) for n, *k in zip(whole, sizes, steps, gaps, strict=True)]
    area = math.prod(sizes)
    if x.shape[1] % area:
        raise RuntimeError(f"fold: {x.shape[1]} rows of input {x.type} cannot be divided by {area}, the window's size")
    if min(counts) < 1 or x.shape[2] != math.prod(counts):
        raise RuntimeError(f"fold: output_size {list(target)} has {counts} windows, input {x.type} has {x.shape[2]}")
    channels = x.shape[1] // area
    parts = movement.permute(movement.reshape(x, (x.shape[0], channels, *sizes, *counts)), (0, 1, 4, 5, 2, 3))
    base = create.zeros((x.shape[0], channels, *whole), x.dtype)
    result = padded(unwindow(base, parts, (2, 3), sizes, steps, gaps), [(-p, -p) for p in amounts])
    return wrap(movement.squeeze(result, 0) if single else result)
