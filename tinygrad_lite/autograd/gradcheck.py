"""Gradients against central differences, after torch.autograd.gradcheck."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tinygrad_lite import creation
from tinygrad_lite.autograd.gradient import grad
from tinygrad_lite.handle import Tensor

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


class GradcheckError(RuntimeError):
    """A gradient that differs from its central difference; names the output, the input and the worst entry."""


def gradcheck(
    func: Function,
    inputs: Tensor | Sequence[Any],
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Whether the Jacobian of `func` by autograd is that by central differences of step `eps`.

    Args:
        func: takes `inputs`, gives a tensor or a sequence of tensors; must not draw random numbers.
        inputs: those that require grad are checked, one entry at a time; they should be float64 and far from kinks.
        atol, rtol: |autograd - difference| may be atol + rtol · |difference|.
        raise_exception: raise what is wrong instead of giving False.

    Raises:
        ValueError: no input requires grad, or one that does is not float64.
        GradcheckError: a gradient is wrong.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checked = _checked(given)
    try:
        for k in range(len(_outputs(func(*given)))):
            for i in checked:
                found = _by_autograd(func, given, k, i)
                columns = np.array(list(_differences(func, given, k, i, eps)))
                _compare(k, i, found, columns.reshape(found.shape[::-1]).T, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Function,
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """`gradcheck` of the gradient of `func`, as a function of `inputs` and `grad_outputs`.

    Args:
        grad_outputs: cotangents of the outputs; drawn from a fixed normal sample by default.

    Raises:
        As `gradcheck`.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checked, followed = _checked(given), [y for y in _outputs(func(*given)) if y.requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        seeds = [creation.tensor(rng.normal(size=y.shape), requires_grad=True) for y in followed]
    else:
        seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)

    def first(*arguments: Any) -> tuple[Tensor | None, ...]:
        xs, cotangents = arguments[: len(given)], arguments[len(given) :]
        outputs = [y for y in _outputs(func(*xs)) if y.requires_grad]
        wanted = [xs[i] for i in checked]
        return grad(outputs, wanted, cotangents, create_graph=True, allow_unused=True, materialize_grads=True)

    return gradcheck(first, (*given, *seeds), eps, atol, rtol, raise_exception)


def _checked(given: Sequence[Any]) -> list[int]:
    """Which inputs are checked: those that require grad."""
    checked = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them do.")
    for i in checked:
        if given[i].numpy(force=True).dtype != np.float64:
            raise ValueError(f"gradcheck: input {i} is {given[i].dtype}; differences need float64: give x.double()")
    return checked


def _outputs(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else [y for y in result if isinstance(y, Tensor)]


def _by_autograd(func: Function, given: Sequence[Any], k: int, i: int) -> Array:
    """∂ output k / ∂ input i: a row for each entry of the output."""
    y, x = _outputs(func(*given))[k], given[i]
    if not y.requires_grad:
        return np.zeros((y.numel(), x.numel()))
    rows = []
    for seed in np.eye(y.numel(), dtype=y.numpy(force=True).dtype):
        cotangent = creation.tensor(seed.reshape(y.shape))
        (g,) = grad(y, x, cotangent, retain_graph=True, allow_unused=True, materialize_grads=True)
        assert g is not None  # materialised
        rows.append(g.numpy(force=True).ravel())
    return np.array(rows).reshape(y.numel(), x.numel())


def _differences(func: Function, given: Sequence[Any], k: int, i: int, eps: float) -> Iterator[Array]:
    """∂ output k / ∂ each entry of input i, by moving that entry up and down."""
    point = given[i].numpy(force=True)

    def at(entry: int, step: float) -> Array:
        moved = point.copy()
        moved.reshape(-1)[entry] += step
        x = creation.tensor(moved, requires_grad=True)
        return _outputs(func(*given[:i], x, *given[i + 1 :]))[k].numpy(force=True).ravel()

    for entry in range(point.size):
        yield (at(entry, eps) - at(entry, -eps)) / (2 * eps)


def _compare(k: int, i: int, found: Array, expected: Array, atol: float, rtol: float) -> None:
    wrong = np.abs(found - expected) - (atol + rtol * np.abs(expected))
    if not wrong.size or np.all(wrong <= 0):
        return
    row, column = np.unravel_index(int(np.argmax(np.where(np.isnan(wrong), np.inf, wrong))), wrong.shape)
    raise GradcheckError(
        f"Jacobian mismatch for output {k} with respect to input {i}: d output[{row}] / d input[{column}] is "
        f"{found[row, column]:.6g} by autograd and {expected[row, column]:.6g} by central differences (flat indices)"
    )
