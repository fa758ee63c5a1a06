"""Tensors, autograd and a graph compiler for CPUs, under PyTorch's names."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

from tinygrad_lite import creation as _creation
from tinygrad_lite import functional as _functional
from tinygrad_lite import legacy as _legacy
from tinygrad_lite import randomness as _randomness
from tinygrad_lite import tensor as _tensor  # noqa: F401  (the module, before its name is given to the function)
from tinygrad_lite.autograd import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from tinygrad_lite.creation import *  # noqa: F403
from tinygrad_lite.creation import tensor
from tinygrad_lite.described import Size
from tinygrad_lite.device import device, get_default_device, set_default_device
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
from tinygrad_lite.layouts import layout, memory_format
from tinygrad_lite.legacy import *  # noqa: F403
from tinygrad_lite.limits import finfo, iinfo
from tinygrad_lite.ops.promote import get_default_dtype, set_default_dtype
from tinygrad_lite.randomness import *  # noqa: F403

if TYPE_CHECKING:  # for readers and checkers: at run time __getattr__ imports them
    from tinygrad_lite import autograd, cuda, data, diagnostics, func, nn, onnx, optim, utils, viz  # noqa: F401
    from tinygrad_lite.amp import GradScaler  # noqa: F401
    from tinygrad_lite.capture import compile  # noqa: F401
    from tinygrad_lite.func import vmap  # noqa: F401
    from tinygrad_lite.precision import (  # noqa: F401
        autocast,
        get_autocast_cpu_dtype,
        get_autocast_dtype,
        is_autocast_cpu_enabled,
        is_autocast_enabled,
    )
    from tinygrad_lite.runtime.workers import get_num_threads, set_num_threads  # noqa: F401
    from tinygrad_lite.serialization import load, save  # noqa: F401
    from tinygrad_lite.viz.tables import summary  # noqa: F401

__version__ = "0.1.0"

# Imported when first asked for: `import tinygrad_lite` stays quick.
_SUBPACKAGES = (
    "amp",
    "autograd",
    "backends",
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
    "GradScaler": "amp",
    "autocast": "precision",
    "compile": "capture",
    "get_autocast_cpu_dtype": "precision",
    "get_autocast_dtype": "precision",
    "is_autocast_cpu_enabled": "precision",
    "is_autocast_enabled": "precision",
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
    if name in ("mps", "xpu"):  # as absent as CUDA
        return importlib.import_module(f"{__name__}.cuda")
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

e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
newaxis = None
strided = layout.strided
contiguous_format, preserve_format = memory_format.contiguous_format, memory_format.preserve_format
channels_last, channels_last_3d = memory_format.channels_last, memory_format.channels_last_3d


def set_float32_matmul_precision(precision: str) -> None:
    """Accept "highest", "high" or "medium", which allow a GPU less: float32 is computed in float32 here at any rate."""
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"precision must be 'highest', 'high' or 'medium', got {precision!r}")


def get_float32_matmul_precision() -> str:
    """ "highest"."""
    return "highest"


_deterministic = [False]


def use_deterministic_algorithms(mode: Any, *, warn_only: Any = False) -> None:
    """Accept True or False: there are no other algorithms, and results are the same from run to run at any rate."""
    if mode is not True and mode is not False:
        raise TypeError(f"use_deterministic_algorithms takes True or False, not {mode!r}")
    _deterministic[0] = mode


def are_deterministic_algorithms_enabled() -> Any:
    """What use_deterministic_algorithms was called with last, False at first."""
    return _deterministic[0]


def is_tensor(obj: Any) -> Any:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> Any:
    """Whether the tensor's dtype is a floating one."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> Any:
    """False: there are no complex dtypes."""
    return input.is_complex()


def is_signed(input: Tensor) -> Any:
    """Whether the tensor's dtype has negative numbers."""
    return input.dtype.is_signed


def is_same_size(input: Tensor, other: Tensor) -> Any:
    """Whether two tensors are of one shape."""
    return input.shape == other.shape


def detach(input: Tensor) -> Tensor:
    """The same values without history; see Tensor.detach."""
    return input.detach()


def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like `input`, `value` everywhere: a number, or a 0-d tensor that gradients flow to."""
    if isinstance(value, Tensor):
        return _creation.zeros_like(input) + value.to(input.dtype)
    return _creation.full_like(input, value)


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
    "are_deterministic_algorithms_enabled",
    "bfloat16",
    "bool",
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "detach",
    "device",
    "double",
    "dtype",
    "e",
    "enable_grad",
    "fill",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "get_default_device",
    "get_default_dtype",
    "get_float32_matmul_precision",
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
    "is_same_size",
    "is_signed",
    "is_tensor",
    "layout",
    "long",
    "manual_seed",
    "memory_format",
    "nan",
    "newaxis",
    "no_grad",
    "numel",
    "pi",
    "preserve_format",
    "seed",
    "set_default_device",
    "set_default_dtype",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_rng_state",
    "short",
    "strided",
    "tensor",
    "uint8",
    "use_deterministic_algorithms",
    *_creation.__all__,
    *_randomness.__all__,
    *_functional.__all__,
    *_legacy.__all__,
    *_SUBPACKAGES,
    *_LATE,
]
