"""Function: operations whose gradient the user writes, after torch.autograd.Function.

`apply` runs forward without recording history, and records one `function` node: the value, with the tensors that the
gradient may read as further operands. The node's op is a copy of ops/function.py's with a rule that calls the user's
backward on what the node's own operands are. So what is recorded again, in a loop, for a batch or for a second
derivative, finds the tensors saved for it. Several results are packed into one vector and cut out of it.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_lite.autodiff import _overwritten
from tinygrad_lite.guards import tensors_in, with_tensors
from tinygrad_lite.handle import Tensor, wrap
from tinygrad_lite.ir.node import Node, next_serial
from tinygrad_lite.ir.record import mode, record
from tinygrad_lite.ir.types import float32, float64
from tinygrad_lite.ops import adjoint, batching, create, elementwise, movement, reduce
from tinygrad_lite.ops.elementwise import CAST
from tinygrad_lite.ops.function import FUNCTION

__all__ = ["Function", "FunctionCtx", "once_differentiable"]


class FunctionCtx:
    """What forward leaves for backward: `save_for_backward` for tensors, attributes for all else.

    Attributes:
        needs_input_grad: of each argument of forward, whether a gradient is followed to it.
        saved_tensors: in backward, the tensors saved, with the history that they have outside.
    """

    needs_input_grad: tuple[bool, ...]

    def __init__(self) -> None:
        self._saved: tuple[Tensor | None, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._materialize = True
        self._read: Callable[[], tuple[Tensor | None, ...]] | None = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep arguments, results or other tensors (or None) for backward, which finds them in `saved_tensors`."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save tensors, got {type(t).__name__}: set an attribute of ctx instead"
                )
        self._saved = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        return self._saved if self._read is None else self._read()

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Accepted for PyTorch's sake: derivatives along a direction are made of `backward` here."""

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which arguments forward changes in place; forward must return them."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which results no gradient flows through. Integer and bool results need not be named."""
        self._constant = args

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward gets None instead of zeros for a result that no gradient came from."""
        self._materialize = bool(value)


_OWN = frozenset(vars(FunctionCtx())) | {"needs_input_grad"}


class Function:
    """Base class of operations with a gradient of their own.

    A subclass defines static methods `forward(ctx, *args)`, or `forward(*args)` and `setup_context(ctx, inputs,
    output)`, and `backward(ctx, *grads)`, which gives a gradient, or None, for each argument of forward. It is called
    through `apply`. What backward computes is differentiated for second derivatives, unless `once_differentiable`.
    """

    generate_vmap_rule = True  # of every Function, since backward is recorded like any other computation

    def __init__(self) -> None:
        raise RuntimeError(f"{type(self).__name__} is not to be instantiated: call {type(self).__name__}.apply(...)")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a subclass of autograd.Function must define forward()")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        raise NotImplementedError("setup_context() is not defined")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError("a subclass of autograd.Function must define backward() to be differentiated")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """forward(…), recorded so that gradients go through backward."""
        if kwargs or _has_setup(cls):
            args = _bound(cls, args, kwargs)
        return _Call(cls, args).run()


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a backward that is not to be differentiated: a second derivative through it raises RuntimeError."""

    @functools.wraps(fn)
    def backward(ctx: Any, *args: Any) -> Any:
        with mode.set(grad_enabled=False):
            found = fn(ctx, *args)
        followed = [a._read() for a in args if isinstance(a, Tensor) and a.requires_grad]
        if not mode.grad_enabled or not followed:
            return found
        op = dataclasses.replace(FUNCTION, vjp=_refuse_twice)
        marked = [
            wrap(record(op, g._read(), *followed, name=fn.__qualname__)) if isinstance(g, Tensor) else g
            for g in (found if isinstance(found, tuple) else (found,))
        ]
        return tuple(marked)

    return backward


def _refuse_twice(g: Node, node: Node, i: int) -> Node:
    raise RuntimeError(
        f"trying to differentiate twice a function that was marked with @once_differentiable: {node.attrs['name']}"
    )


