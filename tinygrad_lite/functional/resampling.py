"""Images of other sizes and grids: interpolate, grid_sample, affine_grid, and the shuffles of pixels and channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_lite.functional.common import fresh, node_of, wrap
from tinygrad_lite.functional.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf
from tinygrad_lite.ir.types import float32, float64, int64, uint8
from tinygrad_lite.ops import contract, create, indexing, movement, special
from tinygrad_lite.ops import elementwise as ew

__all__ = [
    "affine_grid",
    "channel_shuffle",
    "grid_sample",
    "interpolate",
    "native_channel_shuffle",
    "pixel_shuffle",
    "pixel_unshuffle",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

_MODES = {"linear": (1,), "bilinear": (2,), "trilinear": (3,), "bicubic": (2,)}


# ---- interpolate --------------------------------------------------------------------------------------------------


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """(N, C, *S) resampled to `size`, or to floor(S · scale_factor).

    Modes: "nearest", "nearest-exact", "area"; "linear", "bilinear", "trilinear" (1, 2, 3 axes), "bicubic" (2). With
    `antialias` a smaller result averages over all that a pixel of it covers ("bilinear", "bicubic"). `align_corners`
    maps corner pixels' centres onto each other, instead of the corners of the images. Bytes are computed in float32,
    rounded and kept within 0 … 255.

    Raises:
        ValueError: options that do not fit. NotImplementedError: a mode for another number of axes.
    """
    x = node_of(input, "input")
    dims = x.type.ndim - 2
    if dims not in (1, 2, 3):
        raise NotImplementedError(f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {x.type.ndim}D)")
    exact = mode in ("nearest", "nearest-exact", "area")
    if exact and align_corners is not None:
        raise ValueError(
            f"align_corners option can only be set with linear | bilinear | bicubic | trilinear, not {mode}"
        )
    if not exact and mode not in _MODES:
        raise NotImplementedError(f"interpolate: unknown mode {mode!r}")
    if not exact and dims not in _MODES[mode]:
        raise NotImplementedError(f"Got {x.type.ndim}D input, but {mode} mode needs {_MODES[mode][0] + 2}D input")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError("Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor")
    sizes, factors = _target(x.shape[2:], size, scale_factor, recompute_scale_factor)
    if min(*sizes, *x.shape[1:]) < 1:
        raise RuntimeError(f"Input and output sizes should be greater than 0, got {x.type} and size {list(sizes)}")
    if mode == "area":
        pools = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}
        return pools[dims](input, sizes)
    bytes_ = x.dtype is uint8 and not exact
    x = ew.cast(x, float32) if bytes_ else x
    for i, (wanted, factor) in enumerate(zip(sizes, factors, strict=True)):
        if antialias:
            x = _smoothed(x, 2 + i, wanted, factor, mode, bool(align_corners))
        else:
            x = _resampled(x, 2 + i, wanted, factor, mode, bool(align_corners))
    if bytes_:
        x = ew.cast(ew.minimum(ew.maximum(special.round(x), 0.0), 255.0), uint8)
    return wrap(x) if x is not node_of(input) else input.clone()


def _target(
    lengths: Sequence[int], size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """Sizes of the result, and the scale factors that are to be used in place of the sizes' quotient."""
    dims = len(lengths)
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined, and one must be")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        sizes = tuple(size) if isinstance(size, Sequence) else (size,) * dims
        _check_number("size", sizes, dims)
        return tuple(int(s) for s in sizes), (None,) * dims
    factors = tuple(scale_factor) if isinstance(scale_factor, Sequence) else (scale_factor,) * dims
    _check_number("scale_factor", factors, dims)
    sizes = tuple(math.floor(n * f) for n, f in zip(lengths, factors, strict=True))
    return sizes, (None,) * dims if recompute else tuple(float(f) for f in factors)


def _check_number(name: str, values: Sequence[Any], dims: int) -> None:
    if len(values) != dims:
        raise ValueError(
            f"Input and output must have the same number of spatial dimensions: {dims}, got {name} {values}"
        )


