"""Attributes of one module that are computed at each reading: what parametrisations stand on.

The module changes its class to a subclass that has the rules as properties. Nothing is stored between two readings, so
that a capture sees the computation where `forward` reads the attribute.
"""

from __future__ import annotations

import functools
from typing import Any

from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.parameter import Uninitialized
from tinygrad_lite.tensor import Tensor


class Rule:
    """How an attribute is computed; a hashable value, so that modules of the same rules have the same class.

    Attributes:
        name: of the attribute.
        prefix: of the name of the class that modules with this rule have.
    """

    name: str
    prefix = ""

    def value(self, module: Any) -> Tensor:
        """The attribute's value."""
        raise NotImplementedError

    def assign(self, module: Any, value: Tensor) -> None:
        """What `module.name = value` does."""
        raise AttributeError(f"'{self.name}' of this {type(module).__name__} is computed, and cannot be set")

    def __get__(self, module: Any, owner: type) -> Any:
        return self if module is None else self.value(module)

    def __set__(self, module: Any, value: Tensor) -> None:
        self.assign(module, value)


def rules(module: Module) -> tuple[Rule, ...]:
    """The rules of a module's computed attributes."""
    return getattr(type(module), "_rules", ())


def plain_class(module: Module) -> type[Module]:
    """The class that a module would have without computed attributes."""
    return getattr(type(module), "_plain", type(module))


def compute(module: Module, rule: Rule) -> None:
    """Let a rule stand for an attribute, which must have been deleted before."""
    _become(module, (*rules(module), rule))


def forget(module: Module, rule: Rule) -> None:
    """Take a rule away; the attribute is then missing."""
    _become(module, tuple(r for r in rules(module) if r != rule))


def checked(module: Module, name: str, what: str) -> Tensor:
    """The parameter that is to be computed from now on.

    Raises:
        ValueError: there is none of this name, or it has no shape yet.
        RuntimeError: it is computed already.
    """
    if any(rule.name == name for rule in rules(module)):
        raise RuntimeError(f"{what}: '{name}' of the {type(module).__name__} is computed already")
    if module._parameters.get(name) is None:
        raise ValueError(f"{what}: the {type(module).__name__} has no parameter '{name}'")
    if isinstance(module._parameters[name], Uninitialized):
        raise ValueError(f"{what}: '{name}' has no shape yet. Call the lazy module once before")
    return module._parameters[name]  # type: ignore[return-value]


def _become(module: Module, wanted: tuple[Rule, ...]) -> None:
    module.__class__ = _class_with(plain_class(module), wanted)  # type: ignore[assignment]
    module._changed()


@functools.cache
def _class_with(plain: type[Module], wanted: tuple[Rule, ...]) -> type[Module]:
    if not wanted:
        return plain
    prefix = max(rule.prefix for rule in wanted)
    body = {"_plain": plain, "_rules": wanted, "__reduce_ex__": _reduce, "__module__": plain.__module__}
    return type(prefix + plain.__name__, (plain,), body | {rule.name: rule for rule in wanted})


def _reduce(module: Module, protocol: Any) -> tuple[Any, ...]:
    return _anew, (plain_class(module), rules(module)), module.__dict__


def _anew(plain: type[Module], wanted: tuple[Rule, ...]) -> Module:
    kind = _class_with(plain, wanted)
    return kind.__new__(kind)