def _bound(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of forward, keywords and defaults at their places."""
    lead = () if _has_setup(cls) else (None,)
    bound = inspect.signature(cls.forward).bind(*lead, *args, **kwargs)
    bound.apply_defaults()
    return bound.args[len(lead) :]


def _has_setup(cls: type[Function]) -> bool:
    return cls.setup_context is not Function.setup_context


# ---- one call ------------------------------------------------------------------------------------------------


class _Call:
    """One call of a Function: how its node's operands are laid out, and how its results lie in the node's value.

    Operands are the value, the tensors among the arguments, and other tensors that backward reads.
    """

    def __init__(self, cls: type[Function], args: tuple[Any, ...]) -> None:
        self.cls, self.args, self.ctx = cls, args, FunctionCtx()
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.before = [args[i]._read() for i in self.places]
        self.ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        self.node: Callable[[], Node | None] = lambda: None  # weakly: it holds the rule, which holds this
        self.start = next_serial()

    def run(self) -> Any:
        with mode.set(grad_enabled=False):
            result = self._forward()
        self.results = list(result) if isinstance(result, tuple) else [result]
        self._check_dirty()
        self.followed = [k for k, r in enumerate(self.results) if self._is_followed(r)]
        if not mode.grad_enabled or not self.followed or not any(n.grad is not None for n in self.before):
            return result
        self.types = [r._read().type if isinstance(r, Tensor) else None for r in self.results]
        made = self._record()
        return tuple(made) if isinstance(result, tuple) else made[0]

    def _forward(self) -> Any:
        if not _has_setup(self.cls):
            return self.cls.forward(self.ctx, *self.args)
        result = self.cls.forward(*self.args)
        self.cls.setup_context(self.ctx, self.args, result)
        return result

    def _is_followed(self, result: Any) -> bool:
        floating = isinstance(result, Tensor) and result.is_floating_point()
        return floating and not any(result is c for c in self.ctx._constant)

    def _check_dirty(self) -> None:
        for t in self.ctx._dirty:
            if not any(t is r for r in self.results):
                raise RuntimeError(f"{self.cls.__name__}: a tensor that was marked dirty must be returned by forward()")

    # ---- recording ----

    def _record(self) -> list[Any]:
        with mode.set(grad_enabled=False):
            value = self._packed()
        operands = [value, *self.before]
        self._lay_out_saved(operands)
        op = dataclasses.replace(
            FUNCTION, vjp=self._vjp, joint_vjp=self._joint_vjp, traits=FUNCTION.traits | {"checks_reads"}
        )
        node = record(op, *operands, name=self.cls.__name__)
        self.node = weakref.ref(node)
        made = list(self.results)
        for part, k in enumerate(self.followed):
            made[k] = self._handle(self.results[k], self._part(node, part))
        # The rule must not keep alive what backward does not read.
        self.args, self.results, self.before = (), [], []
        self.ctx._saved = self.ctx._dirty = self.ctx._constant = ()
        return made

    def _packed(self) -> Node:
        """The followed results: the one there is, or a vector of all, in memory of its own."""
        nodes = [self.results[k]._read() for k in self.followed]
        if len(nodes) == 1:
            shared = self._is_shared(self.results[self.followed[0]])
            return record(CAST, nodes[0], dtype=nodes[0].dtype) if shared else nodes[0]
        dtype = float64 if any(n.dtype is float64 for n in nodes) else float32
        if len({n.dtype for n in nodes}) == 1:
            dtype = nodes[0].dtype
        flat = [movement.reshape(elementwise.cast(n, dtype), (n.type.size,)) for n in nodes]
        return movement.concat(flat, 0)

    def _is_dirty(self, result: Any) -> bool:
        return any(result is d for d in self.ctx._dirty)

    def _is_shared(self, result: Tensor) -> bool:
        """Is its memory that of a tensor from before the call, or of a base?"""
        return not self._is_dirty(result) and (result._base is not None or result._current().serial < self.start)

    def _part(self, packed: Node, part: int) -> Node:
        """A followed result, or its cotangent, of the packed ones."""
        if len(self.followed) == 1:
            return packed
        type = self.types[self.followed[part]]
        assert type is not None
        start, stop = self._span(part)
        return elementwise.cast(movement.reshape(movement.slice_(packed, (start,), (stop,)), type.shape), type.dtype)

    def _span(self, part: int) -> tuple[int, int]:
        sizes = [self.types[k].size for k in self.followed]  # type: ignore[union-attr]
        return sum(sizes[:part]), sum(sizes[: part + 1])

    def _handle(self, result: Tensor, node: Node) -> Tensor:
        """The tensor that forward made, now with history; of one that was there before, another handle."""
        if self._is_dirty(result):
            return result._write(node, since=node.serial)
        if self._is_shared(result):
            return wrap(node)
        result._rebind(node, keep_history=False, since=node.serial)
        return result

    def _lay_out_saved(self, operands: list[Node]) -> None:
        """Note where each saved tensor is found later: ("argument" or "operand", index), ("result", part) or None."""
        self.saved: list[tuple[str, int] | None] = [self._find(t, operands) for t in self.ctx._saved]
        # What is recorded again needs the tensors among the attributes too, as they are there.
        attributes = {k: v for k, v in vars(self.ctx).items() if k not in _OWN}
        held = tensors_in(attributes) if mode.trace is not None else []
        self.held = [self._find(t, operands) for t in held]

    def _find(self, tensor: Tensor | None, operands: list[Node]) -> tuple[str, int] | None:
        if tensor is None:
            return None
        for part, k in enumerate(self.followed):
            if tensor is self.results[k]:
                return "result", part
        node = tensor._read()
        for i, known in enumerate(operands[1:], 1):
            if known is node:
                return "operand", i
        operands.append(node)
        return "operand", len(operands) - 1

    # ---- the gradient ----

    def _vjp(self, g: Node, node: Node, i: int) -> Node | None:
        return self._joint_vjp(g, node, [i])[0]

    def _joint_vjp(self, g: Node, node: Node, wanted: Sequence[int]) -> list[Node | None]:
        if not any(1 <= i <= len(self.places) for i in wanted):
            return [None] * len(wanted)
        found = self._backward(g, node)
        return [found[self.places[i - 1]] if 1 <= i <= len(self.places) else None for i in wanted]

    def _backward(self, g: Node, node: Node) -> list[Node | None]:
        """The user's backward, for one gradient an argument."""
        ctx = self._context_of(node)
        try:
            found = self.cls.backward(ctx, *self._cotangents(g))
        finally:
            ctx._read = None
        grads = list(found) if isinstance(found, tuple) else [found]
        count = len(ctx.needs_input_grad)
        if len(grads) < count or any(extra is not None for extra in grads[count:]):
            raise RuntimeError(
                f"{self.cls.__name__}.backward() returned an incorrect number of gradients "
                f"(expected {count}, got {len(grads)})"
            )
        operands = dict(zip(self.places, node.inputs[1:], strict=False))
        return [self._checked(i, grad, operands.get(i)) for i, grad in enumerate(grads[:count])]

    def _cotangents(self, g: Node) -> list[Tensor | None]:
        """One for each result; zeros, or None, for those that no gradient came from."""
        found: list[Tensor | None] = []
        for k, type in enumerate(self.types):
            if k not in self.followed:
                zeros = self.ctx._materialize and type is not None
                found.append(wrap(create.zeros(type.shape, type.dtype)) if zeros else None)  # type: ignore[union-attr]
                continue
            part = self.followed.index(k)
            absent = len(self.followed) > 1 and not self.ctx._materialize and adjoint.is_zero(g, *self._span(part))
            found.append(None if absent else _reading(self._part(g, part)))
        return found

    def _checked(self, i: int, grad: Any, operand: Node | None) -> Node | None:
        """A gradient as its argument's type asks; one of more elements through broadcasting is summed."""
        if grad is None:
            return None
        where = f"{self.cls.__name__}.backward() returned at index {i}"
        if operand is None:
            raise RuntimeError(f"{where} a gradient other than None, but forward()'s argument there was not a Tensor")
        if not isinstance(grad, Tensor):
            raise TypeError(f"{where} a {type(grad).__name__}; gradients are Tensors or None")
        node = grad._read()
        if operand.dtype.kind != "f":
            return None
        if node.shape != operand.shape:
            node = self._summed(where, node, operand)
        return elementwise.cast(node, operand.dtype)

    def _summed(self, where: str, node: Node, operand: Node) -> Node:
        extra = node.type.ndim - operand.type.ndim
        padded = (1,) * extra + operand.shape
        if extra < 0 or any(a != b and b != 1 for a, b in zip(node.shape, padded, strict=True)):
            raise RuntimeError(
                f"{where} an invalid gradient: got {list(node.shape)} but expected a shape compatible with "
                f"{list(operand.shape)}"
            )
        axes = tuple(a for a, (n, o) in enumerate(zip(node.shape, padded, strict=True)) if n != o or a < extra)
        return movement.reshape(reduce.sum(node, axes), operand.shape)

    def _context_of(self, node: Node) -> FunctionCtx:
        """The context, reading what this node's operands are; a copy where the node is not the one recorded first."""
        ctx = self.ctx
        if node is not self.node():
            ctx = copy.copy(ctx)
            attributes = {k: v for k, v in vars(ctx).items() if k not in _OWN}
            if self.held:
                vars(ctx).update(with_tensors(attributes, iter([self._value(node, place) for place in self.held])))
        ctx._read = lambda: tuple(self._value(node, place) for place in self.saved)
        return ctx

    def _value(self, node: Node, place: tuple[str, int] | None) -> Tensor | None:
        if place is None:
            return None
        kind, i = place
        value = node if kind == "result" else node.inputs[i]
        if node.grad is not None:
            self._check_readable(node, value, kind)
        return _reading(self._part(value, i) if kind == "result" else value)

    def _check_readable(self, node: Node, value: Node, kind: str) -> None:
        assert node.grad is not None
        if _overwritten(value, node):
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"{self.cls.__name__} at {node.location} saved a tensor of type {value.type}"
                f"{', its result,' if kind == 'result' else ''} as it was before"
            )
        if node.grad.consumed:
            raise RuntimeError(
                f"Trying to backward through the graph a second time: {self.cls.__name__} at {node.location} reads "
                "tensors that the first pass has freed. Specify retain_graph=True when calling .backward() or "
                "autograd.grad() the first time"
            )


