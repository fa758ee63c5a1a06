"""Hooks around a module's forward and backward, and the handles that remove them."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tinygrad_lite.autograd import Function
from tinygrad_lite.tensor import Tensor

_ids = itertools.count()


class Hook(NamedTuple):
    """A user's function; whether it takes keyword arguments as well, and is called even where forward raises."""

    fn: Callable[..., Any]
    with_kwargs: bool = False
    always: bool = False

    def before(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Arguments as this pre-hook leaves them."""
        if not self.with_kwargs:
            changed = self.fn(module, args)
            if changed is None:
                return args, kwargs
            return (changed if isinstance(changed, tuple) else (changed,)), kwargs
        changed = self.fn(module, args, kwargs)
        if changed is None:
            return args, kwargs
        if not (isinstance(changed, tuple) and len(changed) == 2):
            raise RuntimeError(f"a forward pre-hook with_kwargs returns None or (args, kwargs), not {changed!r}")
        return changed

    def after(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """Output as this hook leaves it."""
        given = (module, args, kwargs, result) if self.with_kwargs else (module, args, result)
        changed = self.fn(*given)
        return result if changed is None else changed


class RemovableHandle:
    """Removes a hook: `handle.remove()`, or leave a with-block."""

    def __init__(self, hooks: dict[int, Hook], changed: Callable[[], None]) -> None:
        self.id = next(_ids)
        self._hooks, self._changed = hooks, changed

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        if self._hooks.pop(self.id, None) is not None:
            self._changed()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


# ---- backward ------------------------------------------------------------------------------------------------


class _Gate(Function):
    """Tensors as they are; all of their gradients go through a callback together."""

    @staticmethod
    def forward(ctx: Any, callback: Callable[..., Any], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.callback = callback
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        return None, *ctx.callback(grads)


class BackwardHooks:
    """One call of a module whose backward is hooked: gates around its inputs and its outputs."""

    def __init__(self, module: Any, before: Sequence[Hook], after: Sequence[Hook]) -> None:
        self.module, self.before, self.after = module, before, after
        self.grad_output: tuple[Tensor | None, ...] = ()
        self.inputs, self.followed = 0, False

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of forward, whose gradients will go through the hooks."""
        self.inputs = len(args)
        places = _followed(args)
        self.followed = bool(places)
        return _through(args, places, self._after)

    def leave(self, result: Any) -> Any:
        """The result of forward, whose gradient will go through the pre-hooks."""
        if not isinstance(result, Tensor | tuple):
            warnings.warn(
                f"the backward hooks of {type(self.module).__name__} need a Tensor or a tuple of Tensors as its "
                f"output; for a {type(result).__name__} they are not called",
                stacklevel=4,
            )
            return result
        parts = result if isinstance(result, tuple) else (result,)
        gated = _through(parts, _followed(parts), self._before)
        if not isinstance(result, tuple):
            return gated[0]
        return type(result)(*gated) if hasattr(result, "_fields") else gated

    def _before(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.before:
            grads = _replaced(hook.fn(self.module, grads), grads, "backward pre hook", "grad_output")
        self.grad_output = grads
        if self.followed:
            return grads
        nothing = (None,) * self.inputs
        for hook in self.after:
            changed = hook.fn(self.module, nothing, grads)
            if changed is not None and any(g is not None for g in _as_tuple(changed)):
                raise RuntimeError(
                    f"a backward hook of {type(self.module).__name__}, of which no input requires a gradient, must "
                    "return None"
                )
        return grads

    def _after(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.after:
            changed = hook.fn(self.module, grads, self.grad_output)
            grads = _replaced(changed, grads, "backward hook", "grad_input")
        return grads


def _followed(values: Sequence[Any]) -> list[int]:
    return [i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad]


def _through(values: tuple[Any, ...], places: list[int], callback: Callable[..., Any]) -> tuple[Any, ...]:
    """`values` with those at `places` behind a gate; the callback sees gradients for all, None for the others."""

    def on_backward(grads: Sequence[Any]) -> list[Any]:
        full: list[Any] = [None] * len(values)
        for place, g in zip(places, grads, strict=True):
            full[place] = g
        full = list(callback(tuple(full)))
        return [full[place] for place in places]

    if not places:
        return values
    found = list(values)
    for place, tensor in zip(places, _Gate.apply(on_backward, *[values[i] for i in places]), strict=True):
        found[place] = tensor
    return tuple(found)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _replaced(changed: Any, grads: tuple[Any, ...], what: str, name: str) -> tuple[Any, ...]:
    """What a hook returned in place of gradients, if it did."""
    if changed is None:
        return grads
    if len(_as_tuple(changed)) != len(grads):
        raise RuntimeError(
            f"a {what} returned an invalid number of {name}: got {len(_as_tuple(changed))}, expected {len(grads)}"
        )
    return _as_tuple(changed)
