"""Module: a tree of parameters, buffers and submodules around a `forward`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tinygrad_lite.guards import SCALARS, Is, module_versions
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import DType
from tinygrad_lite.nn.hooks import BackwardHooks, Hook, RemovableHandle
from tinygrad_lite.nn.parameter import Parameter, Uninitialized
from tinygrad_lite.nn.state import Incompatible, check_loadable, load_values
from tinygrad_lite.tensor import Tensor

M = TypeVar("M", bound="Module")


_CHILD_DICTS = ("_parameters", "_buffers", "_modules")
_HOOK_DICTS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_TABLES = (*_CHILD_DICTS, *_HOOK_DICTS)
_BOOKKEEPING = frozenset({"_version", "_name", "_non_persistent_buffers_set", *_TABLES})


def _name_layer(error: Exception, module: Module, path: str) -> None:
    """Note on an error the innermost module it came from: an op's message tells its sizes, but not whose they are."""
    if "_layer" not in error.__dict__:
        error.__dict__["_layer"] = path
        kind = type(module).__name__
        if not module._modules:
            with contextlib.suppress(Exception):  # an `extra_repr` may fail, and must not hide the error
                kind = repr(module)
        error.add_note(f"in {path or 'the module called'}: {kind}")


class Module:
    """Base class of layers and models, after `torch.nn.Module`.

    Parameters, buffers and submodules assigned as attributes are registered under the attribute's name, in
    `_parameters`, `_buffers` and `_modules`. Calling a module runs its forward pre-hooks, `forward`, its forward hooks,
    and marks every node recorded meanwhile with the module's path. An error on the way gets a note that names the
    layer.

    Attributes:
        training: what `train()` and `eval()` set; read by dropout and normalisation.
        _version: grows whenever an attribute, the mode or a hook of this module changes. A compiled function that read
            the module compares it (after `module_versions.changes`) and asks `guard_key()` when it differs.
        _name: the module's name in its parent, "" for a root.
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _version: int
    _name: str
    # True for containers without a forward: their children's names then carry theirs ("blocks.3").
    _is_transparent = False

    def __init__(self) -> None:
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _modules={},
            **{table: {} for table in _HOOK_DICTS},
            _version=0,
            _name="",
        )

    # Calling

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trace, outer = mode.trace, mode.scope
        if trace is not None:
            trace.saw_module(self)
        name = self._name
        mode.scope = f"{outer}.{name}" if outer and name else outer or name
        try:
            if any(self.__dict__[table] for table in _HOOK_DICTS):
                return self._call_with_hooks(args, kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            _name_layer(error, self, mode.scope)
            raise
        finally:
            mode.scope = outer

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called: set[int] = set()
        try:
            return self._between_hooks(args, kwargs, called)
        except Exception:
            self._call_remaining(args, kwargs, called)
            raise

    def _between_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> Any:
        for hook in tuple(self._forward_pre_hooks.values()):
            args, kwargs = hook.before(self, args, kwargs)
        backward = None
        if self._backward_hooks or self._backward_pre_hooks:
            before, after = self._backward_pre_hooks.values(), self._backward_hooks.values()
            backward = BackwardHooks(self, tuple(before), tuple(after))
            args = backward.enter(args)
        result = self.forward(*args, **kwargs)
        for key, hook in tuple(self._forward_hooks.items()):
            called.add(key)
            result = hook.after(self, args, kwargs, result)
        return result if backward is None else backward.leave(result)

    def _call_remaining(self, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> None:
        """After an error in forward: the hooks that are called always."""
        for key, hook in tuple(self._forward_hooks.items()):
            if hook.always and key not in called:
                try:
                    hook.after(self, args, kwargs, None)
                except Exception as error:
                    warnings.warn(
                        "a forward hook with always_call=True raised an error, which is passed over for the one that "
                        f"forward raised: {error}",
                        stacklevel=2,
                    )

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args[, kwargs])` before every forward; unless None, its result replaces the arguments."""
        return self._add_hook(self._forward_pre_hooks, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args[, kwargs], output)` after every forward; unless None, its result replaces it.

        With `always_call` also where forward raises, with the output None.
        """
        return self._add_hook(self._forward_hooks, Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the positional inputs are known.

        Both are tuples, with None for what is no tensor or has no gradient. Unless None, the hook's result takes the
        place of grad_input. Where no input requires a gradient it is called when grad_output is known.
        """
        return self._add_hook(self._backward_hooks, Hook(hook), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when the gradients of the outputs are known; its result replaces them."""
        return self._add_hook(self._backward_pre_hooks, Hook(hook), prepend)

    def _add_hook(self, hooks: dict[int, Hook], hook: Hook, prepend: bool) -> RemovableHandle:
        handle = RemovableHandle(hooks, self._changed)
        earlier = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[handle.id] = hook
        hooks.update(earlier)
        self._changed()
        return handle

    # Attributes

    def _changed(self) -> None:
        self.__dict__["_version"] += 1
        module_versions.changes += 1

    def guard_key(self) -> tuple[Any, ...]:
        """A hashable summary of all that `forward` can read from this module's own attributes.

        Numbers, strings and tuples of them by value, all else by identity: appending to a list attribute goes unseen.
        Equal keys mean that a capture made at the first holds at the second. Submodules answer for themselves.
        """
        own = [(k, v) for k, v in self.__dict__.items() if k not in _BOOKKEEPING]
        for table in _TABLES:
            own += [(f"{table}.{k}", v) for k, v in self.__dict__[table].items()]
        return tuple((k, _guarded(v)) for k, v in own)

    def __getattr__(self, name: str) -> Any:
        for table in _CHILD_DICTS:
            found = self.__dict__.get(table)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_parameters" not in own:
            if isinstance(value, (Tensor, Module)):
                raise AttributeError(f"{type(self).__name__}: call super().__init__() before assigning '{name}'")
            return object.__setattr__(self, name, value)
        if isinstance(value, Parameter):
            self._discard(name, keep="_parameters")
            return self.register_parameter(name, value)
        if isinstance(value, Module):
            self._discard(name, keep="_modules")
            return self.add_module(name, value)
        for table in _CHILD_DICTS:
            if name in own[table]:
                return self._replace(table, name, value)
        if name not in own or not _same(own[name], value):
            object.__setattr__(self, name, value)
            self._changed()
        return None

    def _replace(self, table: str, name: str, value: Any) -> None:
        """Assign None, or a new tensor to a buffer, under an already registered name."""
        if value is not None and not (table == "_buffers" and isinstance(value, Tensor)):
            kind = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "child module"}[table]
            expected = {"_parameters": "Parameter", "_buffers": "Tensor", "_modules": "Module"}[table]
            raise TypeError(f"{kind} '{name}' can only be set to a {expected} or None, not to {type(value).__name__}")
        held = self.__dict__[table]
        if held[name] is not value:
            held[name] = value
            self._changed()

    def _discard(self, name: str, keep: str) -> None:
        """Forget what `name` meant before, except in the table that is about to hold it."""
        self.__dict__.pop(name, None)
        for table in _CHILD_DICTS:
            if table != keep:
                self.__dict__[table].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for table in _CHILD_DICTS:
            if name in self.__dict__[table]:
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return self._changed()
        object.__delattr__(self, name)
        return self._changed()

    def __dir__(self) -> list[str]:
        children = [name for table in _CHILD_DICTS for name in self.__dict__.get(table, ())]
        return sorted({*super().__dir__(), *(name for name in children if name.isidentifier())})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({table: {} for table in _HOOK_DICTS} | state)
        module_versions.changes += 1

    # Registration

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter (None reserves the name).

        Raises:
            TypeError: not a Parameter. ValueError: not a leaf. KeyError: the name is empty, dotted or taken.
        """
        self._check_name(name, "_parameters", "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"parameter '{name}' must be a Parameter or None, not {type(param).__name__}")
        if param is not None and not param.is_leaf:
            raise ValueError(f"parameter '{name}' is the result of a computation: compute it in forward() instead")
        self._register("_parameters", name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the state but not trained; `persistent=False` keeps it out of `state_dict`."""
        self._check_name(name, "_buffers", "buffer")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"buffer '{name}' must be a Tensor or None, not {type(tensor).__name__}")
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)
        self._register("_buffers", name, tensor)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module, reachable as an attribute; its name in this parent becomes its scope."""
        self._check_name(name, "_modules", "module")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"module '{name}' must be a Module or None, not {type(module).__name__}")
        self._register("_modules", name, module)
        if module is not None:
            module._rename(f"{self._name}.{name}" if self._is_transparent and self._name else name)

    register_module = add_module

    def _check_name(self, name: str, table: str, kind: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: call super().__init__() before assigning {kind} '{name}'")
        if not isinstance(name, str):
            raise TypeError(f"the name of a {kind} must be a string, not {type(name).__name__}")
        if "." in name or name == "":
            raise KeyError(f"the name of a {kind} must be non-empty and without dots: {name!r}")
        if hasattr(self, name) and name not in self.__dict__[table]:
            raise KeyError(f"{type(self).__name__} already has an attribute '{name}'")

    def _register(self, table: str, name: str, value: Any) -> None:
        held = self.__dict__[table]
        if name not in held or held[name] is not value:
            held[name] = value
            self._changed()

    def _rename(self, name: str) -> None:
        self.__dict__["_name"] = name
        if self._is_transparent:
            for key, child in self._modules.items():
                if child is not None:
                    child._rename(f"{name}.{key}")

    # Walking the tree

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it with their paths, parents first; a shared module appears once."""
        seen = set() if memo is None else memo
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if remove_duplicate and module in seen:
                continue
            seen.add(module)
            yield path, module
            children = [(_join(path, name), child) for name, child in module._modules.items() if child is not None]
            stack += reversed(children)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, parents first."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct children with their names, each once."""
        seen: set[Module] = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """The direct children, each once."""
        return (child for _, child in self.named_children())

    def _named(self, table: str, prefix: str, recurse: bool, remove_duplicate: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in owners:
            for name, value in module.__dict__[table].items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield _join(path, name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their paths; a tied one appears once, under its first path."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, tied ones once."""
        return (param for _, param in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their paths, persistent or not."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path ("" is this one). Raises AttributeError naming the part that is not there."""
        module = self
        for part in target.split(".") if target else ():
            child = module._modules.get(part)
            if child is None:
                raise AttributeError(f"{type(module).__name__} has no submodule `{part}` (looking for `{target}`)")
            module = child
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path. Raises AttributeError."""
        return self._get("_parameters", target)

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path. Raises AttributeError."""
        return self._get("_buffers", target)

    def _get(self, table: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if owner.__dict__[table].get(name) is None:
            raise AttributeError(f"{type(owner).__name__} has no {table[1:-1]} `{name}` (looking for `{target}`)")
        return owner.__dict__[table][name]

    # Mode, dtype, gradients

    def train(self: M, mode: bool = True) -> M:
        """Set `training` here and below."""
        if not isinstance(mode, bool):
            raise ValueError(f"train() takes a bool, not {mode!r}")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: M) -> M:
        """`train(False)`."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Set `requires_grad` of every parameter."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        for module in self.modules():
            module._changed()
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of every parameter, or fill them with zeros."""
        for param in self.parameters():
            if set_to_none or param.grad is None:
                param.grad = None
            else:
                param.grad.zero_()

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Call `fn` on every module, children first."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def _apply(self: M, fn: Callable[[Tensor], Tensor]) -> M:
        """Replace the data of every parameter, gradient and buffer by `fn` of it."""
        for param in self.parameters():
            if isinstance(param, Uninitialized):
                param.convert(fn)
                continue
            param.data = fn(param.data)
            if param.grad is not None:
                param.grad = fn(param.grad)
        done: dict[int, Tensor] = {}
        for module in self.modules():
            for name, buffer in module._buffers.items():
                if isinstance(buffer, Uninitialized):
                    buffer.convert(fn)
                elif buffer is not None:
                    module._buffers[name] = done.setdefault(id(buffer), fn(buffer))
            module._changed()
        return self

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """`to(dtype)`, `to(device)`, `to(device, dtype)` or `to(tensor)`: floating-point tensors change to the dtype.

        Raises:
            RuntimeError: any device but the CPU. TypeError: a dtype that is not floating-point.
        """
        for wanted in (*args, *kwargs.values()):
            if isinstance(wanted, DType) and wanted.kind != "f":
                raise TypeError(f"a module can only be converted to a floating-point dtype, not {wanted}")
        return self._apply(lambda t: t.to(*args, **kwargs) if t.is_floating_point() else t.to("cpu"))

    def float(self: M) -> M:
        """Floating-point parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self: M) -> M:
        """Floating-point parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def cpu(self: M) -> M:
        """Everything lives on the CPU already."""
        return self

    # State

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Tensor]:
        """Parameters and persistent buffers by path, tied ones under each of theirs. They share the model's storage."""
        state: dict[str, Tensor] = {} if destination is None else destination
        for path, tensor in self._persistent(prefix):
            state[path] = tensor if keep_vars else tensor.detach()
        return state

    def _persistent(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        for path, module in self.named_modules(prefix=prefix.removesuffix("."), remove_duplicate=False):
            for name, param in module._parameters.items():
                if param is not None:
                    yield _join(path, name), param
            for name, buffer in module._buffers.items():
                if buffer is not None and name not in module._non_persistent_buffers_set:
                    yield _join(path, name), buffer

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Incompatible:
        """Copy values into the parameters and buffers; nothing is copied unless all of them fit.

        Args:
            state_dict: tensors or arrays by path.
            strict: missing and unexpected keys are errors; otherwise they are returned. A wrong shape always is one.
            assign: put new parameters and the given buffers in place of the model's, with the dtypes they come in.

        Raises:
            RuntimeError: names every missing, unexpected and mis-shaped key.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict takes a mapping of names to tensors, not {type(state_dict).__name__}")
        own = dict(self._persistent())
        missing, unexpected = check_loadable(type(self).__name__, own, state_dict, strict)
        if assign:
            self._assign({key: state_dict[key] for key in own if key in state_dict})
        else:
            load_values(own, state_dict)
        return Incompatible(missing, unexpected)

    def _assign(self, values: dict[str, Tensor]) -> None:
        for key, value in values.items():
            if isinstance(value, Uninitialized):
                continue
            path, _, name = key.rpartition(".")
            owner = self.get_submodule(path)
            old = owner._parameters.get(name)
            if old is not None and not isinstance(value, Parameter):
                value = Parameter(value, requires_grad=old.requires_grad)
            setattr(owner, name, value)

    # Printing

    def extra_repr(self) -> str:
        """What stands between the parentheses; subclasses override it."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr().split("\n") if self.extra_repr() else []
        children = [f"({name}): " + _indent(repr(child)) for name, child in self._modules.items()]
        return format_block(self._get_name(), extra, children)


def format_block(name: str, extra: list[str], children: list[str]) -> str:
    """`Name(extra)` on one line where there are no children, else one line each."""
    if not children and len(extra) <= 1:
        return f"{name}({''.join(extra)})"
    return "\n  ".join([f"{name}(", *extra, *children]) + "\n)"


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _same(old: Any, new: Any) -> bool:
    """Whether assigning `new` over `old` changes nothing: the same object, or an equal plain scalar of one type."""
    return old is new or (type(old) is type(new) and isinstance(old, SCALARS) and old == new)


def _guarded(value: Any) -> Any:
    if isinstance(value, SCALARS):
        return type(value), value
    if type(value) is tuple:
        return tuple(_guarded(v) for v in value)
    return Is(value)
