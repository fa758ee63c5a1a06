"""Tensors, autograd and a graph compiler for CPUs, under PyTorch's names."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

from tinygrad_lite import creation as _creation
from tinygrad_lite import functional as _functional
from tinygrad_lite import randomness as _randomness
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
from tinygrad_lite.ir.types import DType, bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8
from tinygrad_lite.ir.types import DType as dtype
from tinygrad_lite.ir.types import bool_ as bool
from tinygrad_lite.ir.types import float16 as half
from tinygrad_lite.ir.types import float32 as float
from tinygrad_lite.ir.types import float64 as double
from tinygrad_lite.ir.types import int16 as short
from tinygrad_lite.ir.types import int32 as int
from tinygrad_lite.ir.types import int64 as long
from tinygrad_lite.ir.types import limits as _limits
from tinygrad_lite.ops.promote import get_default_dtype, set_default_dtype
from tinygrad_lite.randomness import *  # noqa: F403

if TYPE_CHECKING:  # for readers and checkers: at run time __getattr__ imports them
    from tinygrad_lite import autograd, cuda, data, diagnostics, func, nn, onnx, optim, utils, viz  # noqa: F401
    from tinygrad_lite.capture import compile  # noqa: F401
    from tinygrad_lite.func import vmap  # noqa: F401
    from tinygrad_lite.runtime.workers import get_num_threads, set_num_threads  # noqa: F401
    from tinygrad_lite.serialization import load, save  # noqa: F401
    from tinygrad_lite.viz.tables import summary  # noqa: F401

__version__ = "0.1.0"

# Imported when first asked for: `import tinygrad_lite` stays quick.
_SUBPACKAGES = (
    "amp",
    "autograd",
    "cuda",
    "data",
    "diagnostics",
    "func",
    "linalg",
    "models",
    "nn",
    "onnx",
    "optim",
    "utils",
    "viz",
)
_LATE = {
    "compile": "capture",
    "summary": "viz.tables",
    "vmap": "func",
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


def finfo(type: DType | None = None) -> Any:
    """Limits of a floating dtype: .min .max .eps .tiny .bits. TypeError for others."""
    kind = get_default_dtype() if type is None else type
    if kind.kind != "f":
        raise TypeError(f"finfo() requires a floating point input type, not {kind!r}")
    return _limits(kind)


def iinfo(type: DType) -> Any:
    """Limits of an integer dtype: .min .max .bits. TypeError for others."""
    if type.kind not in "iu":
        raise TypeError(f"iinfo() requires an integer input type, not {type!r}")
    return _limits(type)


def is_tensor(obj: Any) -> Any:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> Any:
    """Whether the tensor's dtype is a floating one."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> Any:
    """False: there are no complex dtypes."""
    return input.is_complex()


def is_nonzero(input: Tensor) -> Any:
    """Whether a tensor of one element is not 0. Reads its value; RuntimeError for more or fewer elements."""
    return input.__bool__()


def numel(input: Tensor) -> Any:
    """The number of elements."""
    return input.numel()


__all__ = [
    "CaptureError",
    "CaptureWarning",
    "DType",
    "Generator",
    "Size",
    "Tensor",
    "UserError",
    "bfloat16",
    "bool",
    "device",
    "double",
    "dtype",
    "enable_grad",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "get_rng_state",
    "half",
    "iinfo",
    "inf",
    "inference_mode",
    "initial_seed",
    "int",
    "int16",
    "int32",
    "int64",
    "int8",
    "is_complex",
    "is_floating_point",
    "is_grad_enabled",
    "is_nonzero",
    "is_tensor",
    "long",
    "manual_seed",
    "nan",
    "no_grad",
    "numel",
    "pi",
    "seed",
    "set_default_dtype",
    "set_grad_enabled",
    "set_rng_state",
    "short",
    "tensor",
    "uint8",
    *_creation.__all__,
    *_randomness.__all__,
    *_functional.__all__,
    *_SUBPACKAGES,
    *_LATE,
]
