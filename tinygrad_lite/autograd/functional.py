"""Jacobians, Hessians and their products with vectors, as torch.autograd.functional spells them: over `func`.

Inputs are a tensor or a tuple of them, and so are outputs; results have these forms. The vectorised way is the only
one, so `vectorize` and the strategies change nothing but which mode is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygrad_lite import func as transforms
from tinygrad_lite.autograd.gradient import grad
from tinygrad_lite.creation import ones_like
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.record import mode

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = Tensor | tuple[Tensor, ...]
Function = Callable[..., Any]
_MODES = {"reverse-mode": transforms.jacrev, "forward-mode": transforms.jacfwd}


def jacobian(
    func: Function,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of each output by each input, of shape (*output, *input).

    Args:
        create_graph: keep history for further derivatives.
        strict: raise where an output does not depend on an input, instead of giving zeros; runs func once more.

    Raises:
        TypeError: inputs that are no tensors. ValueError: an unknown strategy. RuntimeError: see strict.
    """
    if strategy not in _MODES:
        raise ValueError(f"jacobian: strategy must be one of {', '.join(_MODES)}, got {strategy!r}")
    given = _given("jacobian", func, inputs, strict)
    with _history(create_graph):
        return _MODES[strategy](func, _argnums(inputs))(*given)


def hessian(
    func: Function,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function with one value, by each pair of inputs. Arguments as of `jacobian`."""
    given = _given("hessian", func, inputs, strict)
    with _history(create_graph):
        return transforms.hessian(_scalar("hessian", func), _argnums(inputs))(*given)


def vjp(
    func: Function, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(outputs, v times the Jacobian). `v` is like the outputs; 1 by default where they are one element."""
    given = _given("vjp", func, inputs, strict)
    with _history(create_graph):
        outputs, pull = transforms.vjp(func, *given)
        return outputs, _as_inputs(inputs, pull(_vector("vjp", v, outputs)))


def jvp(
    func: Function, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(outputs, the Jacobian times v). `v` is like the inputs; 1 by default where they are one element."""
    given = _given("jvp", func, inputs, strict)
    with _history(create_graph):
        return transforms.jvp(func, given, _tuple(_vector("jvp", v, inputs)))  # type: ignore[return-value]


def hvp(
    func: Function, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(output, the Hessian times v) of a function with one value. `v` is like the inputs."""
    given = _given("hvp", func, inputs, strict)
    both = transforms.grad_and_value(_scalar("hvp", func), tuple(range(len(given))))
    with _history(create_graph):
        _, found, output = transforms.jvp(both, given, _tuple(_vector("hvp", v, inputs)), has_aux=True)
        return output, _as_inputs(inputs, found)


def vhp(
    func: Function, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """(output, v times the Hessian): as `hvp`, the Hessian being symmetric, by reverse mode twice."""
    given = _given("vhp", func, inputs, strict)
    both = transforms.grad_and_value(_scalar("vhp", func), tuple(range(len(given))))
    with _history(create_graph):
        _, pull, output = transforms.vjp(both, *given, has_aux=True)
        return output, _as_inputs(inputs, pull(_tuple(_vector("vhp", v, inputs))))


def _history(create_graph: bool) -> Any:
    return mode.set(grad_enabled=mode.grad_enabled and create_graph)


def _tuple(values: Any) -> tuple[Any, ...]:
    return (values,) if isinstance(values, Tensor) else tuple(values)


def _argnums(inputs: Tensors) -> int | tuple[int, ...]:
    return 0 if isinstance(inputs, Tensor) else tuple(range(len(inputs)))


def _as_inputs(inputs: Tensors, found: Any) -> Any:
    values = _tuple(found)
    return values[0] if isinstance(inputs, Tensor) else values


def _given(name: str, func: Function, inputs: Tensors, strict: bool) -> tuple[Tensor, ...]:
    given = _tuple(inputs) if isinstance(inputs, Tensor | tuple) else (inputs,)
    for i, x in enumerate(given):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: inputs must be a Tensor or a tuple of them, got {type(x).__name__} at {i}")
    if strict:
        _check_dependence(name, func, given)
    return given


def _check_dependence(name: str, func: Function, given: tuple[Tensor, ...]) -> None:
    """RuntimeError unless every output depends on every input."""
    with mode.set(grad_enabled=True):
        leaves = [x.detach().clone().requires_grad_() for x in given]
        for i, y in enumerate(_tuple(func(*leaves))):
            found = grad(y.sum(), leaves, retain_graph=True, allow_unused=True) if y.requires_grad else [None]
            for j, g in enumerate(found):
                if g is None:
                    raise RuntimeError(f"{name}: output {i} is independent of input {j}, which strict does not allow")


def _scalar(name: str, func: Function) -> Function:
    """func, checked to give one element, as a scalar."""

    def scalar(*args: Any) -> Tensor:
        output = func(*args)
        if not isinstance(output, Tensor) or output.numel() != 1:
            shown = list(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise RuntimeError(f"{name}: the function must return a Tensor with one element, got {shown}")
        return output.reshape(())

    return scalar


def _vector(name: str, v: Any, like: Any) -> Any:
    """`v`, or ones by default."""
    if v is None:
        if len(_tuple(like)) != 1 or _tuple(like)[0].numel() != 1:
            raise RuntimeError(f"{name}: v can only be left out where it would be a single element")
        return ones_like(like) if isinstance(like, Tensor) else (ones_like(like[0]),)
    if len(_tuple(v)) != len(_tuple(like)):
        raise RuntimeError(f"{name}: v must have {len(_tuple(like))} tensors, got {len(_tuple(v))}")
    for i, (have, want) in enumerate(zip(_tuple(v), _tuple(like), strict=True)):
        if not isinstance(have, Tensor) or have.shape != want.shape:
            shown = list(have.shape) if isinstance(have, Tensor) else type(have).__name__
            raise RuntimeError(f"{name}: v must have the shape {list(want.shape)} at {i}, got {shown}")
    return _tuple(v)[0] if isinstance(like, Tensor) else _tuple(v)
