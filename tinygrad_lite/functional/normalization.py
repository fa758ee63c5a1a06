"""Normalisation by channel: batch, instance, group and local response norm."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinygrad_lite.functional.common import node_of, wrap
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import bool_, float32
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import movement, reduce
from tinygrad_lite.ops.conv import padded
from tinygrad_lite.ops.window import window

__all__ = ["batch_norm", "group_norm", "instance_norm", "local_response_norm"]


def widened(x: Node) -> Node:
    """x in the dtype that its moments are taken in: 16-bit floats in float32."""
    return ew.cast(x, float32) if x.dtype.itemsize == 2 and x.dtype.kind == "f" else x


def _per_channel(v: Node, ndim: int) -> Node:
    """A vector over axis 1 of a tensor of `ndim` axes."""
    return movement.reshape(v, (-1, *(1,) * max(ndim - 2, 0)))


def _vector(x: Tensor | None, name: str, channels: int) -> Node | None:
    if x is None:
        return None
    node = node_of(x, name)
    if node.shape != (channels,):
        raise RuntimeError(f"{name} should contain {channels} elements, got {node.type}")
    return node


def _scaled(x: Node, weight: Node | None, bias: Node | None) -> Node:
    x = x if weight is None else ew.mul(x, _per_channel(weight, x.type.ndim))
    return x if bias is None else ew.add(x, _per_channel(bias, x.type.ndim))


def _moments(x: Node, axes: Sequence[int]) -> tuple[Node, Node, Node]:
    """(x - mean, mean, biased variance), the last two with reduced axes kept."""
    mean = reduce.mean(x, axes, keepdim=True)
    centred = ew.add(x, ew.neg(mean))
    return centred, mean, reduce.mean(ew.mul(centred, centred), axes, keepdim=True)


def _masked_moments(x: Node, axes: Sequence[int], kept: Node) -> tuple[Node, Node, Node, Node]:
    """_moments over the places that `kept` holds, x - mean being 0 elsewhere, and their number, at least 1."""
    count = ew.maximum(ew.cast(reduce.sum(kept, axes, keepdim=True), x.dtype), 1.0)
    mean = ew.div(reduce.sum(_inside(kept, x), axes, keepdim=True), count)
    centred = _inside(kept, ew.add(_inside(kept, x), ew.neg(mean)))
    return centred, mean, ew.div(reduce.sum(ew.mul(centred, centred), axes, keepdim=True), count), count


def _inside(kept: Node | None, x: Node) -> Node:
    """x where `kept` holds, 0 elsewhere, whatever is there."""
    return x if kept is None else ew.where(kept, x, 0.0)


def _places(mask: Tensor, x: Node) -> Node:
    """A mask (N, *S) of an input (N, C, *S) as (N, 1, *S)."""
    kept = node_of(mask, "mask")
    places = (x.shape[0], *x.shape[2:])
    if kept.dtype is not bool_ or kept.shape != places:
        raise ValueError(f"batch_norm: mask must be bool of shape {list(places)} for {x.type}, got {kept.type}")
    return movement.reshape(kept, (x.shape[0], 1, *x.shape[2:]))


def _move_average(running: Tensor | None, new: Node, momentum: float | Tensor) -> None:
    """running ← (1 - momentum) running + momentum new, outside autograd."""
    if running is None:
        return
    if isinstance(momentum, Tensor):
        share: float | Node = momentum._read()
        rest: float | Node = ew.sub(1.0, share)
    else:
        share, rest = float(momentum), 1.0 - momentum
    fresh = ew.cast(movement.reshape(ew.detach(new), running.shape), running.dtype)
    running._write(ew.add(ew.mul(ew.detach(running._read()), rest), ew.mul(fresh, share)))


def _needs_values(name: str, shape: Sequence[int], count: int) -> None:
    if count == 1:
        given = f"got input size {list(shape)}"
        raise ValueError(f"{name}: Expected more than 1 value per channel when training, {given}")


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
    *,
    mask: Tensor | None = None,
) -> Tensor:
    """(x - mean) / √(var + eps) · weight + bias by channel, axis 1. Ioffe, Szegedy, arXiv:1502.03167.

    In training the moments are the batch's, and the running ones move towards them in place (the variance unbiased);
    otherwise the running moments are taken.

    Args:
        mask: bool (N, *S) of an input (N, C, *S), False where there is filler. Moments are those of the other places,
            and filler, whatever it holds, becomes the bias; so does a value that is left alone.

    Raises:
        ValueError: one value a channel in training; a mask of another type or shape.
        RuntimeError: no running moments outside training; sizes that differ.
    """
    x = node_of(input, "input")
    if x.type.ndim < 2:
        raise RuntimeError(f"batch_norm: expected an input of at least 2 axes, got {x.type}")
    channels = x.shape[1]
    mean, var = _vector(running_mean, "running_mean", channels), _vector(running_var, "running_var", channels)
    scale, shift = _vector(weight, "weight", channels), _vector(bias, "bias", channels)
    wide, axes = widened(x), (0, *range(2, x.type.ndim))
    kept = None if mask is None else _places(mask, x)
    if not training:
        if mean is None or var is None:
            raise RuntimeError("batch_norm: running_mean and running_var must be given when training=False")
        factor = ew.rsqrt(ew.add(var, eps))
        factor = factor if scale is None else ew.mul(factor, scale)
        centred = _inside(kept, ew.add(_inside(kept, wide), _per_channel(ew.neg(mean), x.type.ndim)))
        result = _scaled(ew.mul(centred, _per_channel(factor, x.type.ndim)), None, shift)
        return wrap(ew.cast(result, x.dtype))
    count = reduce.count(x, axes)
    _needs_values("batch_norm", x.shape, count)
    if kept is None:
        centred, mean, var = _moments(wide, axes)
        unbiased = ew.div(ew.mul(var, float(count)), float(max(count - 1, 1)))
    else:
        centred, mean, var, among = _masked_moments(wide, axes, kept)
        unbiased = ew.mul(var, ew.div(among, ew.maximum(ew.sub(among, 1.0), 1.0)))
    _move_average(running_mean, mean, momentum)
    _move_average(running_var, unbiased, momentum)
    return wrap(ew.cast(_scaled(ew.mul(centred, ew.rsqrt(ew.add(var, eps))), scale, shift), x.dtype))


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """batch_norm with moments of each sample and channel of (N, C, *S). Ulyanov et al., arXiv:1607.08022.

    Raises:
        ValueError: one spatial element. RuntimeError: no running moments where use_input_stats=False.
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    x = node_of(input, "input")
    if x.type.ndim < 3:
        raise RuntimeError(f"instance_norm: expected an input of at least 3 axes, got {x.type}")
    axes, channels = tuple(range(2, x.type.ndim)), x.shape[1]
    count = reduce.count(x, axes)
    if count == 1:
        raise ValueError(
            f"instance_norm: Expected more than 1 spatial element when training, got input size {list(x.shape)}"
        )
    for v, name in ((running_mean, "running_mean"), (running_var, "running_var")):
        _vector(v, name, channels)
    scale, shift = _vector(weight, "weight", channels), _vector(bias, "bias", channels)
    centred, mean, var = _moments(widened(x), axes)
    _move_average(running_mean, reduce.mean(mean, 0), momentum)
    _move_average(running_var, ew.mul(reduce.mean(var, 0), count / max(count - 1, 1)), momentum)
    return wrap(ew.cast(_scaled(ew.mul(centred, ew.rsqrt(ew.add(var, eps))), scale, shift), x.dtype))


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalises each sample's groups of neighbouring channels of (N, C, *S). Wu, He, arXiv:1803.08494.

    Raises:
        RuntimeError: channels not divisible by num_groups. ValueError: a single value a group.
    """
    x = node_of(input, "input")
    if x.type.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {x.type.ndim}")
    if num_groups <= 0 or x.shape[1] % num_groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(x.shape)} and num_groups={num_groups}"
        )
    batch, channels, places = x.shape[0], x.shape[1], x.shape[2:]
    _needs_values("group_norm", x.shape, batch * channels // num_groups * math.prod(places))
    groups = movement.reshape(widened(x), (batch, num_groups, channels // num_groups, *places))
    centred, _, var = _moments(groups, tuple(range(2, groups.type.ndim)))
    result = movement.reshape(ew.mul(centred, ew.rsqrt(ew.add(var, eps))), x.shape)
    result = _scaled(result, _vector(weight, "weight", channels), _vector(bias, "bias", channels))
    return wrap(ew.cast(result, x.dtype))


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha · mean of x² over `size` neighbouring channels)^beta. Krizhevsky et al., NIPS 2012.

    Raises:
        ValueError: fewer than 3 axes.
    """
    x = node_of(input, "input")
    if x.type.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {x.type.ndim} dimensions)")
    if not x.type.size:
        return input
    rest = [(0, 0)] * (x.type.ndim - 2)
    wide = widened(x)
    squares = padded(ew.mul(wide, wide), [(size // 2, (size - 1) // 2), *rest])
    mean = ew.div(reduce.sum(window(squares, (1,), (size,)), -1), float(size))
    result = ew.div(wide, ew.pow(ew.add(ew.mul(mean, alpha), k), beta))
    return wrap(ew.cast(result, x.dtype) if x.dtype.kind == "f" else result)
