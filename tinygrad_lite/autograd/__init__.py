"""Grad modes, `backward`, `grad`, `Function`, `functional` and the gradient checks, under torch.autograd's names."""

import importlib
from typing import Any

from tinygrad_lite.autograd.function import Function
from tinygrad_lite.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from tinygrad_lite.autograd.gradient import backward, grad
from tinygrad_lite.autograd.hooks import HookHandle
from tinygrad_lite.autograd.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from tinygrad_lite.autograd.variable import Variable

__all__ = [
    "Function",
    "GradcheckError",
    "HookHandle",
    "Variable",
    "backward",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]


def __getattr__(name: str) -> Any:
    if name == "functional":  # written in terms of func, which is written in terms of this
        return importlib.import_module(f"{__name__}.functional")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
