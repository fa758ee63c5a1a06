"""Whole Jacobians and Hessians: products with all unit vectors at once, by vmap."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tinygrad_lite.creation import eye, zeros
from tinygrad_lite.func import trees
from tinygrad_lite.func.gradients import linearized, vjp
from tinygrad_lite.func.levels import Function, chosen_of, outputs_of, positions
from tinygrad_lite.func.vectorize import RANDOMNESS, vmap
from tinygrad_lite.functional.joining import split
from tinygrad_lite.handle import Tensor


def jacrev(
    func: Function,
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Function:
    """A function that gives the Jacobian of `func` by reverse mode, one product for each element of the output.

    The result has the output's structure, in each leaf of which stands that of the arguments differentiated by; the
    Jacobian of an output of shape (*o) by an input of shape (*i) has shape (*o, *i).

    Args:
        argnums, has_aux: as in `grad`.
        chunk_size: take so many elements of the output at a time; all at once by default.

    Raises:
        RuntimeError: results that are no tensors; argnums out of range; an argument that is not floating.
        ValueError: an argument that is no tensor.
    """

    @functools.wraps(func, updated=())
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        numbers = positions("jacrev", argnums, len(args))
        output, pull, *aux = vjp(_partial(func, args, kwargs, numbers), *(args[i] for i in numbers), has_aux=has_aux)
        outputs = outputs_of("jacrev", output)
        rows = trees.leaves(vmap(pull, chunk_size=chunk_size)(trees.rebuilt(output, iter(_units(outputs)))))
        blocks = zip(*[_blocks(row, outputs, 0) for row in rows], strict=True)
        inputs = chosen_of(args, argnums, numbers)
        found = trees.mapped(lambda _: trees.rebuilt(inputs, iter(next(blocks))), output)
        return (found, *aux) if has_aux else found

    return jacobian


def jacfwd(
    func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """As `jacrev`, by one derivative along each element of the inputs: cheaper where these are fewer than the outputs.

    Args:
        randomness: accepted for PyTorch's sake; func runs once here, so all derivatives are of the same draw.
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"jacfwd: randomness must be one of {', '.join(RANDOMNESS)}, got {randomness!r}")

    @functools.wraps(func, updated=())
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        numbers = positions("jacfwd", argnums, len(args))
        chosen, inputs = tuple(args[i] for i in numbers), chosen_of(args, argnums, numbers)
        _, push, aux, _ = linearized("jacfwd", _partial(func, args, kwargs, numbers), chosen, has_aux)
        unit_vectors = trees.rebuilt(chosen, iter(_units(trees.leaves(chosen))))
        columns = vmap(push, out_dims=-1)(*unit_vectors)
        found = trees.mapped(
            lambda column: trees.rebuilt(inputs, iter(_blocks(column, trees.leaves(chosen), -1))), columns
        )
        return (found, aux) if has_aux else found

    return jacobian


def hessian(func: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """A function that gives the Hessian of `func`: `jacfwd` of `jacrev`, whose Jacobians stand in its results.

    That of a scalar by one input of shape (*i) has shape (*i, *i).
    """
    return jacfwd(jacrev(func, argnums), argnums)


def _partial(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any], numbers: Sequence[int]) -> Function:
    """func of the chosen arguments alone."""

    def chosen_alone(*chosen: Any) -> Any:
        full = list(args)
        for i, value in zip(numbers, chosen, strict=True):
            full[i] = value
        return func(*full, **kwargs)

    return chosen_alone


def _units(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The unit vectors of the space of all `tensors`, one in each row: tensors of shape (elements of all, *shape)."""
    total, start, found = sum(t.numel() for t in tensors), 0, []
    for t in tensors:
        rows = zeros(total, t.numel(), dtype=t.dtype)
        rows[start : start + t.numel()] = eye(t.numel(), dtype=t.dtype)
        found.append(rows.reshape(total, *t.shape))
        start += t.numel()
    return found


def _blocks(stacked: Tensor, of: Sequence[Tensor], axis: int) -> list[Tensor]:
    """The parts along the first or the last axis of what belongs to each tensor of `of`, that axis in its shape."""
    parts = split(stacked, [t.numel() for t in of], axis)
    if axis == 0:
        return [p.reshape(*t.shape, *stacked.shape[1:]).clone() for p, t in zip(parts, of, strict=True)]
    return [p.reshape(*stacked.shape[:-1], *t.shape).clone() for p, t in zip(parts, of, strict=True)]
