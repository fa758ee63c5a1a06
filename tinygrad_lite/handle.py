"""Tensor: a handle on a Node.

In-place methods compute a new node and rebind the handle to it. A view remembers its base and the movement steps from
it: read after the base was rebound, it replays them; written to, it pushes the new value back through them and rebinds
the base. The rule is the same in eager mode and in a capture, where a node without a value is what gets recorded.

Every read of a handle's node goes through `_read`, every change through `_touch` (`.grad`: `read_grad`, `wrote_grad`):
that is all a capture hooks.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tinygrad_lite import views
from tinygrad_lite.described import Described, refuse
from tinygrad_lite.ir.node import GradMeta, Node, next_serial
from tinygrad_lite.ir.op import Op
from tinygrad_lite.ir.record import leaf, mode, record
from tinygrad_lite.ops.elementwise import ADD, CAST, DETACH, broadcast_shapes, cast, detach
from tinygrad_lite.ops.graft import graft
from tinygrad_lite.ops.movement import broadcast_to
from tinygrad_lite.ops.promote import Operand

if TYPE_CHECKING:
    from tinygrad_lite.autograd import HookHandle
    from tinygrad_lite.ir.graph import Graph

T = TypeVar("T", bound="Tensor")


class GradFn:
    """What `grad_fn` shows: the recorded op behind a tensor that is not a leaf."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def name(self) -> str:
        """The op's name as PyTorch spells it, MulBackward0."""
        if self.node.op.name == "function":
            return f"{self.node.attrs['name']}Backward"
        return "".join(part.capitalize() for part in self.node.op.name.split("_")) + "Backward0"

    @property
    def next_functions(self) -> tuple[tuple[GradFn | None, int], ...]:
        """One entry an operand; None where no gradient is followed."""
        return tuple((GradFn(i) if i.grad is not None else None, 0) for i in self.node.inputs)

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class Unread:
    """A gradient that a compiled run left in its program's memory, until `.grad` is looked at or the next run."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array


class Tensor(Described):
    """A multi-dimensional array of one dtype, after torch.Tensor; made by `tensor`, `zeros`, `randn` and the like.

    `Tensor(sizes…)` makes an uninitialised float32 tensor and `Tensor(sequence)` a float32 copy, for old code's sake.
    """

    __slots__ = ("__dict__", "__weakref__", "_base", "_grad", "_node", "_origin", "_seen", "_view")

    _node: Node  # current value; of a view, the value when the base was `_seen`
    _base: Tensor | None  # the root that owns the storage, None for a root
    _view: views.Steps  # from the base's node to this one's
    _seen: Node | None  # the base's node that `_node` was derived from
    _grad: Tensor | Unread | None
    _origin: Tensor | None  # what took this one's place as a root when its shape was first changed in place

    def __init__(self, *data: Any) -> None:
        from tinygrad_lite import creation

        self._bind(creation.legacy(data))

    if TYPE_CHECKING:  # what methods.py puts here

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def _operator(self, other: Any) -> Any: ...
        def _unary(self) -> Tensor: ...

        __add__ = __radd__ = __iadd__ = __sub__ = __rsub__ = __isub__ = __mul__ = __rmul__ = __imul__ = _operator
        __truediv__ = __rtruediv__ = __itruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _operator
        __pow__ = __rpow__ = __ipow__ = __matmul__ = __rmatmul__ = __and__ = __rand__ = __or__ = __ror__ = _operator
        __xor__ = __rxor__ = __lt__ = __le__ = __gt__ = __ge__ = _operator
        __neg__ = __pos__ = __abs__ = __invert__ = _unary

    # ---- the handle rule ----

    @classmethod
    def _from_node(cls: type[T], node: Node) -> T:
        """A root handle on `node`, or on a copy of it where another handle has it."""
        self = cls.__new__(cls)
        self._bind(node)
        return self

    def _bind(self, node: Node) -> None:
        self._node = self._own(node)
        self._base, self._view, self._seen, self._grad = None, (), None, None
        self._origin = None

    def _own(self, node: Node) -> Node:
        """`node` for this root to have; a copy where another has it: writes to the one must not show in the other."""
        holder = None if node.holder is None else node.holder()
        if holder is not None and holder is not self:
            node = record(CAST, node, dtype=node.dtype)
        node.holder = weakref.ref(self)
        return node

    def _read(self) -> Node:
        """The node that stands for the current value: symbolic in a capture, and up to date with the base."""
        if self._base is not None:
            self._refresh(self._rebased()._read())
        node = self._node
        if node.value is not None and mode.trace is not None:
            return mode.trace.lift(self)  # type: ignore[no-any-return]
        return node

    def _current(self) -> Node:
        """As `_read`, but a concrete root stays concrete in a capture: for questions about type and history."""
        return self._node if self._base is None else self._read()

    def _refresh(self, base: Node) -> None:
        if base is self._seen:
            return
        self._touch()
        untracked = self._seen is not None and self._seen.grad is not None and self._node.grad is None
        with mode.set(grad_enabled=not untracked):  # a view made under no_grad stays out of autograd
            self._node, self._seen = views.replay(base, self._view), base

    def _touch(self) -> None:
        """Announce a change of this handle to the capture under way."""
        if mode.trace is not None:
            mode.trace.touch(self)

    def _rebased(self) -> Tensor:
        """The root that this view is of, once the root of old has become a view itself."""
        assert self._base is not None
        if self._base._origin is not None:
            self._base = self._base._origin
        return self._base

    def _reshaped(self, move: Callable[[Tensor], Tensor]) -> Tensor:
        """In place, this handle becomes the view `move(self)` of its memory; other views of that stay what they are.

        Raises:
            RuntimeError: a leaf that requires grad. CaptureError: in a capture, a tensor from outside.
        """
        meta = self._current().grad
        if meta is not None and meta.leaf:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation that changes its shape"
            )
        if mode.trace is not None and mode.trace.is_from_outside(self):
            refuse("changing the shape of a tensor from outside in place needs another program")
        if self._base is None:
            self._demote()
        view = move(self)
        if view is not self:
            self._touch()
            self._node, self._base, self._view, self._seen = view._node, view._base, view._view, view._seen
            self._node.holder = weakref.ref(self)
            _hand_on_retaining(meta, self._node)
        return self

    def _demote(self) -> None:
        """Hand this root's value to a new root, of which this is the whole view."""
        node = self._read()
        self._touch()
        node.holder = None
        root = Tensor._from_node(node)
        self._origin = root if self._origin is None else self._origin
        self._base, self._view, self._seen = root, (), node

    def _as_view(self, op: Op, **attrs: Any) -> Tensor:
        """A view of this tensor through one movement op."""
        if self._base is None and self._origin is not None:
            self._demote()
        node = record(op, self._read(), **attrs)
        base = self if self._base is None else self._rebased()
        out = Tensor._from_node(node)
        out._base, out._seen = base, base._read()
        out._view = (*self._view, views.Step(op, attrs))
        return out

    def _write(self, node: Node, since: int | None = None) -> Tensor:
        """In-place rule: this handle's value becomes `node`, cast to its dtype; views and base follow.

        Nodes recorded from serial `since` on, which compute `node`, may keep the value that is overwritten.

        Raises:
            RuntimeError: a leaf that requires grad outside no_grad; a result of another shape or dtype category.
        """
        self._check_writable()
        old = self._read()
        node = fitted(node, old)
        if node is old:
            return self
        if self._base is None:
            self._rebind(node, keep_history=not mode.grad_enabled, since=since)
            return self
        detached = views.is_detached(self._view)
        base = self._rebased()._read()
        new_base = views.push(base, self._view, node)
        old.storage.written = since or next_serial()
        self._base._rebind(new_base, keep_history=detached or not mode.grad_enabled, since=since)
        if detached and node.grad is not None:  # the base must not see the history: stop sharing
            self._touch()
            self._node, self._base, self._view, self._seen = node, None, (), None
        return self

    def _rebind(self, node: Node, keep_history: bool, since: int | None = None) -> None:
        """Point a root handle to `node`. A leaf stays one; other history is replaced, or kept as under no_grad."""
        old = self._read()
        meta = old.grad
        node = self._own(node)
        if meta is not None and meta.leaf:
            node = node if node.grad is None else detach(node)
            node.grad = meta
        elif meta is not None and keep_history:
            with mode.set(grad_enabled=True):
                node = graft(node, old)
        self._touch()
        _hand_on_retaining(meta, node)
        old.storage.written = since or next_serial()
        self._node = node

    def _check_writable(self) -> None:
        if not mode.grad_enabled:
            return
        if self._base is not None and not views.is_detached(self._view):
            meta, what = self._rebased()._current().grad, "a view of a leaf Variable that requires grad"
        else:
            meta, what = (self._node.grad if self._base is None else None), "a leaf Variable that requires grad"
        if meta is not None and meta.leaf:
            raise RuntimeError(f"{what} is being used in an in-place operation.")

    def _state(self) -> tuple[Any, ...]:
        """The fields that a capture restores when it undoes its changes."""
        return self._node, self._base, self._view, self._seen, self._own_grad()

    def _restore(self, state: tuple[Any, ...]) -> None:
        self._node, self._base, self._view, self._seen, self._grad = state

    # ---- autograd ----

    @property
    def requires_grad(self) -> bool:
        """Whether autograd follows this tensor; may be set on leaves."""
        return self._current().grad is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Start or stop recording for this leaf.

        Raises:
            RuntimeError: not a floating tensor; stopping a tensor that is not a leaf (use detach()).
        """
        node = self._current()
        if requires_grad == (node.grad is not None):
            return self
        if requires_grad and node.dtype.kind != "f":
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if node.grad is not None and not node.grad.leaf:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in "
                "a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        self._touch()
        if mode.trace is not None or self._base is not None:
            # A fresh node: the one at hand outlives the capture, or would be replaced by a replay.
            self._node = detach(self._read())
            self._base, self._view, self._seen = None, (), None
        self._node.grad = GradMeta(leaf=True, owner=weakref.ref(self)) if requires_grad else None
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether the user made it, rather than a recorded operation."""
        meta = self._current().grad
        return meta is None or meta.leaf

    @property
    def grad_fn(self) -> GradFn | None:
        """The operation that made it; None for a leaf."""
        node = self._current()
        return None if node.grad is None or node.grad.leaf else GradFn(node)

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by `backward()`."""
        grad = self._own_grad()
        if mode.trace is not None:
            mode.trace.read_grad(self)
        return grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_grad(value)
        if mode.trace is not None:
            mode.trace.wrote_grad(self)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _own_grad(self) -> Tensor | None:
        """`.grad` as a tensor with memory of its own."""
        if isinstance(self._grad, Unread):
            self._grad = Tensor._from_node(leaf(self._grad.array.copy()))
        return self._grad

    def _check_grad(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"assigned grad expected to be a Tensor or None but got {type(value).__name__}")
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value._node.type != self._node.type:
            raise RuntimeError(f"assigned grad has type {value._node.type}, the tensor has {self._node.type}")

    def _accumulate(self, g: Node, create_graph: bool) -> None:
        """Add a cotangent to `.grad`: a new tensor under create_graph, else in place."""
        known = self.grad
        if known is None:
            self.grad = Tensor._from_node(g)
        elif create_graph:
            self.grad = Tensor._from_node(known._read()) + Tensor._from_node(g)
        else:
            known._write(record(ADD, known._read(), g))
        meta = self._current().grad
        for hook in tuple((meta.accumulated or {}).values()) if meta is not None else ():
            hook(self)

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Sequence[Tensor] | Tensor | None = None,
    ) -> None:
        """Accumulate the gradient of this tensor into `.grad` of the leaves it depends on (or of `inputs`).

        Args:
            gradient: the cotangent, of this tensor's shape; 1 for a scalar.
            retain_graph: allow a second backward through the same graph; by default as create_graph.
            create_graph: record the backward pass, for higher derivatives.

        Raises:
            RuntimeError: nothing requires grad; not a scalar and no `gradient`; a second pass; an overwritten value.
        """
        from tinygrad_lite import autograd

        autograd.backward(self, None if gradient is None else [gradient], retain_graph, create_graph, inputs)

    def graph(self, model: Any = None, name: str = "eager") -> Graph:
        """What was recorded from the leaves to this tensor; `model` gives its parameters their names."""
        from tinygrad_lite.recorded import graph_of

        return graph_of(self, model, name)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> HookHandle:
        """Call `hook(grad)` whenever this tensor's gradient is computed; a tensor it returns takes the place of that.

        Raises:
            RuntimeError: the tensor does not require grad.
        """
        from tinygrad_lite.autograd import HookHandle

        meta = self._current().grad
        if meta is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")

        def on_node(g: Node) -> Node | None:
            changed = hook(Tensor._from_node(g))
            return None if changed is None else changed._read()

        meta.hooks = {} if meta.hooks is None else meta.hooks
        return HookHandle(meta.hooks, on_node)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> HookHandle:
        """Call `hook(tensor)` whenever `backward()` has added to `.grad` of this leaf.

        Raises:
            RuntimeError: the tensor does not require grad, or is not a leaf.
        """
        from tinygrad_lite.autograd import HookHandle

        meta = self._current().grad
        if meta is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if not meta.leaf:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        meta.accumulated = {} if meta.accumulated is None else meta.accumulated
        return HookHandle(meta.accumulated, hook)

    def retain_grad(self) -> None:
        """Keep `.grad` of a tensor that is not a leaf."""
        meta = self._current().grad
        if meta is None:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if not meta.leaf:
            meta.retains, meta.owner = True, weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad()` is in effect."""
        meta = self._current().grad
        return meta is not None and meta.retains

    def detach(self) -> Tensor:
        """The same values without history; shares them, so in-place writes to one show in the other."""
        return self._as_view(DETACH)

    def detach_(self) -> Tensor:
        """Drop this tensor's history. RuntimeError for views."""
        if self._base is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead")
        self._touch()
        self._node = detach(self._read())
        return self

    @property
    def data(self) -> Tensor:
        """As `detach()`; assigning gives this tensor another value and keeps what it is (a leaf, a parameter)."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"data must be a Tensor, got {type(value).__name__}")
        node = detach(value._read())
        old = self._current()
        if old.grad is not None and not old.grad.leaf:
            raise RuntimeError("data of a tensor that is not a leaf can only be written in place")
        if old.grad is not None and node.dtype.kind != "f":
            raise RuntimeError("data of a tensor that requires grad must be floating point")
        self._touch()
        node.grad, old.storage.written = old.grad, next_serial()
        self._node, self._base, self._view, self._seen = node, None, (), None

    def clone(self, *, memory_format: Any = None) -> Tensor:
        """A copy that gradients flow through."""
        node = self._read()
        return Tensor._from_node(record(CAST, node, dtype=node.dtype))

    # ---- copies ----

    def __deepcopy__(self: T, memo: dict[int, Any]) -> T:
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user support the deepcopy protocol")
        copy = restore(type(self), self._values("deepcopy()").copy(), self.requires_grad)
        memo[id(self)] = copy
        grad = self._own_grad()
        copy._grad = None if grad is None else grad.__deepcopy__(memo)
        copy.__dict__.update(self.__dict__)
        return copy

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.is_leaf:
            raise TypeError("only leaf tensors can be pickled; detach() first")
        return (
            restore,
            (type(self), np.array(self._values("pickle"), order="C"), self.requires_grad),
            dict(self.__dict__),
        )


def restore(cls: type[T], array: np.ndarray[Any, Any], requires_grad: bool) -> T:
    """A leaf of class `cls` on `array`."""
    out = cls._from_node(leaf(array))
    return out.requires_grad_() if requires_grad else out


def _hand_on_retaining(meta: GradMeta | None, node: Node) -> None:
    """A tensor that retains its gradient retains that of its new value instead."""
    if meta is not None and meta.retains and node.grad is not None:
        node.grad.retains, node.grad.owner, meta.retains = True, meta.owner, False


def fitted(node: Node, place: Node) -> Node:
    """`node` cast and broadcast to the type of `place`, as in-place results must be. RuntimeError where it cannot."""
    ranks = "buif"
    new, old = node.dtype.kind, place.dtype.kind
    if ranks.index(new) > ranks.index(old) and not (new in "ui" and old in "ui"):
        raise RuntimeError(f"result type {node.dtype.name} can't be cast to the desired output type {place.dtype.name}")
    shape = broadcast_shapes("in-place result", [node.shape, place.shape])
    if shape != place.shape:
        raise RuntimeError(f"output with shape {list(place.shape)} doesn't match the broadcast shape {list(shape)}")
    return broadcast_to(cast(node, place.dtype), shape)


def unwrap(x: Any) -> Operand:
    """A tensor's node or a Python scalar, as the op builders take them. TypeError for anything else."""
    if isinstance(x, Tensor):
        return x._read()
    if isinstance(x, bool | int | float):
        return x
    if isinstance(x, np.generic) and x.ndim == 0:
        return x.item()  # type: ignore[no-any-return]
    raise TypeError(f"expected a Tensor or a number, got {type(x).__name__}")


def node_of(x: Any, name: str = "argument") -> Node:
    """A tensor's node; TypeError naming the argument for anything else."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a Tensor, not {type(x).__name__}")
    return x._read()


wrap = Tensor._from_node
