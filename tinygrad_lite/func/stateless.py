"""Modules as functions of their parameters and buffers, after torch.func."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

from tinygrad_lite.functional.joining import stack
from tinygrad_lite.guards import module_versions
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.record import mode

Tensors = Mapping[str, Tensor]
Place = tuple[dict[str, Any], str]  # a module's table of parameters or buffers, and the name in it


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Tensors | Sequence[Tensors],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """module(*args, **kwargs) with the given tensors in place of its parameters and buffers.

    Args:
        parameter_and_buffer_dicts: tensors by the names of `named_parameters()` and `named_buffers()`, in one mapping
            or several with different names; those left out keep the module's own. Changes that the module makes to
            buffers in place are made to the tensors given.
        args: a tuple of arguments, or one that is no tuple.
        tie_weights: a tensor given for one name of a shared parameter stands under its other names too.
        strict: raise for names that are left out or unknown; by default unknown ones are passed over.

    Raises:
        TypeError: something that is no module or mapping. RuntimeError: names that do not match, under `strict`.
        ValueError: one name in several mappings; different tensors for the names of one shared parameter.
    """
    if not hasattr(module, "_parameters") or not hasattr(module, "_buffers"):
        raise TypeError(f"functional_call: expected a Module, got {type(module).__name__}")
    given = _one_mapping(parameter_and_buffer_dicts)
    places = _places(module)
    if strict:
        _check_names(type(module).__name__, given.keys(), places.keys())
    given = {name: tensor for name, tensor in given.items() if name in places}
    if tie_weights:
        given = _tied(given, places)
    if mode.trace is not None:  # a capture depends on the module's own parameters, not on what stands in for them now
        mode.trace.saw_module(module)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with swapped([(places[name], tensor) for name, tensor in given.items()]):
        return module(*arguments, **(kwargs or {}))


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) by name, those of all models stacked along a new first axis: for vmap of functional_call.

    Raises:
        RuntimeError: no models, models of different classes, or in different modes.
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: expected at least one model, got none")
    if len({type(m) for m in models}) > 1 or len({m.training for m in models}) > 1:
        kinds = ", ".join(sorted({f"{type(m).__name__} in {'train' if m.training else 'eval'}" for m in models}))
        raise RuntimeError(f"stack_module_state: the models must be of one class and in one mode, got {kinds}")
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    stacked = {name: _stacked([p[name] for p in parameters]) for name in parameters[0]}
    return stacked, {name: stack([b[name] for b in buffers]) for name in buffers[0]}


def _stacked(parameters: list[Tensor]) -> Tensor:
    """A leaf, as trained as the parameters are."""
    return stack([p.detach() for p in parameters]).requires_grad_(all(p.requires_grad for p in parameters))


def _check_names(module: str, given: Set[str], known: Set[str]) -> None:
    wrong = (("missing", sorted(known - given)), ("unknown", sorted(given - known)))
    shown = "; ".join(f"{what}: {', '.join(names)}" for what, names in wrong if names)
    if shown:
        raise RuntimeError(f"functional_call: the names of {module}'s parameters and buffers do not match: {shown}")


def _one_mapping(dicts: Any) -> dict[str, Tensor]:
    parts = [dicts] if isinstance(dicts, Mapping) else list(dicts)
    found: dict[str, Tensor] = {}
    for part in parts:
        if not isinstance(part, Mapping):
            raise TypeError(f"functional_call: expected mappings of names to Tensors, got {type(part).__name__}")
        twice = sorted(part.keys() & found.keys())
        if twice:
            raise ValueError(f"functional_call: {', '.join(twice)} stand in several of the mappings")
        found.update(part)
    for name, tensor in found.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"functional_call: {name} must be a Tensor, got {type(tensor).__name__}")
    return found


def _places(module: Any) -> dict[str, Place]:
    """Path → where the parameter or buffer is held; a shared one under all its paths."""
    found: dict[str, Place] = {}
    for prefix, each in module.named_modules(remove_duplicate=False):
        for table in (each._parameters, each._buffers):
            for name, value in table.items():
                if value is not None:
                    found[f"{prefix}.{name}" if prefix else name] = (table, name)
    return found


def _tied(given: dict[str, Tensor], places: dict[str, Place]) -> dict[str, Tensor]:
    """`given`, with the other names of what is shared."""
    shared: dict[int, list[str]] = {}
    for path, (table, name) in places.items():
        shared.setdefault(id(table[name]), []).append(path)
    full = dict(given)
    for paths in shared.values():
        values = {id(given[p]): given[p] for p in paths if p in given}
        if len(values) > 1:
            raise ValueError(f"functional_call: {', '.join(paths)} are one tensor, but got {len(values)} for them")
        for path in paths if values else ():
            full[path] = next(iter(values.values()))
    return full


@contextmanager
def swapped(pairs: list[tuple[Place, Tensor]]) -> Iterator[None]:
    """Within, the given tensors stand in these places."""
    before = [table[name] for (table, name), _ in pairs]
    _put([place for place, _ in pairs], [tensor for _, tensor in pairs])
    try:
        yield
    finally:
        _put([place for place, _ in pairs], before)


def _put(places: list[Place], values: list[Any]) -> None:
    for (table, name), value in zip(places, values, strict=True):
        table[name] = value
    module_versions.changes += 1  # what was compiled for other tensors must look again
