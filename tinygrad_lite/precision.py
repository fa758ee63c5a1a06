"""autocast: within it, products are taken in 16 bits. `functional/casting.py` says which functions convert what."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from tinygrad_lite.functional.casting import converted
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import DType, bfloat16, float16

__all__ = [
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
]

F = TypeVar("F", bound=Callable[..., Any])

_DEFAULTS = {"cpu": bfloat16, "cuda": float16, "hpu": bfloat16, "mps": float16, "mtia": float16, "xpu": float16}


class autocast:
    """Products of float32 tensors are taken in 16 bits within a with-block, or each call of a decorated function.

    Matrix products, linear layers, convolutions, attention and recurrent layers convert their operands to `dtype`, and
    return it; losses, factorisations and the like convert theirs to float32; all else takes what comes. float64 stays.
    Parameters and their gradients keep their dtype. Arithmetic is float32's, rounded once an operation: this is for the
    numbers of mixed precision, not for speed. The state is part of what tl.compile captures.

    Args:
        device_type: "cpu". Any other device is not there: a warning, and nothing happens, as in PyTorch.
        dtype: bfloat16, the default, or float16; with another one a warning, and nothing happens.
        enabled: False turns autocast off within.
        cache_enabled: accepted, and changes nothing: a capture converts a weight once.

    Raises:
        RuntimeError: an unknown device_type.
    """

    def __init__(
        self, device_type: str, dtype: DType | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._enabled = enabled and _can(device_type, self.fast_dtype)
        self._before: list[DType | None] = []

    def __enter__(self) -> autocast:
        self._before.append(mode.autocast)
        if self.device == "cpu":
            mode.autocast = self.fast_dtype if self._enabled else None
        return self

    def __exit__(self, *exc: object) -> None:
        mode.autocast = self._before.pop()

    def __call__(self, func: F) -> F:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with autocast(self.device, self.fast_dtype, self._enabled):
                return func(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


def _can(device_type: str, dtype: DType) -> bool:
    """Whether this is something to do; a warning says why not."""
    problem = None
    if device_type != "cpu":
        problem = f"there is no {device_type} device"
    elif dtype not in (bfloat16, float16):
        problem = f"the CPU's dtypes are bfloat16 and float16, not {dtype!r}"
    if problem is not None:
        warnings.warn(f"autocast is disabled: {problem}", UserWarning, stacklevel=3)
    return problem is None


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype of autocast on a device where none is given: bfloat16 on the CPU. RuntimeError for an unknown one."""
    if device_type not in _DEFAULTS:
        raise RuntimeError(f"autocast: device_type must be one of {', '.join(_DEFAULTS)}, not {device_type!r}")
    return mode.autocast or bfloat16 if device_type == "cpu" else _DEFAULTS[device_type]


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a device; as in PyTorch the question is about CUDA unless "cpu" is named."""
    get_autocast_dtype(device_type)  # raises for an unknown device
    return device_type == "cpu" and mode.autocast is not None


def is_autocast_available(device_type: str) -> bool:
    """Whether a device has autocast: the CPU has."""
    return device_type == "cpu"


def is_autocast_cpu_enabled() -> bool:
    """is_autocast_enabled("cpu"), by its older name."""
    return is_autocast_enabled("cpu")


def get_autocast_cpu_dtype() -> DType:
    """get_autocast_dtype("cpu"), by its older name."""
    return get_autocast_dtype("cpu")


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: DType | None = None) -> Any:
    """Decorates the forward of an `autograd.Function`: what autocast was in it, `custom_bwd` sets again for backward.

    With `cast_inputs` tensors are converted to that dtype where autocast is on, and forward runs without it.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    get_autocast_dtype(device_type)  # raises for an unknown device

    @functools.wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        if cast_inputs is None or mode.autocast is None:
            ctx._autocast = mode.autocast
            return fwd(ctx, *args, **kwargs)
        ctx._autocast = None
        with mode.set(autocast=None):
            return fwd(ctx, *converted(args, cast_inputs), **converted(kwargs, cast_inputs))

    return decorated


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorates the backward of an `autograd.Function` whose forward `custom_fwd` decorates: it runs as that did."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    get_autocast_dtype(device_type)

    @functools.wraps(bwd)
    def decorated(ctx: Any, *grads: Any) -> Any:
        with mode.set(autocast=ctx._autocast):
            return bwd(ctx, *grads)

    return decorated
