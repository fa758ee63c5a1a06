"""Guards: what a capture took for granted, checked before it is replayed."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

from tinygrad_lite.tensor import Tensor

SCALARS = (bool, int, float, str, bytes, type(None))


class ModuleVersions:
    """Counts changes to all modules of the process, so that one integer comparison tells that none has changed.

    Attributes:
        changes: grows whenever the `_version` of any Module grows. Never reset.
    """

    __slots__ = ("changes",)

    def __init__(self) -> None:
        self.changes = 0


module_versions = ModuleVersions()


class Variables:
    """The closure cells and globals that a Python function reads, directly or through functions of the user's own.

    Scalars are compared by value and type, everything else by identity.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.watched = [(name, read, read()) for name, read in _variables(fn)]

    def changed(self) -> str | None:
        """What differs from when it was captured, or None."""
        for name, read, known in self.watched:
            now = read()
            if now is not known and not (type(now) is type(known) and isinstance(now, SCALARS) and now == known):
                return f"{name} was {_show(known)}, is {_show(now)}"
        return None


def _show(value: Any) -> str:
    return repr(value) if isinstance(value, SCALARS) else f"another {type(value).__name__}"


def _variables(fn: Callable[..., Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(name, how to read it) of all that may change under a captured function's feet."""
    seen: set[Any] = set()
    stack: list[Any] = [fn]
    while stack:
        function = stack.pop()
        function = getattr(function, "__func__", function)
        if not isinstance(function, types.FunctionType) or function in seen:
            continue
        seen.add(function)
        for name, read in _reads(function):
            yield name, read
            value = read()
            if isinstance(value, types.FunctionType) and not value.__module__.startswith("tinygrad_lite."):
                stack.append(value)


def _reads(function: types.FunctionType) -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, lambda cell=cell: _contents(cell)
    names = function.__globals__
    for name in function.__code__.co_names:
        if name in names and not isinstance(names[name], types.ModuleType):
            yield name, lambda name=name: names.get(name)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return None


class Is:
    """A part of a key that is compared by identity; it keeps the object alive, so that no other can take its id."""

    __slots__ = ("object",)

    def __init__(self, value: Any) -> None:
        self.object = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Is) and other.object is self.object

    def __hash__(self) -> int:
        return id(self.object)

    def __repr__(self) -> str:
        return f"this {type(self.object).__name__}"


def key_of(value: Any, tensors: list[Tensor]) -> Any:
    """The part of a call that a capture depends on: structure and static values; tensors are collected."""
    if isinstance(value, Tensor):
        for i, known in enumerate(tensors):
            if known is value:
                return ("same", i)
        tensors.append(value)
        type_ = value._node.type
        return (type_.dtype.short, type_.shape, value._node.grad is not None)
    if isinstance(value, SCALARS):
        return (type(value), value)
    if isinstance(value, (list, tuple)):
        return (type(value), *[key_of(v, tensors) for v in value])
    if isinstance(value, dict):
        return (dict, *[(k, key_of(v, tensors)) for k, v in value.items()])
    return Is(value)


def with_tensors(value: Any, tensors: Iterator[Any]) -> Any:
    """`value` with each tensor, in the order of `key_of`, replaced by the next of `tensors`."""
    return _replace(value, tensors, {})


def _replace(value: Any, fresh: Iterator[Any], known: dict[int, Any]) -> Any:
    if isinstance(value, Tensor):
        if id(value) not in known:
            known[id(value)] = next(fresh)
        return known[id(value)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_replace(v, fresh, known) for v in value])
    if isinstance(value, (list, tuple)):
        return type(value)(_replace(v, fresh, known) for v in value)
    if isinstance(value, dict):
        return type(value)((k, _replace(v, fresh, known)) for k, v in value.items())
    return value
