"""Tensors, autograd and a graph compiler for CPUs, under PyTorch's names."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

import numpy as _numpy

from tinygrad_lite import creation as _creation
from tinygrad_lite import functional as _functional
from tinygrad_lite import tensor as _tensor  # noqa: F401  (the module, before its name is given to the function)
from tinygrad_lite.autograd import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from tinygrad_lite.creation import *  # noqa: F403
from tinygrad_lite.creation import tensor
from tinygrad_lite.described import Size
from tinygrad_lite.device import device
from tinygrad_lite.errors import CaptureError, CaptureWarning, UserError
from tinygrad_lite.functional import *  # noqa: F403
from tinygrad_lite.generator import Generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.present import install_drawer as _install_drawer
from tinygrad_lite.ir.types import DType, float32, float64, int8, int16, int32, int64, uint8
from tinygrad_lite.ir.types import DType as dtype
from tinygrad_lite.ir.types import bool_ as bool
from tinygrad_lite.ir.types import float32 as float
from tinygrad_lite.ir.types import float64 as double
from tinygrad_lite.ir.types import int16 as short
from tinygrad_lite.ir.types import int32 as int
from tinygrad_lite.ir.types import int64 as long

if TYPE_CHECKING:  # for readers and checkers: at run time __getattr__ imports them
    from tinygrad_lite import autograd, cuda, data, nn, optim, utils, viz  # noqa: F401
    from tinygrad_lite.capture import compile  # noqa: F401
    from tinygrad_lite.runtime.workers import get_num_threads, set_num_threads  # noqa: F401
    from tinygrad_lite.serialization import load, save  # noqa: F401

__version__ = "0.1.0"

# Imported when first asked for: `import tinygrad_lite` stays quick.
_SUBPACKAGES = ("autograd", "cuda", "data", "models", "nn", "optim", "utils", "viz")
_LATE = {
    "compile": "capture",
    "load": "serialization",
    "save": "serialization",
    "get_num_threads": "runtime.workers",
    "set_num_threads": "runtime.workers",
}


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _LATE:
        value = getattr(importlib.import_module(f"{__name__}.{_LATE[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


_matrix_trace = _functional.trace


def trace(input: Any, *example_inputs: Any, train: Any = False) -> Any:
    """The Graph of one call `input(*example_inputs)` of a function or Module, without running it.

    With `train` a Module is traced in training mode and under autograd; else in evaluation mode without. For a Tensor,
    as in PyTorch: the sum of a matrix's diagonal.
    """
    if isinstance(input, Tensor) and not example_inputs:
        return _matrix_trace(input)
    from tinygrad_lite.capture import trace as capture_trace

    return capture_trace(input, *example_inputs, train=train)


_install_drawer(lambda: importlib.import_module(f"{__name__}.viz"))

inf, nan, pi = math.inf, math.nan, math.pi


def finfo(type: DType = float32) -> _numpy.finfo:
    """Limits of a floating dtype: .min .max .eps .tiny."""
    return _numpy.finfo(type.numpy)


def iinfo(type: DType) -> _numpy.iinfo:
    """Limits of an integer dtype: .min .max."""
    return _numpy.iinfo(type.numpy)


def get_default_dtype() -> DType:
    """float32."""
    return float32


def is_tensor(obj: Any) -> Any:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> Any:
    """Whether the tensor's dtype is float32 or float64."""
    return input.is_floating_point()


__all__ = [
    "CaptureError",
    "CaptureWarning",
    "DType",
    "Generator",
    "Size",
    "Tensor",
    "UserError",
    "bool",
    "device",
    "double",
    "dtype",
    "enable_grad",
    "float",
    "float32",
    "float64",
    "finfo",
    "iinfo",
    "get_default_dtype",
    "get_rng_state",
    "inf",
    "inference_mode",
    "initial_seed",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_floating_point",
    "is_grad_enabled",
    "is_tensor",
    "long",
    "manual_seed",
    "nan",
    "no_grad",
    "pi",
    "seed",
    "set_grad_enabled",
    "set_rng_state",
    "short",
    "tensor",
    "uint8",
    *_creation.__all__,
    *_functional.__all__,
    *_SUBPACKAGES,
    *_LATE,
]
