"""Containers of modules and parameters, after their namesakes in torch.nn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tinygrad_lite.nn.module import Module, format_block
from tinygrad_lite.nn.parameter import Parameter


class _Indexed(Module):
    """Children named "0", "1", … in order, reachable by position."""

    def _at(self, index: int) -> str:
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range of a {type(self).__name__} of {size}")
        return list(self._modules)[index]

    def _refill(self, children: Iterable[Module]) -> None:
        """Number the given children from 0."""
        kept = list(children)
        self._modules.clear()
        for i, child in enumerate(kept):
            self.add_module(str(i), child)
        self._changed()

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._sliced(index)
        return self._modules[self._at(index)]

    def _sliced(self, index: slice) -> Any:
        return type(self)(list(self)[index])  # type: ignore[call-arg]

    def __setitem__(self, index: int, module: Module) -> None:
        self.add_module(self._at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        keys = list(self._modules)
        gone = set(keys[index]) if isinstance(index, slice) else {self._at(index)}
        self._refill([child for key, child in self._modules.items() if child is not None and key not in gone])

    def append(self, module: Module) -> Any:
        """Add one module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add several modules at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put a module before position `index`."""
        children = list(self)
        children.insert(index, module)
        self._refill(children)
        return self

    def pop(self, index: int = -1) -> Any:
        """Take out and return one module."""
        module = self[index]
        del self[index]
        return module


class Sequential(_Indexed):
    """Calls its children one after the other.

    `Sequential(a, b)` names them "0", "1"; `Sequential(OrderedDict(first=a, second=b))` as the mapping does.
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        super().__init__()
        first = modules[0] if len(modules) == 1 else None
        named = first.items() if isinstance(first, Mapping) else ((str(i), m) for i, m in enumerate(modules))
        for name, module in named:
            self.add_module(name, module)  # type: ignore[arg-type]

    def _sliced(self, index: slice) -> Sequential:
        # A slice shares its modules with the whole, whose names (and scopes) they keep.
        part = type(self)()
        part._modules.update(list(self._modules.items())[index])
        return part

    def __delitem__(self, index: int | slice) -> None:
        if all(key.isdigit() for key in self._modules):
            return super().__delitem__(index)
        for key in list(self._modules)[index] if isinstance(index, slice) else [self._at(index)]:
            delattr(self, key)
        return None

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input


class ModuleList(_Indexed):
    """A list of modules; it has no forward."""

    _is_transparent = True

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        self.extend(modules)
        return self

    def __repr__(self) -> str:
        children = [f"({span}): {text}" for span, text in _folded([repr(child) for child in self])]
        return format_block(self._get_name(), [], [child.replace("\n", "\n  ") for child in children])


def _folded(texts: list[str]) -> Iterator[tuple[str, str]]:
    """Runs of equal texts as one: ("0-3", "4 x Linear(…)")."""
    start = 0
    for i in range(1, len(texts) + 1):
        if i == len(texts) or texts[i] != texts[start]:
            count = i - start
            yield (str(start), texts[start]) if count == 1 else (f"{start}-{i - 1}", f"{count} x {texts[start]}")
            start = i


class ModuleDict(Module):
    """A dict of modules; it has no forward."""

    _is_transparent = True

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace modules."""
        for name, module in dict(modules).items():
            self[name] = module

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        del self._modules[name]
        self._changed()

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return self._modules.items()

    def pop(self, name: str) -> Any:
        """Take out and return one module."""
        module = self._modules[name]
        del self[name]
        return module

    def clear(self) -> None:
        """Take out all modules."""
        self._modules.clear()
        self._changed()


class ParameterList(Module):
    """A list of parameters; tensors in it become parameters."""

    _is_transparent = True

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def __getitem__(self, index: int | slice) -> Any:
        values = list(self._parameters.values())
        return ParameterList(values[index]) if isinstance(index, slice) else values[index]

    def __setitem__(self, index: int, value: Any) -> None:
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range of a ParameterList of {size}")
        self.register_parameter(str(index % size), _as_parameter(value))

    def append(self, value: Any) -> ParameterList:
        """Add one parameter at the end."""
        self.register_parameter(str(len(self)), _as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add several parameters at the end."""
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        lines = [f"({i}): Parameter of {p.dtype} and shape {tuple(p.shape)}" for i, p in enumerate(self)]
        return "\n".join(lines)


class ParameterDict(Module):
    """A dict of parameters; tensors in it become parameters."""

    _is_transparent = True

    def __init__(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def update(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Add or replace parameters."""
        for name, value in dict(parameters).items():
            self[name] = value

    def __getitem__(self, name: str) -> Any:
        return self._parameters[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.register_parameter(name, _as_parameter(value))

    def __delitem__(self, name: str) -> None:
        del self._parameters[name]
        self._changed()

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __contains__(self, name: object) -> bool:
        return name in self._parameters

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._parameters.keys()

    def values(self) -> Iterable[Any]:
        """The parameters."""
        return self._parameters.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and parameters."""
        return self._parameters.items()

    def get(self, name: str, default: Any = None) -> Any:
        """One parameter, or `default` where there is none of that name."""
        return self._parameters.get(name, default)

    def pop(self, name: str) -> Any:
        """Take out and return one parameter."""
        value = self._parameters[name]
        del self[name]
        return value

    def clear(self) -> None:
        """Take out all parameters."""
        self._parameters.clear()
        self._changed()

    def extra_repr(self) -> str:
        lines = [f"({name}): Parameter of {p.dtype} and shape {tuple(p.shape)}" for name, p in self.items()]
        return "\n".join(lines)


def _as_parameter(value: Any) -> Parameter:
    return value if isinstance(value, Parameter) else Parameter(value)