def _resampled(x: Node, axis: int, wanted: int, factor: float | None, mode: str, align: bool) -> Node:
    length = x.shape[axis]
    if mode.startswith("nearest"):
        return _nearest(x, axis, wanted, factor, 0.5 if mode == "nearest-exact" else 0.0)
    dtype = float64 if x.dtype is float64 else float32
    numbers = create.arange(wanted, dtype=dtype)
    if align:
        step = (length - 1) / (wanted - 1) if wanted > 1 else 0.0
        at = ew.mul(numbers, step)
    else:
        step = 1.0 / factor if factor else length / wanted
        at = ew.sub(ew.mul(ew.add(numbers, 0.5), step), 0.5)
    if mode == "bicubic":
        return _cubic(x, axis, at)
    if wanted == length:  # as PyTorch has it, whatever the factor
        return x
    return _linear(x, axis, ew.maximum(at, 0.0))


def _smoothed(x: Node, axis: int, wanted: int, factor: float | None, mode: str, align: bool) -> Node:
    """Along an axis, by a filter as wide as a pixel of the result (at least as one of x's), as Pillow does: a product
    with the matrix of its weights."""
    length = x.shape[axis]
    step = (length - 1) / (wanted - 1) if align and wanted > 1 else 1.0 / factor if factor else length / wanted
    step = 0.0 if align and wanted == 1 else step
    wide = max(step, 1.0)
    reach = wide * (2.0 if mode == "bicubic" else 1.0)
    centres = (np.arange(wanted) + 0.5) * step
    first = np.maximum(np.trunc(centres - reach + 0.5), 0)[:, None]
    last = np.minimum(np.trunc(centres + reach + 0.5), length)[:, None]
    pixels = np.arange(length)[None]
    apart = np.abs((pixels - centres[:, None] + 0.5) / wide)
    weights = _bicubic_filter(apart) if mode == "bicubic" else np.maximum(1.0 - apart, 0.0)
    weights = np.where((pixels >= first) & (pixels < last), weights, 0.0)
    shares = np.ascontiguousarray((weights / weights.sum(1, keepdims=True)).T, x.dtype.working.numpy)
    matrix = wrap(leaf(shares))._read()
    moved = contract.matmul(ew.cast(movement.move_axis(x, axis, x.type.ndim - 1), x.dtype.working), matrix)
    return ew.cast(movement.move_axis(moved, x.type.ndim - 1, axis), x.dtype)


def _bicubic_filter(d: Any, a: float = -0.5) -> Any:
    """Keys' kernel (1981), with the coefficient that Pillow takes, of distances d >= 0."""
    near = ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    far = (((d - 5.0) * d + 8.0) * d - 4.0) * a
    return np.where(d < 1.0, near, np.where(d < 2.0, far, 0.0))


def _nearest(x: Node, axis: int, wanted: int, factor: float | None, shift: float) -> Node:
    length = x.shape[axis]
    step = 1.0 / factor if factor else length / wanted
    times, rest = divmod(wanted, length)
    # as PyTorch has it, the factor does not count where the size stays or doubles
    if not rest and (step * times == 1 or (times <= 2 and not shift)):
        return x if times == 1 else _repeated(x, axis, times)
    at = ew.mul(ew.add(create.arange(wanted, dtype=float32), shift), step)
    index = ew.minimum(ew.cast(ew.floor(at), int64), length - 1)
    return indexing.gather(x, index, axis)


def _repeated(x: Node, axis: int, times: int) -> Node:
    shape = x.shape
    wide = movement.expand(movement.unsqueeze(x, axis + 1), (*shape[: axis + 1], times, *shape[axis + 1 :]))
    return movement.reshape(wide, (*shape[:axis], shape[axis] * times, *shape[axis + 1 :]))


def _along(v: Node, axis: int, x: Node) -> Node:
    """A vector as factors along an axis of x, in x's dtype."""
    return ew.cast(movement.reshape(v, [-1 if a == axis else 1 for a in range(x.type.ndim)]), x.dtype)


def _linear(x: Node, axis: int, at: Node) -> Node:
    """Between the elements around positions `at` >= 0."""
    length = x.shape[axis]
    low = ew.minimum(ew.cast(ew.floor(at), int64), length - 1)
    high = ew.minimum(ew.add(low, 1), length - 1)
    share = _along(ew.minimum(ew.maximum(ew.sub(at, ew.cast(low, at.dtype)), 0.0), 1.0), axis, x)
    a, b = indexing.gather(x, low, axis), indexing.gather(x, high, axis)
    return ew.add(ew.mul(a, ew.sub(1.0, share)), ew.mul(b, share))


