"""Max, average, power-average and adaptive pooling, and max_unpool."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_lite.functional.common import node_of, wrap
from tinygrad_lite.functional.convolution import Size, batched, each_axis
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import create, indexing, movement, pool
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.pool import Pool

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]


def _windows(
    name: str,
    x: Node,
    dims: int,
    kernel_size: Size,
    stride: Size | None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
) -> Pool:
    batched(x, dims, name)  # raises for another number of axes
    sizes = each_axis(kernel_size, dims, "kernel_size")
    steps = sizes if stride is None or stride in ([], ()) else each_axis(stride, dims, "stride")
    amounts, gaps = each_axis(padding, dims, "padding"), each_axis(dilation, dims, "dilation")
    if name.startswith("max") and 0 in x.shape[-dims - 1 :]:
        raise RuntimeError(f"{name}: sizes other than the batch's must be positive, got {x.type}")
    return Pool(name, x.shape, sizes, steps, amounts, gaps, ceil_mode)


def _max_pool(dims: int) -> tuple[Callable[..., Any], Callable[..., tuple[Tensor, Tensor]]]:
    name = f"max_pool{dims}d"

    def with_indices(
        input: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: bool = True,
    ) -> tuple[Tensor, Tensor]:
        x = node_of(input, "input")
        windows = _windows(name, x, dims, kernel_size, stride, padding, dilation, ceil_mode)
        values, index = pool.max_pool(x, windows, True)
        assert index is not None
        return wrap(values), wrap(index)

    def max_pool(
        input: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        if return_indices:
            return with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
        x = node_of(input, "input")
        return wrap(pool.max_pool(x, _windows(name, x, dims, kernel_size, stride, padding, dilation, ceil_mode))[0])

    max_pool.__doc__ = f"""The largest element of each window of (N, C, *S) or (C, *S), S having {dims} axes; NaN wins.

    `stride` defaults to kernel_size; padding counts as -inf; `return_indices` adds int64 positions in the input's S.
    The gradient goes to the first of equal elements.

    Raises:
        RuntimeError: sizes that do not fit.
    """
    with_indices.__doc__ = f"{name} with return_indices=True."
    return _named(max_pool, name), _named(with_indices, f"{name}_with_indices")


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    return function


def _mean(
    name: str,
    dims: int,
    input: Tensor,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Tensor:
    x = node_of(input, "input")
    windows = _windows(name, x, dims, kernel_size, stride, padding, 1, ceil_mode)
    return wrap(pool.avg_pool(x, windows, count_include_pad, divisor))


def avg_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of (N, C, L) or (C, L); see avg_pool2d."""
    return _mean("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def _avg_pool(dims: int) -> Callable[..., Tensor]:
    def avg_pool(
        input: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        name = f"avg_pool{dims}d"
        return _mean(name, dims, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    avg_pool.__doc__ = f"""The mean of each window of (N, C, *S) or (C, *S), S having {dims} axes.

    `stride` defaults to kernel_size; padding is of zeros, which `count_include_pad` counts; `divisor_override` stands
    in for the count.

    Raises:
        RuntimeError: sizes that do not fit, or a divisor of 0.
    """
    return _named(avg_pool, f"avg_pool{dims}d")


avg_pool2d, avg_pool3d = _avg_pool(2), _avg_pool(3)
max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)


def _lp_pool(dims: int) -> Callable[..., Tensor]:
    name = f"lp_pool{dims}d"

    def lp_pool(
        input: Tensor,
        norm_type: int | float,
        kernel_size: Size,
        stride: Size | None = None,
        ceil_mode: bool = False,
    ) -> Tensor:
        x = node_of(input, "input")
        windows = _windows(name, x, dims, kernel_size, stride, ceil_mode=ceil_mode)
        mean = pool.avg_pool(ew.pow(x, float(norm_type)), windows)
        size = ew.where(ew.gt(ew.abs(mean), 0.0), ew.abs(mean), 0.0)
        total = ew.mul(ew.mul(ew.sign(mean), size), float(math.prod(windows.sizes)))
        return wrap(ew.pow(total, 1.0 / float(norm_type)))

    lp_pool.__doc__ = f"(Σ x^norm_type)^(1 / norm_type) of each window of (N, C, *S) or (C, *S), S having {dims} axes."
    return _named(lp_pool, name)


lp_pool1d, lp_pool2d, lp_pool3d = (_lp_pool(dims) for dims in (1, 2, 3))


# ---- adaptive -----------------------------------------------------------------------------------------------------


def _outputs(name: str, x: Node, dims: int, output_size: Any) -> tuple[int, ...]:
    batched(x, dims, name)
    given = [output_size] * dims if output_size is None or isinstance(output_size, int) else list(output_size)
    if len(given) == 1:
        given = given * dims
    if len(given) != dims:
        raise RuntimeError(f"{name}: output_size must be {dims} sizes, got {output_size}")
    lengths = x.shape[x.type.ndim - dims :]
    wanted = tuple(n if o is None else int(o) for n, o in zip(lengths, given, strict=True))
    if min(wanted) < 0:
        raise RuntimeError(f"{name}: elements of output_size must be greater than or equal to 0, got {output_size}")
    if 0 in x.shape[x.type.ndim - dims - 1 :]:
        raise RuntimeError(f"{name}: expected input to have non-zero size for non-batch dimensions, got {x.type}")
    return wanted


def _adaptive_avg_pool(dims: int) -> Callable[[Tensor, Any], Tensor]:
    name = f"adaptive_avg_pool{dims}d"

    def adaptive_avg_pool(input: Tensor, output_size: Any) -> Tensor:
        x = node_of(input, "input")
        return wrap(pool.adaptive_avg_pool(x, _outputs(name, x, dims, output_size), name))

    adaptive_avg_pool.__doc__ = f"Means over `output_size` even windows of {dims} axes; an entry None keeps the size."
    return _named(adaptive_avg_pool, name)


def _adaptive_max_pool(dims: int) -> tuple[Callable[..., Any], Callable[..., tuple[Tensor, Tensor]]]:
    name = f"adaptive_max_pool{dims}d"

    def with_indices(input: Tensor, output_size: Any, return_indices: bool = True) -> tuple[Tensor, Tensor]:
        x = node_of(input, "input")
        values, index = pool.adaptive_max_pool(x, _outputs(name, x, dims, output_size), name, True)
        assert index is not None
        return wrap(values), wrap(index)

    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        if return_indices:
            return with_indices(input, output_size)
        x = node_of(input, "input")
        return wrap(pool.adaptive_max_pool(x, _outputs(name, x, dims, output_size), name)[0])

    adaptive_max_pool.__doc__ = f"Maxima over `output_size` even windows of {dims} axes; an entry None keeps the size."
    with_indices.__doc__ = f"{name} with return_indices=True."
    return _named(adaptive_max_pool, name), _named(with_indices, f"{name}_with_indices")


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive_avg_pool(dims) for dims in (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive_max_pool(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive_max_pool(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive_max_pool(3)


# ---- unpooling -----------------------------------------------------------------------------------------------------


def _unpooled_size(x: Node, dims: int, sizes: Any, steps: Any, padding: Any, output_size: Any) -> tuple[int, ...]:
    lengths = x.shape[x.type.ndim - dims :]
    default = [(n - 1) * s + k - 2 * p for n, k, s, p in zip(lengths, sizes, steps, padding, strict=True)]
    if output_size is None:
        return tuple(default)
    wanted = list(output_size)[-dims:]
    if len(output_size) not in (dims, dims + 1, dims + 2):
        raise ValueError(f"output_size should be a sequence of {dims} to {dims + 2} elements, got {len(output_size)}")
    for n, d, s in zip(wanted, default, steps, strict=True):
        if not d - s < n < d + s:
            raise ValueError(f"invalid output_size {wanted}: each must be less than a stride away from {default}")
    return tuple(int(n) for n in wanted)


def _max_unpool(dims: int) -> Callable[..., Tensor]:
    name = f"max_unpool{dims}d"

    def max_unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        x, index = node_of(input, "input"), node_of(indices, "indices")
        batched(x, dims, name)
        if index.shape != x.shape:
            raise RuntimeError(f"{name}: shape of indices should match shape of input, got {index.type} and {x.type}")
        sizes = each_axis(kernel_size, dims, "kernel_size")
        steps = sizes if stride is None else each_axis(stride, dims, "stride")
        target = _unpooled_size(x, dims, sizes, steps, each_axis(padding, dims, "padding"), output_size)
        lead = x.shape[: x.type.ndim - dims]
        flat = [movement.reshape(n, (*lead, math.prod(n.shape[n.type.ndim - dims :]))) for n in (x, index)]
        base = create.zeros((*lead, math.prod(target)), x.dtype)
        return wrap(movement.reshape(indexing.put_along(base, flat[1], flat[0], -1), (*lead, *target)))

    max_unpool.__doc__ = f"""Zeros, but for the elements of `input` at the positions that max_pool{dims}d returned.

    Raises:
        ValueError: an output_size out of reach. IndexError: a position outside it.
    """
    return _named(max_unpool, name)


max_unpool1d, max_unpool2d, max_unpool3d = (_max_unpool(dims) for dims in (1, 2, 3))
