"""Fractional max pooling: windows at pseudo-random places meet any output size. Graham 2014, arXiv:1412.6071."""

from __future__ import annotations

import itertools
from typing import Any

from tinygrad_lite import creation, functional, randomness
from tinygrad_lite.functional.convolution import each_axis
from tinygrad_lite.ir.types import int64
from tinygrad_lite.nn.module import Module
from tinygrad_lite.tensor import Tensor


def _pooled(
    name: str, dims: int, input: Tensor, kernel: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The largest element of each window of (N, C, *S) or (C, *S), and where it stood in S."""
    if input.dim() not in (dims + 1, dims + 2):
        raise RuntimeError(f"{name}: expected an input of {dims + 1} or {dims + 2} axes, got {list(input.shape)}")
    x = input if input.dim() == dims + 2 else input.unsqueeze(0)
    places, sizes = tuple(x.shape[2:]), each_axis(kernel, dims, "kernel_size")
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{name}: requires specifying either an output_size or an output_ratio")
    if output_size is not None:
        wanted = each_axis(output_size, dims, "output_size")
    else:
        ratios = output_ratio if isinstance(output_ratio, tuple | list) else (output_ratio,) * dims
        if len(ratios) != dims or not all(0 < r < 1 for r in ratios):
            raise ValueError(f"{name}: output_ratio must lie between 0 and 1, got {output_ratio}")
        wanted = tuple(int(n * r) for n, r in zip(places, ratios, strict=True))
    for n, out, k in zip(places, wanted, sizes, strict=True):
        if out < 1 or out + k - 1 > n:
            raise RuntimeError(f"{name}: kernel_size {list(sizes)} and output {list(wanted)} do not fit {list(places)}")
    shape = (x.shape[0], x.shape[1], dims)
    if samples is None:
        samples = randomness.rand(*shape, dtype=input.dtype)
    elif tuple(samples.shape) != shape:
        raise RuntimeError(f"{name}: _random_samples must have shape {list(shape)}, got {list(samples.shape)}")
    order = reversed(range(dims)) if dims == 2 else range(dims)  # PyTorch's: of images the width is drawn first
    starts = [
        _starts(samples[:, :, i], *axis) for i, axis in zip(order, zip(places, wanted, sizes, strict=True), strict=True)
    ]
    found, at = _largest(x, starts, sizes)
    return (found, at) if x is input else (found.squeeze(0), at.squeeze(0))


def _starts(sample: Tensor, n: int, out: int, kernel: int) -> Tensor:
    """(N, C, out): where windows begin along an axis of n."""
    if out == 1:
        return creation.full((*sample.shape, 1), n - kernel, dtype=int64)
    step = (n - kernel) / (out - 1)
    sample = sample.unsqueeze(-1)
    steps = ((creation.arange(out - 1, dtype=sample.dtype) + sample) * step).to(int64) - (sample * step).to(int64)
    return functional.cat([steps, creation.full((*sample.shape[:2], 1), n - kernel, dtype=int64)], dim=-1)


def _largest(x: Tensor, starts: list[Tensor], sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    batch, channels, *places = x.shape
    dims, out = len(places), [s.shape[-1] for s in starts]
    windows = []
    for offset in itertools.product(*(range(k) for k in sizes)):
        flat = creation.zeros((batch, channels, *(1,) * dims), dtype=int64)
        for axis, (start, shift, n) in enumerate(zip(starts, offset, places, strict=True)):
            along = (batch, channels, *(start.shape[-1] if i == axis else 1 for i in range(dims)))
            flat = flat * n + (start + shift).reshape(along)
        windows.append(flat.expand(batch, channels, *out).reshape(batch, channels, -1))
    at = functional.stack(windows, dim=-1)
    values = x.reshape(batch, channels, -1).gather(2, at.reshape(batch, channels, -1)).reshape(at.shape)
    best, which = values.max(dim=-1)
    where = at.gather(-1, which.unsqueeze(-1)).squeeze(-1)
    return best.reshape(batch, channels, *out), where.reshape(batch, channels, *out)


def _function(dims: int) -> Any:
    name = f"fractional_max_pool{dims}d"

    def with_indices(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        return _pooled(name, dims, input, kernel_size, output_size, output_ratio, _random_samples)

    def pool(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        found = _pooled(name, dims, input, kernel_size, output_size, output_ratio, _random_samples)
        return found if return_indices else found[0]

    pool.__doc__ = f"""The largest element of windows at random places of (N, C, *S) or (C, *S), S of {dims} axes.

    Give `output_size`, or `output_ratio` of the input's. `_random_samples` (N, C, {dims}) in [0, 1) places the windows.

    Raises:
        ValueError: both sizes, or neither. RuntimeError: a window that does not fit.
    """
    with_indices.__doc__ = f"{name} with return_indices=True."
    for function, label in ((pool, name), (with_indices, f"{name}_with_indices")):
        function.__name__ = function.__qualname__ = label
    return pool, with_indices


fractional_max_pool2d, fractional_max_pool2d_with_indices = _function(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _function(3)


class _FractionalMaxPool(Module):
    dims: int

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{type(self).__name__}: give either output_size or output_ratio")
        self.kernel_size, self.return_indices = each_axis(kernel_size, self.dims, "kernel_size"), return_indices
        self.output_size, self.output_ratio = output_size, output_ratio
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        function = fractional_max_pool2d if self.dims == 2 else fractional_max_pool3d
        sizes = (self.kernel_size, self.output_size, self.output_ratio, self.return_indices)
        return function(input, *sizes, self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest element of windows at pseudo-random places of (N, C, H, W) or (C, H, W)."""

    dims = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """FractionalMaxPool2d for (N, C, D, H, W) or (C, D, H, W)."""

    dims = 3
