"""Functions over many parameters, such as gradient clipping; what changes how a module's parameters are made."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tinygrad_lite.autograd import no_grad
from tinygrad_lite.functional import cat
from tinygrad_lite.ir.record import mode
from tinygrad_lite.layouts import memory_format
from tinygrad_lite.nn import init
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.utils import parametrizations, parametrize
from tinygrad_lite.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from tinygrad_lite.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from tinygrad_lite.nn.utils.weight_norm import remove_weight_norm, weight_norm
from tinygrad_lite.tensor import Tensor, as_tensor, maximum

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "skip_init",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]

Tensors = Tensor | Iterable[Tensor]


def _gradients(parameters: Tensors) -> list[Tensor]:
    each = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in each if p.grad is not None]


def get_total_norm(tensors: Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Tensor:
    """The norm of all elements of all tensors, as a 0-d tensor (0 where there are none).

    Raises:
        RuntimeError: error_if_nonfinite, and the norm is infinite or NaN; or in a capture, which cannot tell.
    """
    with no_grad():
        total = _norm([t.detach() for t in tensors], float(norm_type))
    if error_if_nonfinite:
        if mode.trace is not None:
            raise RuntimeError("error_if_nonfinite depends on values, which tl.compile does not know during a capture")
        if not math.isfinite(total.item()):
            raise RuntimeError(f"the norm of order {norm_type} is {total.item()}; error_if_nonfinite=False allows it")
    return total


def _norm(tensors: list[Tensor], order: float) -> Tensor:
    if not tensors:
        return as_tensor(0.0)
    if math.isinf(order):
        total = tensors[0].abs().amax()
        for t in tensors[1:]:
            total = maximum(total, t.abs().amax())
        return total
    powers = [(t * t if order == 2.0 else t.abs() ** order).sum() for t in tensors]
    total = powers[0]
    for power in powers[1:]:
        total = total + power
    return total.sqrt() if order == 2.0 else total ** (1.0 / order)


def clip_grads_with_norm_(parameters: Tensors, max_norm: float, total_norm: Tensor) -> None:
    """Scale the gradients by max_norm / total_norm where that is less than 1."""
    with no_grad():
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for grad in _gradients(parameters):
            grad.copy_(grad * factor)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Limit the norm of all gradients together; changes them in place and returns the norm before, a 0-d tensor.

    Raises:
        RuntimeError: see `get_total_norm`.
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of every gradient to ±clip_value, in place."""
    limit = float(clip_value)
    with no_grad():
        for grad in _gradients(parameters):
            grad.copy_(grad.clamp(-limit, limit))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened and joined."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy consecutive pieces of a vector into the parameters. Raises ValueError where the sizes differ."""
    parameters = list(parameters)
    sizes = [p.numel() for p in parameters]
    if vec.dim() != 1 or vec.numel() != sum(sizes):
        raise ValueError(f"the parameters need a vector of {sum(sizes)} elements, got shape {tuple(vec.shape)}")
    start = 0
    with no_grad():
        for p, size in zip(parameters, sizes, strict=True):
            p.copy_(vec[start : start + size].reshape(p.shape))
            start += size


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """`module_cls(*args, **kwargs)` without drawing initial values: for a module about to be filled by other means.

    Raises:
        RuntimeError: not a class of modules.
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"skip_init takes a class of modules, not {module_cls!r}")
    with init.skip_random():
        return module_cls(*args, **kwargs)


def convert_conv2d_weight_memory_format(module: Module, memory_format: memory_format) -> Module:
    """The module as it is: memory formats are taken and change nothing."""
    return module


convert_conv3d_weight_memory_format = convert_conv2d_weight_memory_format