def _cubic(x: Node, axis: int, at: Node) -> Node:
    """Between four elements by Keys' kernel (1981) with a = -0.75; beyond the ends lie the end elements."""
    base = ew.floor(at)
    weights = _cubic_weights(ew.sub(at, base))
    start = ew.cast(base, int64)
    total: Node | None = None
    for offset, weight in enumerate(weights, -1):
        index = ew.minimum(ew.maximum(ew.add(start, offset), 0), x.shape[axis] - 1)
        part = ew.mul(indexing.gather(x, index, axis), _along(weight, axis, x))
        total = part if total is None else ew.add(total, part)
    assert total is not None
    return total


def _cubic_weights(t: Node) -> list[Node]:
    """Factors of the elements at -1, 0, 1 and 2 for a position t in [0, 1)."""
    near, far = ew.sub(1.0, t), ew.sub(2.0, t)
    return [_outer_cubic(ew.add(t, 1.0)), _inner_cubic(t), _inner_cubic(near), _outer_cubic(far)]


def _inner_cubic(d: Node, a: float = -0.75) -> Node:
    """(a + 2) d³ - (a + 3) d² + 1"""
    return ew.add(ew.mul(ew.mul(ew.sub(ew.mul(d, a + 2), a + 3), d), d), 1.0)


