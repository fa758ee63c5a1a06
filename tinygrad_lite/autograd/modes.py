"""Whether operations are recorded for autograd."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from tinygrad_lite.ir.record import mode

F = TypeVar("F", bound=Callable[..., Any])


class _GradMode:
    """A grad mode for a with-block, or for every call of a decorated function."""

    _value = False

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(mode.grad_enabled)
        mode.grad_enabled = self._value

    def __exit__(self, *exc: object) -> None:
        mode.grad_enabled = self._before.pop()

    def __call__(self, fn: F) -> F:
        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            before, mode.grad_enabled = mode.grad_enabled, self._value
            try:
                return fn(*args, **kwargs)
            finally:
                mode.grad_enabled = before

        return wrapped  # type: ignore[return-value]


class _Bare(_GradMode):
    """Also decorates without parentheses: `@no_grad`."""

    def __new__(cls, fn: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        if fn is None:
            return self
        self.__init__()  # type: ignore[misc]
        return self(fn)

    def __init__(self, fn: None = None) -> None:
        super().__init__()


class no_grad(_Bare):
    """Nothing computed inside is followed by autograd."""


class enable_grad(_Bare):
    """Turns recording on again inside `no_grad`."""

    _value = True


class set_grad_enabled(_GradMode):
    """Sets the mode at once, and restores the former one at the end of a with-block."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._value = bool(mode)
        self._outer = is_grad_enabled()
        _set(self._value)

    def __enter__(self) -> None:
        self._before.append(self._outer)
        mode.grad_enabled = self._value

    def __call__(self, fn: F) -> F:
        mode.grad_enabled = self._outer
        return super().__call__(fn)


class inference_mode(_GradMode):
    """As `no_grad`."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._value = is_grad_enabled() and not mode

    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        if not callable(mode):
            return self
        self.__init__()  # type: ignore[misc]
        return self(mode)


def _set(value: bool) -> None:
    mode.grad_enabled = value


def is_grad_enabled() -> bool:
    """Whether operations are recorded for autograd."""
    return mode.grad_enabled
