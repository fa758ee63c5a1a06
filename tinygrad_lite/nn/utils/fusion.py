"""A batch norm in evaluation mode folded into the layer before it."""

from __future__ import annotations

import copy
from typing import Any

from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.parameter import Parameter
from tinygrad_lite.tensor import Tensor, zeros_like


def _scales(rm: Tensor, rv: Tensor, eps: float, w: Tensor | None, b: Tensor | None) -> tuple[Tensor, Tensor]:
    """The batch norm as y = x · scale + shift."""
    scale = (rv + eps).rsqrt()
    scale = scale if w is None else w.detach() * scale
    shift = -rm * scale
    return scale, shift if b is None else b.detach() + shift


def _fused(weight: Tensor, bias: Tensor | None, axis: int, *norm: Any) -> tuple[Parameter, Parameter]:
    scale, shift = _scales(*norm)
    sizes = [1] * weight.dim()
    sizes[axis] = -1
    bias = zeros_like(shift) if bias is None else bias.detach()
    made = weight.detach() * scale.to(weight.dtype).reshape(sizes), (bias * scale + shift).to(weight.dtype)
    return Parameter(made[0], weight.requires_grad), Parameter(made[1], weight.requires_grad)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution followed by a batch norm; `transpose` where it is a transposed one."""
    return _fused(conv_w, conv_b, 1 if transpose else 0, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer followed by a batch norm."""
    return _fused(linear_w, linear_b, 0, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _merged(layer: Module, norm: Any, axis: int, what: str) -> Any:
    if layer.training or norm.training:
        raise AssertionError(f"{what}: fusion is for evaluation mode; call eval() on both modules before")
    if norm.running_mean is None or norm.running_var is None:
        raise AssertionError(f"{what}: the batch norm has no running moments")
    made: Any = copy.deepcopy(layer)
    moments = (norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias)
    made.weight, made.bias = _fused(made.weight, made.bias, axis, *moments)
    return made


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Any:
    """A convolution that does what `conv` and then `bn` do, both in evaluation mode; they stay as they are.

    Raises:
        AssertionError: one is in training mode, or the batch norm has no running moments.
    """
    return _merged(conv, bn, 1 if transpose else 0, "fuse_conv_bn_eval")


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what `linear` and then `bn` do, both in evaluation mode; they stay as they are.

    Raises:
        AssertionError: one is in training mode, the batch norm has no running moments or other features.
    """
    if linear.out_features != bn.num_features:
        raise AssertionError(
            f"fuse_linear_bn_eval: {linear.out_features} output features, and a batch norm of {bn.num_features}"
        )
    return _merged(linear, bn, 0, "fuse_linear_bn_eval")
