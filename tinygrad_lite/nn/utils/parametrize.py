"""Parametrisations: a parameter that is a function of others, after torch.nn.utils.parametrize.

`module.weight` is computed at each reading; what it is computed from are parameters of module.parametrizations.weight.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tinygrad_lite.autograd import no_grad
from tinygrad_lite.ir.record import mode
from tinygrad_lite.nn.containers import ModuleDict, ModuleList
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.parameter import Parameter, Uninitialized
from tinygrad_lite.nn.utils.computed import Rule, compute, forget, plain_class, rules
from tinygrad_lite.tensor import Tensor

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "type_before_parametrizations",
]


class ParametrizationList(ModuleList):
    """The modules that make a tensor, one after the other, and what the first takes: `original`, or `original0`, ….

    Attributes:
        ntensors: how many tensors the first takes.
        is_tensor: whether it takes one by itself, `original`.
    """

    _is_transparent = False  # it has a forward

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        try:
            with no_grad():
                new = self._inverse(original)
        except NotImplementedError:
            new = original
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            self._keep("original", original)
            if new is not original:
                original.data = new
        else:
            for i, tensor in enumerate(new):
                followed = isinstance(original, Parameter)
                self._keep(f"original{i}", Parameter(tensor, original.requires_grad) if followed else tensor.detach())
        if not unsafe:
            self._check(original)

    def _keep(self, name: str, tensor: Tensor) -> None:
        if isinstance(tensor, Parameter):
            self.register_parameter(name, tensor)
        else:
            self.register_buffer(name, tensor)

    def _inverse(self, value: Tensor) -> Any:
        """What gives `value`: through the right_inverse of each module, the last first."""
        found: Any = value
        for module in reversed(list(self)):
            if not hasattr(module, "right_inverse"):
                raise NotImplementedError(f"the parametrization {type(module).__name__} has no right_inverse")
            found = module.right_inverse(found)
        if isinstance(found, Tensor):
            return found
        if not isinstance(found, Sequence) or not all(isinstance(t, Tensor) for t in found):
            raise ValueError(f"right_inverse must return a tensor or a sequence of them, not {type(found).__name__}")
        return found

    def _check(self, original: Tensor) -> None:
        with no_grad():
            made = self()
        if not isinstance(made, Tensor):
            raise ValueError(f"a parametrization must return a tensor, not {type(made).__name__}")
        for what in ("dtype", "shape"):
            before, after = getattr(original, what), getattr(made, what)
            if before != after:
                raise ValueError(f"a parametrization may not change the {what} unless unsafe: from {before} to {after}")

    def originals(self) -> list[Tensor]:
        """The tensors that the first module takes."""
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def forward(self) -> Any:
        first, *rest = self
        made = first(*self.originals())
        for module in rest:
            made = module(made)
        return made

    def right_inverse(self, value: Tensor) -> None:
        """Give the originals values of which `value` is made, in place.

        Raises:
            NotImplementedError: a parametrisation that cannot be inverted. ValueError: another number of tensors.
        """
        with no_grad():
            found = self._inverse(value)
            found = [found] if isinstance(found, Tensor) else list(found)
            if len(found) != self.ntensors:
                raise ValueError(f"right_inverse must return {self.ntensors} tensors, not {len(found)}")
            for original, tensor in zip(self.originals(), found, strict=True):
                if tuple(original.shape) == tuple(tensor.shape):
                    original.copy_(tensor)
                else:
                    original.data = tensor


class _Cache(threading.local):
    """What was computed within `cached()`."""

    depth = 0

    def __init__(self) -> None:
        self.values: dict[tuple[int, str, int], Tensor] = {}


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Within, a parametrized tensor is computed at its first reading, and kept until the end of the outermost block.

    What it is computed from must stay what it is: an optimizer's step inside is not seen.
    """
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values.clear()


@dataclass(frozen=True)
class _Parametrized(Rule):
    name: str

    prefix = "Parametrized"

    def value(self, module: Any) -> Tensor:
        if not _cache.depth:
            return module.parametrizations[self.name]()  # type: ignore[no-any-return]
        key = (id(module), self.name, id(mode.trace))  # what a capture computes is not for others
        if key not in _cache.values:
            _cache.values[key] = module.parametrizations[self.name]()
        return _cache.values[key]

    def assign(self, module: Any, value: Tensor) -> None:
        _cache.values.clear()
        module.parametrizations[self.name].right_inverse(value)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has a parametrisation, of that tensor where one is named."""
    names = [rule.name for rule in rules(module) if isinstance(rule, _Parametrized)]
    return bool(names) if tensor_name is None else tensor_name in names


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class of a module without its parametrisations."""
    return plain_class(module)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let `module.tensor_name` be `parametrization(original)`; a second one takes what the first makes.

    The value goes through the `right_inverse` of the first where it has that method, which may return several tensors;
    the parametrisation is then called with them. Assigning to the attribute goes the same way, through all of them. The
    parameter stays the same object where it stays one tensor. Returns the module.

    Raises:
        ValueError: no such parameter or buffer; another shape or dtype, unless `unsafe`.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append(module, tensor_name, parametrization, unsafe)
        return module
    if module._parameters.get(tensor_name) is None and module._buffers.get(tensor_name) is None:
        raise ValueError(
            f"a {type(module).__name__} has no parameter, buffer or parametrized tensor of the name '{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    if isinstance(original, Uninitialized):
        raise ValueError(f"'{tensor_name}' has no shape yet. Call the lazy module once before")
    made = ParametrizationList([parametrization], original, unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = made
    compute(module, _Parametrized(tensor_name))
    return module


def _append(module: Module, name: str, parametrization: Module, unsafe: bool) -> None:
    parts = module.parametrizations[name]
    if not unsafe:
        ParametrizationList([parametrization], getattr(module, name).detach().clone())  # raises what is wrong with it
    parts.append(parametrization)
    parts.unsafe |= unsafe


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor a parameter or buffer again: of its present value, or of the original's. Returns the module.

    Raises:
        ValueError: it is not parametrised; leave_parametrized=False where there are several originals.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"the {type(module).__name__} has no parametrization of '{tensor_name}'")
    parts = module.parametrizations[tensor_name]
    if not leave_parametrized and not parts.is_tensor:
        raise ValueError("leave_parametrized=False: there are several originals, and none is the tensor itself")
    original = parts.originals()[0]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach()
        if parts.is_tensor:
            original.data = value
        else:
            original = Parameter(value, original.requires_grad) if isinstance(original, Parameter) else value
    forget(module, _Parametrized(tensor_name))
    del module.parametrizations[tensor_name]
    if not is_parametrized(module):
        del module.parametrizations
    if isinstance(original, Parameter):
        module.register_parameter(tensor_name, original)
    else:
        module.register_buffer(tensor_name, original)
    return module