def _reading(node: Node) -> Tensor:
    """A tensor on `node`: the one that it is of, where that still is, else one more."""
    holder = None if node.holder is None else node.holder()
    if holder is not None and holder._base is None and holder._read() is node:
        return holder  # type: ignore[no-any-return]
    return wrap(node)


# ---- vmap ----------------------------------------------------------------------------------------------------


def _batched(node: Node, inputs: batching.Nodes, flags: batching.Flags, batch: batching.Batch) -> Node:
    """The value for all examples; its gradient is the one of an example, for all of them."""

    def joint_vjp(g: Node, whole: Node, wanted: Sequence[int]) -> list[Node | None]:
        from tinygrad_lite.func.vectorize import over_nodes

        def one(g: Node, *operands: Node) -> list[Node | None]:
            again = record(node.op, *operands, **node.attrs)
            rule = node.op.joint_vjp
            return rule(g, again, wanted) if rule else [_single(node)(g, again, i) for i in wanted]

        found = over_nodes(one, [g, *whole.inputs], [True, *given], batch)
        return [x if x is None or given[i] else reduce.sum(x, 0) for i, x in zip(wanted, found, strict=True)]

    given = [True, *flags[1:]]
    value = batching.wholly(inputs[0], flags[0], batch)
    op = dataclasses.replace(node.op, vjp=lambda g, n, i: joint_vjp(g, n, [i])[0], joint_vjp=joint_vjp)
    return record(op, value, *inputs[1:], **node.attrs)


def _single(node: Node) -> Callable[[Node, Node, int], Node | None]:
    assert node.op.vjp is not None
    return node.op.vjp


batching.RULES["function"] = _batched