def _outer_cubic(d: Node, a: float = -0.75) -> Node:
    """a d³ - 5 a d² + 8 a d - 4 a"""
    return ew.sub(ew.mul(ew.add(ew.mul(ew.sub(ew.mul(d, a), 5 * a), d), 8 * a), d), 4 * a)


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """`interpolate` under its old name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "nearest", under its old name."""
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "bilinear" and align_corners=True, under its old name."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# ---- grids ----------------------------------------------------------------------------------------------------------


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Where an affine map sends the pixels of a result (N, C, *S): theta (N, d, d + 1) to (N, *S, d), for grid_sample.

    Jaderberg et al., arXiv:1506.02025.

    Raises:
        ValueError: shapes that do not fit. NotImplementedError: neither 2 nor 3 axes.
    """
    t, dims = node_of(theta, "theta"), len(size) - 2
    if dims not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, got {size}"
        )
    if t.dtype.kind != "f":
        raise ValueError(f"Expected theta to have floating point type, but got {t.dtype.name}")
    if t.type.ndim != 3 or t.shape[1:] != (dims, dims + 1) or t.shape[0] != size[0]:
        raise ValueError(
            f"Expected theta of shape {[size[0], dims, dims + 1]} for size {list(size)}, got {list(t.shape)}"
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {list(size)}")
    places = tuple(size[2:])
    axes = [_centres(n, t.dtype, bool(align_corners)) for n in places]
    columns = []
    for i in reversed(range(dims)):  # x before y before z
        line = movement.reshape(axes[i], [-1 if a == i else 1 for a in range(dims)])
        columns.append(movement.reshape(movement.broadcast_to(line, places), (math.prod(places), 1)))
    columns.append(create.ones((math.prod(places), 1), t.dtype))
    base = movement.concat(columns, 1)
    grid = contract.matmul(base, movement.transpose(t, 1, 2))
    return wrap(movement.reshape(grid, (size[0], *places, dims)))


def _centres(n: int, dtype: Any, align: bool) -> Node:
    """Pixel centres in [-1, 1], whose ends are the outermost centres or, unaligned, the outermost edges."""
    if align:
        step = 2.0 / (n - 1) if n > 1 else 0.0
        return ew.sub(ew.mul(create.arange(n, dtype=dtype), step), 1.0 if n > 1 else 0.0)
    return ew.sub(ew.div(ew.add(ew.mul(create.arange(n, dtype=dtype), 2.0), 1.0), float(n)), 1.0)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """(N, C, *S) read at the places `grid` (N, *P, d), x first, in [-1, 1]: (N, C, *P).

    Modes "bilinear" (trilinear for volumes), "nearest", "bicubic" (images); padding "zeros", "border", "reflection".

    Raises:
        ValueError: unknown options. RuntimeError: shapes or dtypes that do not fit.
    """
    x, g = node_of(input, "input"), node_of(grid, "grid")
    _check_grid(x, g, mode, padding_mode)
    dims, align = x.type.ndim - 2, bool(align_corners)
    lengths = x.shape[2:]
    at = [_pixel(_component(g, dims - 1 - i), n, align) for i, n in enumerate(lengths)]
    sampler = _Sampler(x, padding_mode, align)
    if mode == "bicubic":
        return wrap(sampler.cubic(at))
    at = [sampler.within(a, n) for a, n in zip(at, lengths, strict=True)]
    return wrap(ew.cast(sampler.nearest(at) if mode == "nearest" else sampler.linear(at), x.dtype))


def _check_grid(x: Node, g: Node, mode: str, padding_mode: str) -> None:
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(f"expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: {mode!r}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"expected padding_mode to be 'zeros', 'border', or 'reflection', but got: {padding_mode!r}")
    dims = x.type.ndim - 2
    if dims not in (2, 3) or g.type.ndim != x.type.ndim or g.shape[0] != x.shape[0] or g.shape[-1] != dims:
        raise RuntimeError(
            f"grid_sample: expected an input of 4 or 5 axes and a grid to match, got {x.type} and {g.type}"
        )
    if x.dtype is not g.dtype or x.dtype.kind != "f":
        raise RuntimeError(
            f"grid_sample: expected input and grid to have one floating dtype, got {x.type} and {g.type}"
        )
    if 0 in x.shape[2:]:
        raise RuntimeError(f"grid_sample: expected input to have non-empty spatial dimensions, got {x.type}")
    if mode == "bicubic" and dims != 2:
        raise RuntimeError("grid_sample: bicubic interpolation only supports 4D input")


def _component(g: Node, i: int) -> Node:
    return movement.squeeze(movement.narrow(g, -1, i, 1), -1)


def _pixel(c: Node, n: int, align: bool) -> Node:
    """A coordinate in [-1, 1] as a position among n pixels."""
    return ew.mul(ew.add(c, 1.0), (n - 1) / 2) if align else ew.div(ew.sub(ew.mul(ew.add(c, 1.0), float(n)), 1.0), 2.0)


class _Sampler:
    """Elements of an input at positions that one rule of padding governs."""

    def __init__(self, x: Node, padding: str, align: bool) -> None:
        self.x, self.padding, self.align = x, padding, align
        self.lengths = x.shape[2:]
        self.flat = movement.reshape(x, (*x.shape[:2], math.prod(self.lengths)))

    def within(self, at: Node, n: int) -> Node:
        """Positions moved into the image, unless it is zeros that surround it."""
        if self.padding == "border":
            return _clipped(at, n)
        if self.padding == "reflection":
            low, high = (0.0, float(n - 1)) if self.align else (-0.5, n - 0.5)
            return _clipped(_reflected(at, low, high), n)
        return at

    def pick(self, at: Sequence[Node]) -> Node:
        """(N, C, *P) of the elements at whole positions (N, *P); 0 outside."""
        index: Node = create.zeros((), int64)
        inside: Node = create.full((), True)
        for position, n in zip(at, self.lengths, strict=True):
            here = ew.logical_and(ew.ge(position, 0.0), ew.le(position, float(n - 1)))
            inside = ew.logical_and(inside, here)
            whole = ew.cast(ew.where(here, position, 0.0), int64)
            index = ew.add(ew.mul(index, n), whole)
        batch, channels, places = self.x.shape[0], self.x.shape[1], index.shape[1:]
        rows = movement.reshape(index, (batch, 1, math.prod(places)))
        rows = movement.broadcast_to(rows, (batch, channels, rows.shape[2]))
        found = movement.reshape(indexing.take_along(self.flat, rows, 2), (batch, channels, *places))
        return ew.where(movement.unsqueeze(inside, 1), found, 0.0)

    def nearest(self, at: Sequence[Node]) -> Node:
        return self.pick([special.round(ew.detach(a)) for a in at])

    def linear(self, at: Sequence[Node]) -> Node:
        """The corners around each position, by their shares."""
        low = [ew.floor(ew.detach(a)) for a in at]
        share = [ew.sub(a, b) for a, b in zip(at, low, strict=True)]
        total: Node | None = None
        for corner in range(2 ** len(at)):
            bits = [corner >> i & 1 for i in range(len(at))]
            place = [ew.add(b, 1.0) if bit else b for b, bit in zip(low, bits, strict=True)]
            factor: Node | None = None
            for s, bit in zip(share, bits, strict=True):
                part = s if bit else ew.sub(1.0, s)
                factor = part if factor is None else ew.mul(factor, part)
            assert factor is not None
            term = ew.mul(self.pick(place), movement.unsqueeze(factor, 1))
            total = term if total is None else ew.add(total, term)
        assert total is not None
        return total

    def cubic(self, at: Sequence[Node]) -> Node:
        """Sixteen elements; each position is padded by itself."""
        base = [ew.floor(ew.detach(a)) for a in at]
        rows, columns = (_cubic_weights(ew.sub(a, b)) for a, b in zip(at, base, strict=True))
        total: Node | None = None
        for i, row in enumerate(rows, -1):
            for j, column in enumerate(columns, -1):
                places = [
                    self.within(ew.add(b, float(o)), n) for b, o, n in zip(base, (i, j), self.lengths, strict=True)
                ]
                term = ew.mul(self.pick(places), movement.unsqueeze(ew.mul(row, column), 1))
                total = term if total is None else ew.add(total, term)
        assert total is not None
        return total


def _clipped(at: Node, n: int) -> Node:
    """Within [0, n - 1], with gradient 0 on the bounds and beyond."""
    low = ew.where(ew.le(at, 0.0), 0.0, at)
    return ew.where(ew.ge(low, float(n - 1)), float(n - 1), low)


def _reflected(at: Node, low: float, high: float) -> Node:
    """Mirrored at `low` and `high` as often as it takes."""
    span = high - low
    if span == 0:
        return ew.mul(at, 0.0)
    moved = ew.sub(at, low)
    distance = ew.mul(moved, ew.detach(ew.where(ew.lt(moved, 0.0), -1.0, 1.0)))
    flips = ew.floor(ew.detach(ew.div(distance, span)))
    rest = ew.sub(distance, ew.mul(flips, span))
    even = ew.eq(ew.remainder(flips, 2.0), 0.0)
    return ew.where(even, ew.add(rest, low), ew.sub(high, rest))


# ---- shuffles -------------------------------------------------------------------------------------------------------


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(*, C r², H, W) to (*, C, H r, W r). Shi et al., arXiv:1609.05158.

    Raises:
        RuntimeError: fewer than 3 axes, or channels not divisible by r².
    """
    x, r = node_of(input, "input"), upscale_factor
    if x.type.ndim < 3:
        raise RuntimeError(f"pixel_shuffle expects input to have at least 3 dimensions, but got {x.type.ndim}")
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, channels, height, width = x.shape
    if channels % (r * r):
        raise RuntimeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    n = len(lead)
    split = movement.reshape(x, (*lead, channels // (r * r), r, r, height, width))
    moved = movement.permute(split, (*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return fresh(movement.reshape(moved, (*lead, channels // (r * r), height * r, width * r)), x)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(*, C, H r, W r) to (*, C r², H, W), the inverse of pixel_shuffle.

    Raises:
        RuntimeError: fewer than 3 axes, or sides not divisible by r.
    """
    x, r = node_of(input, "input"), downscale_factor
    if x.type.ndim < 3:
        raise RuntimeError(f"pixel_unshuffle expects input to have at least 3 dimensions, but got {x.type.ndim}")
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, channels, height, width = x.shape
    if height % r or width % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but got {height} x {width} "
            f"and {r}"
        )
    n = len(lead)
    split = movement.reshape(x, (*lead, channels, height // r, r, width // r, r))
    moved = movement.permute(split, (*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return fresh(movement.reshape(moved, (*lead, channels * r * r, height // r, width // r)), x)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels (axis 1) of `groups` groups dealt out in turn. Zhang et al., arXiv:1707.01083.

    Raises:
        RuntimeError: fewer than 3 axes, or channels not divisible by groups.
    """
    x = node_of(input, "input")
    if x.type.ndim < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got {x.type}")
    if groups <= 0 or x.shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {x.shape[1]} channels and {groups} groups."
        )
    split = movement.reshape(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    return fresh(movement.reshape(movement.transpose(split, 1, 2), x.shape), x)


native_channel_shuffle = channel_shuffle
