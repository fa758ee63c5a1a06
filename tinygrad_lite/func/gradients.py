"""Derivatives of functions by products: gradients, vector-Jacobian and Jacobian-vector products, after torch.func."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tinygrad_lite.creation import ones_like, zeros_like
from tinygrad_lite.func import trees
from tinygrad_lite.func.levels import Function, Level, chosen_of, outputs_of, positions, pulled_back, split_aux
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.record import mode


def grad(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of `func`, whose result is a scalar.

    Args:
        func: takes tensors, or tuples, lists and dicts of them, where it is differentiated by them.
        argnums: by which positional argument, or which ones; the gradient has their structure.
        has_aux: func gives (output, aux), and the new function (gradient, aux).

    Raises:
        RuntimeError: a result that is not a scalar tensor; argnums out of range; an argument that is not floating.
        ValueError: an argument that is no tensor.
    """
    both = grad_and_value(func, argnums, has_aux)

    @_wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def grad_and_value(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """A function that gives (gradient, output) of `func`, or (gradient, (output, aux)). See `grad`."""

    @_wraps(func)
    def gradient_and_value(*args: Any, **kwargs: Any) -> Any:
        numbers = positions("grad", argnums, len(args))
        level = Level("grad")
        with mode.set(grad_enabled=True):
            inner, stand_ins = level.enter(args, numbers)
            output, aux = split_aux("grad", func(*inner, **kwargs), has_aux)
            _check_scalar(output)
        # Outside, gradients are asked of what this gives only where it depends on something known there.
        create = mode.grad_enabled and level.leads_outside([output])[0]
        found = iter(pulled_back([output], stand_ins, [ones_like(output)], create))
        result = trees.mapped(lambda _: next(found), chosen_of(args, argnums, numbers))
        return level.left((result, (output, aux) if has_aux else output))

    return gradient_and_value


def value_and_grad(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """A function that gives (output, gradient) of `func`, or ((output, aux), gradient). See `grad`."""
    both = grad_and_value(func, argnums, has_aux)

    @_wraps(func)
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return value, found

    return value_and_gradient


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """(output, vjp_fn) or (output, vjp_fn, aux) of `func` at `primals`.

    vjp_fn(cotangents) takes a structure like the output's and gives the cotangent of the one primal, or a tuple of
    those of several. It may be called again and again.

    Raises:
        RuntimeError: results that are no tensors; cotangents of another structure or shape.
        ValueError: a primal that is no tensor.
    """
    level = Level("vjp")
    with mode.set(grad_enabled=True):
        inner, stand_ins = level.enter(primals, range(len(primals)))
        output, aux = split_aux("vjp", func(*inner), has_aux)
    outputs = outputs_of("vjp", output)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given = _like(output, cotangents, "vjp", "cotangents", "the output")
        create = _creates(level, [*outputs, *given]) if create_graph is None else create_graph
        found = iter(pulled_back(outputs, stand_ins, given, create, retain_graph))
        result = tuple(trees.mapped(lambda _: next(found), p) for p in primals)
        return level.left(result[0] if len(result) == 1 else result)

    result = level.left((output, aux))
    return (result[0], vjp_fn, result[1]) if has_aux else (result[0], vjp_fn)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """(output, jvp_fn) of `func` at `primals`: jvp_fn(*tangents) is the derivative there along `tangents`.

    func runs once. The derivative is taken of its vector-Jacobian product, which is linear in the cotangent.

    Raises:
        RuntimeError: results that are no tensors; tangents of another structure, shape or dtype than the primals.
        ValueError: a primal that is no tensor.
    """
    output, push, _, _ = linearized("linearize", func, primals, has_aux=False)
    return output, push


def jvp(
    func: Function, primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """(output, tangent) or (output, tangent, aux): `func` at `primals`, and its derivative along `tangents`.

    Args:
        strict: raise where an output does not depend on the primals, instead of giving zeros.

    Raises:
        RuntimeError: primals or tangents that are no tuples, or differ in structure, shape or dtype.
    """
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple) or not given:
            raise RuntimeError(f"jvp: {name} must be a non-empty tuple, got {given!r}")
    _like(primals, tangents, "jvp", "tangents", "the primals")
    output, push, aux, dependent = linearized("jvp", func, primals, has_aux)
    if strict and not all(dependent):
        raise RuntimeError(f"jvp: output {dependent.index(False)} does not depend on the primals, and strict is set")
    tangent = push(*tangents)
    return (output, tangent, aux) if has_aux else (output, tangent)


def linearized(
    name: str, func: Function, primals: tuple[Any, ...], has_aux: bool
) -> tuple[Any, Function, Any, list[bool]]:
    """The output, its derivative as a function of tangents, aux, and of each output whether primals decide it."""
    level = Level(name)
    with mode.set(grad_enabled=True):
        inner, stand_ins = level.enter(primals, range(len(primals)))
        output, aux = split_aux(name, func(*inner), has_aux)
        outputs = outputs_of(name, output)
        dependent = [y.requires_grad for y in outputs]
        followed = [y for y in outputs if y.requires_grad]
        seeds = [level.leaf(zeros_like(y)._read()) for y in followed]
        pulled = pulled_back(followed, stand_ins, seeds, create_graph=True)

    def push(*tangents: Any) -> Any:
        given = _like(primals, tangents, name, "tangents", "the primals")
        found = iter(pulled_back(pulled, seeds, given, _creates(level, [*pulled, *given])))
        along = [next(found) if d else zeros_like(y) for y, d in zip(outputs, dependent, strict=True)]
        return level.left(trees.rebuilt(output, iter(along)))

    result = level.left((output, aux))
    return result[0], push, result[1], dependent


def _creates(level: Level, tensors: list[Tensor]) -> bool:
    """Does anybody outside differentiate what comes of `tensors`?"""
    return mode.grad_enabled and any(level.leads_outside(tensors))


def _check_scalar(output: Any) -> None:
    if not isinstance(output, Tensor):
        raise RuntimeError(f"grad: the function must return a Tensor, got {type(output).__name__}")
    if output.ndim:
        raise RuntimeError(f"grad: the function must return a scalar, got a tensor of shape {list(output.shape)}")


def _like(wanted: Any, given: Any, name: str, what: str, whose: str) -> list[Tensor]:
    """The leaves of `given`, which must match those of `wanted` one by one."""
    if trees.structure(wanted) != trees.structure(given):
        raise RuntimeError(
            f"{name}: {what} must have the structure of {whose}, {trees.structure(wanted)}, "
            f"got {trees.structure(given)}"
        )
    found = trees.leaves(given)
    for have, want in zip(found, trees.leaves(wanted), strict=True):
        if not isinstance(have, Tensor):
            raise RuntimeError(f"{name}: {what} must be Tensors, got {type(have).__name__}")
        if isinstance(want, Tensor) and have._current().type != want._current().type:
            raise RuntimeError(
                f"{name}: {what} must have the types of {whose}, got {have._current().type} for {want._current().type}"
            )
    return found


def _wraps(func: Function) -> Callable[[Function], Function]:
    """functools.wraps, also of modules and other callable objects without a name."""
    return functools.wraps(func, updated=())
