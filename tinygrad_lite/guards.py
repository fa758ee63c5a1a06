"""Guards: what a capture took for granted, checked before it is replayed."""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import GradMeta
from tinygrad_lite.tensor import Tensor

SCALARS = (bool, int, float, str, bytes, type(None))
_VALUES = (complex, range, enum.Enum, np.generic, np.dtype)  # compared by value as well
_DEPTH, _WIDTH = 3, 64  # how far containers and objects are looked into
_NOT_THE_USERS = frozenset({"tinygrad_lite", "numpy", *sys.stdlib_module_names}) - {"__main__"}

Read = Callable[[], Any]


class ModuleVersions:
    """Counts changes to all modules of the process, so that one integer comparison tells that none has changed.

    Attributes:
        changes: grows whenever the `_version` of any Module grows. Never reset.
    """

    __slots__ = ("changes",)

    def __init__(self) -> None:
        self.changes = 0


module_versions = ModuleVersions()


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


def _scalar_key(value: Any) -> Any:
    """Equal for what is the same to a program: 1, 1.0 and True differ, and so do 0.0 and -0.0; NaN equals NaN."""
    return type(value), value.hex() if type(value) is float else value


def snapshot(value: Any, depth: int = _DEPTH) -> Any:
    """What guards compare: scalars and containers of them by value, small arrays by content, all else by identity."""
    if isinstance(value, SCALARS):
        return _scalar_key(value)
    if isinstance(value, _VALUES):
        return type(value), value
    if depth and isinstance(value, (list, tuple, set, frozenset, dict)) and len(value) <= _WIDTH:
        items = value.items() if isinstance(value, dict) else value
        return type(value), tuple(snapshot(v, depth - 1) for v in items)
    if isinstance(value, np.ndarray) and value.nbytes <= 4096 and not value.dtype.hasobject:
        return Is(value), value.tobytes()
    return Is(value)


def _show(value: Any) -> str:
    shown = isinstance(value, (*SCALARS, *_VALUES, list, tuple, dict))
    text = repr(value) if shown else f"another {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "…"


# ---- what a function reads from around it -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Watch:
    """A variable: its name, how to read it, and what it was."""

    name: str
    read: Read
    known: Any
    key: Any
    mutable: bool


class Variables:
    """What a function reads from outside its arguments, directly or through functions of the user's own.

    Closure cells and globals; the attributes, named in its code, of objects and modules it finds there; containers.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.watches: list[_Watch] = []
        self._followed: set[Any] = set()
        self._objects: set[tuple[int, str]] = set()
        self.follow(fn)

    def changed(self) -> str | None:
        """What differs from when it was captured, or None."""
        for watch in self.watches:
            now = watch.read()
            if (now is not watch.known or watch.mutable) and snapshot(now) != watch.key:
                return f"{watch.name} was {_show(watch.known)}, is {_show(now)}"
        return None

    def tensors(self) -> set[int]:
        """Ids of the tensors among the variables, in containers too."""
        return {id(t) for watch in self.watches for t in tensors_in(watch.known)}

    def follow(self, fn: Any) -> None:
        """Watch what a function of the user's own reads, and those it calls."""
        pending = [fn]
        while pending:
            function = pending.pop()
            if isinstance(function, functools.partial):
                pending += [function.func, *function.args, *function.keywords.values()]
                continue
            if not isinstance(function, (types.FunctionType, types.MethodType, type)):
                function = getattr(function, "fn", None) or getattr(function, "__call__", None)  # noqa: B004
            owner = getattr(function, "__self__", None)
            function = getattr(function, "__func__", function)
            known = (function, id(owner))
            if not isinstance(function, types.FunctionType) or known in self._followed or not _is_users(function):
                continue
            self._followed.add(known)
            pending.append(getattr(function, "__wrapped__", None))
            names = frozenset(_names_in(function.__code__))
            if owner is not None:
                pending += self._watch_object("self", owner, names, _DEPTH)
            for name, read in _reads(function, names):
                pending += self._watch(name, read, names, _DEPTH)

    def follow_forward(self, module: Any) -> None:
        """Watch what a module's forward reads besides what `guard_key` tells."""
        forward = getattr(type(module), "forward", None)
        if isinstance(forward, types.FunctionType) and _is_users(forward):
            self.follow(types.MethodType(forward, module))

    def _watch(self, name: str, read: Read, names: frozenset[str], depth: int) -> list[Any]:
        """Watch one variable; returns functions to follow."""
        value = read()
        if isinstance(value, types.ModuleType):
            return self._watch_object(name, value, names, depth) if _is_users_name(value.__name__) else []
        mutable = isinstance(value, (list, tuple, set, dict, np.ndarray))
        self.watches.append(_Watch(name, read, value, snapshot(value), mutable))
        found = self._watch_object(name, value, names, depth)
        return [*found, value] if callable(value) else found

    def _watch_object(self, name: str, value: Any, names: frozenset[str], depth: int) -> list[Any]:
        """Watch the attributes of an object that code mentions."""
        if not depth or isinstance(value, Tensor) or not _is_users_object(value):
            return []
        pending: list[Any] = [types.MethodType(f, value) for f in _methods(type(value), names)]
        for attribute in names & getattr(value, "__dict__", {}).keys():
            if (id(value), attribute) not in self._objects:
                self._objects.add((id(value), attribute))
                read = functools.partial(getattr, value, attribute, None)
                pending += self._watch(f"{name}.{attribute}", read, names, depth - 1)
        return pending


