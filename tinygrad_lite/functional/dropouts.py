"""The dropout family. All draw from the default generator and do nothing outside training."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from tinygrad_lite.functional.common import node_of, wrap
from tinygrad_lite.generator import default_generator
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import composite, movement
from tinygrad_lite.ops import elementwise as ew

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]

_ALPHA = 1.7580993408473766  # -selu(-∞)


def _check(p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _kept(p: float, shape: Sequence[int]) -> Node:
    """True with probability 1 - p."""
    seed, offset = default_generator.take(math.prod(shape))
    return composite.bernoulli_mask(1 - p, seed, offset, shape)


def _finish(input: Tensor, node: Node, inplace: bool) -> Tensor:
    return input._write(node) if inplace else wrap(node)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability p and scale the rest by 1 / (1 - p); nothing outside training.

    Raises:
        ValueError: p outside [0, 1].
    """
    x = node_of(input, "input")
    _check(p)
    if not training or p == 0:
        return input
    seed, offset = default_generator.take(x.type.size)
    return _finish(input, composite.dropout(x, p, seed, offset), inplace)


def _drop_channels(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    x = node_of(input, "input")
    _check(p)
    if not training or p == 0:
        return input
    if p == 1:
        return _finish(input, ew.mul(x, 0.0), inplace)
    if x.type.ndim < 2:
        raise RuntimeError(f"Feature dropout requires at least 2 dimensions in the input, got {x.type}")
    kept = _kept(p, (*x.shape[:2], *(1,) * (x.type.ndim - 2)))
    return _finish(input, ew.where(kept, ew.mul(x, 1 / (1 - p)), 0.0), inplace)


def _unbatched(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    """Channels first, no batch."""
    x = node_of(input, "input")
    result = _drop_channels(wrap(movement.unsqueeze(x, 0)), p, training, False)
    return _finish(input, movement.squeeze(result._read(), 0), inplace) if training and p else input


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (N, C, L) or (C, L) with probability p and scale the rest by 1 / (1 - p).

    Tompson et al., arXiv:1411.4280.

    Raises:
        ValueError: p outside [0, 1]. RuntimeError: another number of axes.
    """
    _check(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input.")
    return (_unbatched if input.ndim == 2 else _drop_channels)(input, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels (axis 1) of (N, C, H, W) with probability p and scale the rest by 1 / (1 - p).

    Three axes are read as (N, C, L), as in PyTorch; other numbers of axes warn.

    Raises:
        ValueError: p outside [0, 1].
    """
    _check(p)
    if input.ndim not in (3, 4):
        warnings.warn(f"dropout2d: a {input.ndim}D input is not of the 3 or 4 axes expected", stacklevel=2)
    return _drop_channels(input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W) with probability p, scale the rest by 1 / (1 - p).

    Raises:
        ValueError: p outside [0, 1].
    """
    _check(p)
    if input.ndim not in (4, 5):
        warnings.warn(f"dropout3d: a {input.ndim}D input is not of the 4 or 5 axes expected", stacklevel=2)
    return (_unbatched if input.ndim == 4 else _drop_channels)(input, p, training, inplace)


def _alpha_dropped(input: Tensor, p: float, training: bool, inplace: bool, whole_channels: bool) -> Tensor:
    x = node_of(input, "input")
    _check(p)
    if not training or p == 0 or not x.type.size:
        return input
    if p == 1:
        return _finish(input, ew.mul(x, 0.0), inplace)
    if whole_channels and x.type.ndim < 2:
        raise RuntimeError(f"Feature dropout requires at least 2 dimensions in the input, got {x.type}")
    shape = (*x.shape[:2], *(1,) * (x.type.ndim - 2)) if whole_channels else x.shape
    scale = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
    shift = _ALPHA * scale * p
    dropped = ew.where(_kept(p, shape), ew.add(ew.mul(x, scale), shift), shift - _ALPHA * scale)
    return _finish(input, dropped, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout for selu: what is dropped becomes -1.758…, and the result keeps mean and variance. arXiv:1706.02515.

    Raises:
        ValueError: p outside [0, 1].
    """
    return _alpha_dropped(input, p, training, inplace, whole_channels=False)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """alpha_dropout of whole channels (axis 1).

    Raises:
        ValueError: p outside [0, 1]. RuntimeError: fewer than 2 axes.
    """
    return _alpha_dropped(input, p, training, inplace, whole_channels=True)
