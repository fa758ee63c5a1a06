"""Grad modes, `backward`, `grad` and the gradient checks, under torch.autograd's names."""

from tinygrad_lite.autograd.function import Function
from tinygrad_lite.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from tinygrad_lite.autograd.gradient import backward, grad
from tinygrad_lite.autograd.hooks import HookHandle
from tinygrad_lite.autograd.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "GradcheckError",
    "HookHandle",
    "backward",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]