def _methods(kind: type, names: frozenset[str]) -> Iterator[types.FunctionType]:
    """Methods and properties of a class that code mentions."""
    for name in names:
        member = inspect.getattr_static(kind, name, None)
        member = member.fget if isinstance(member, property) else member
        if isinstance(member, types.FunctionType) and _is_users(member):
            yield member


def _is_users(thing: Any) -> bool:
    return _is_users_name(getattr(thing, "__module__", None) or "")


def _is_users_object(value: Any) -> bool:
    """An object, class or module whose attributes may change."""
    return isinstance(value, types.ModuleType) or _is_users(value if isinstance(value, type) else type(value))


def _is_users_name(module: str) -> bool:
    return module.partition(".")[0] not in _NOT_THE_USERS


def _names_in(code: types.CodeType) -> Iterator[str]:
    """Globals and attributes that a function's code mentions, those of functions and comprehensions inside it too."""
    pending = [code]
    while pending:
        code = pending.pop()
        yield from code.co_names
        pending += [c for c in code.co_consts if isinstance(c, types.CodeType)]


def _reads(function: types.FunctionType, names: frozenset[str]) -> Iterator[tuple[str, Read]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, functools.partial(_contents, cell)
    for name in sorted(names & function.__globals__.keys()):
        yield name, functools.partial(function.__globals__.get, name)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return None


# ---- arguments and results -----------------------------------------------------------------------------------


def key_of(value: Any, tensors: list[Tensor]) -> Any:
    """The part of a call that a capture depends on: structure and static values; tensors are collected."""
    if isinstance(value, Tensor):
        for i, known in enumerate(tensors):
            if known is value:
                return ("same", i)
        tensors.append(value)
        type_ = value._node.type
        return (type_.dtype.short, type_.shape, history_key(value._node.grad))
    if isinstance(value, SCALARS):
        return _scalar_key(value)
    if isinstance(value, (list, tuple)):
        return (type(value), *[key_of(v, tensors) for v in value])
    if isinstance(value, dict):
        return (type(value), *[(k, key_of(v, tensors)) for k, v in value.items()])
    if _is_record(value):
        return (type(value), *[key_of(v, tensors) for v in vars(value).values()])
    if isinstance(value, _VALUES):
        return (type(value), value)
    if isinstance(value, slice):
        return (slice, *[key_of(v, tensors) for v in (value.start, value.stop, value.step)])
    if isinstance(value, np.ndarray):
        raise TypeError("a compiled function takes tensors, not NumPy arrays: pass tl.from_numpy(array)")
    return Is(value)


def _is_record(value: Any) -> bool:
    """A dataclass instance, which is taken apart like a tuple."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__")


def history_key(meta: GradMeta | None) -> Any:
    """Does autograd follow a tensor with these notes, and which hooks does it call?"""
    if meta is None or not (meta.hooks or meta.accumulated):
        return meta is not None
    return tuple(meta.hooks or ()), tuple(meta.accumulated or ())


def tensors_in(value: Any) -> list[Tensor]:
    """The distinct tensors of a value, in the order of `key_of`."""
    found: dict[int, Tensor] = {}
    seen: set[int] = set()
    pending = [value]
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, Tensor):
            found[id(each)] = each
        elif isinstance(each, (list, tuple)):
            pending += reversed(each)
        elif isinstance(each, dict) or _is_record(each):
            pending += reversed((each if isinstance(each, dict) else vars(each)).values())
    return list(found.values())


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
        new = copy.copy(value)
        new.update([(k, _replace(v, fresh, known)) for k, v in value.items()])
        return new
    if _is_record(value):
        new = copy.copy(value)
        new.__dict__.update({k: _replace(v, fresh, known) for k, v in vars(value).items()})
        return new
    return value
