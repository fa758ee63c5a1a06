"""Recording: creating a Node is all it takes. Eager mode computes its value at once, a trace leaves it symbolic."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import GradMeta, Location, Node
from tinygrad_lite.ir.op import Kind, Op, op_named, register
from tinygrad_lite.ir.strides import VIEWING, contiguous_strides, is_contiguous, view_strides
from tinygrad_lite.ir.types import DType, TensorType, dtype_of, float32


class Mode(threading.local):
    """What recording depends on, per thread."""

    grad_enabled: bool = True
    trace: Any = None  # the capture under way, or None
    scope: str = ""  # module path, kept by nn.Module.__call__
    phase: str = "forward"  # forward, backward, optimiser
    segment: str = ""  # the segments of utils.checkpoint that are being recorded
    autocast: DType | None = None  # what products convert float32 operands to, if anything

    @contextmanager
    def set(self, **changes: Any) -> Iterator[None]:
        """Change some of the fields within a with-block."""
        before = {name: getattr(self, name) for name in changes}
        for name, value in changes.items():
            setattr(self, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)

    def eager(self) -> Any:
        """Suspend a capture: what is computed inside is computed now."""
        return self.set(trace=None)


mode = Mode()

_OWN = ("tinygrad_lite.",)
_USER = ("tinygrad_lite.models.",)


def here() -> Location:
    """The innermost line outside the package (the model zoo counts as user code)."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(_OWN) or name.startswith(_USER):
            break
        frame = frame.f_back
    return Location(frame.f_code.co_filename, frame.f_lineno, mode.scope, mode.phase, mode.segment)


def _leaf_type(**attrs: Any) -> TensorType:
    raise TypeError("an eager leaf has no inference rule: it is made from its value")


LEAF = register(Op("leaf", Kind.LEAF, _leaf_type, lambda: None))


def leaf(value: np.ndarray[Any, Any], grad: GradMeta | None = None, location: Location | None = None) -> Node:
    """An eager value without history."""
    return Node(LEAF, (), {}, TensorType(dtype_of(value.dtype), value.shape), location, value, grad)


# What carries 16-bit floats about without computing; every other op computes in float32 and rounds once.
_CARRIES = frozenset({Kind.MOVEMENT, Kind.GATHER, Kind.LEAF, Kind.CREATE, Kind.RANDOM, Kind.LOOP})
_CARRYING_OPS = frozenset({"cast", "detach", "graft", "sloped", "function", "slice_update", "put", "put_along"})


def record(op: Op, *inputs: Node, **attrs: Any) -> Node:
    """Append `op(*inputs, **attrs)`; the op's inference rule raises at the user's line.

    Of float16 and bfloat16 operands it is cast(op(cast(x, float32), …), dtype) that is appended.
    """
    for i in inputs:
        if i.type.dtype.is_half and op.kind not in _CARRIES and op.name not in _CARRYING_OPS:
            return _in_float32(op, inputs, attrs)
    result = op.infer(*[i.type for i in inputs], **attrs)
    needs_grad = (
        mode.grad_enabled
        and op.vjp is not None
        and result.dtype.kind == "f"
        and any(i.grad is not None for i in inputs)
    )
    grad = GradMeta() if needs_grad else None
    node = _made(op, inputs, attrs, result, grad)
    if op.name in VIEWING:
        _share_storage(node, inputs[0], op, attrs)
    return node


def _made(op: Op, inputs: tuple[Node, ...], attrs: dict[str, Any], result: TensorType, grad: GradMeta | None) -> Node:
    if mode.trace is not None:
        return Node(op, inputs, attrs, result, here(), None, grad)
    with np.errstate(all="ignore"):
        value = np.asarray(op.numpy(*[_value(i, op) for i in inputs], **attrs))
    if grad is None:
        return Node(LEAF, (), {}, result, None, value)
    return Node(op, inputs, attrs, result, here(), value, grad)


def _share_storage(node: Node, source: Node, op: Op, attrs: dict[str, Any]) -> None:
    """A view lies where its source does, unless it is a reshape that must copy."""
    strides = source.strides
    if strides is not None or op.name not in ("reshape", "detach"):
        strides = view_strides(op.name, attrs, source.shape, strides or contiguous_strides(source.shape), node.shape)
        if strides is None:
            return
        strides = None if is_contiguous(node.shape, strides) else strides
    node.storage, node.strides = source.storage, strides


def _in_float32(op: Op, inputs: tuple[Node, ...], attrs: dict[str, Any]) -> Node:
    cast = op_named("cast")
    halves = {i.type.dtype for i in inputs if i.type.dtype.is_half}
    wide = [record(cast, i, dtype=float32) if i.type.dtype.is_half else i for i in inputs]
    if len(halves) > 1:
        raise TypeError(f"{op.name}: operands must have one dtype, got {', '.join(str(i.type) for i in inputs)}")
    result = record(op, *wide, **attrs)
    return record(cast, result, dtype=halves.pop()) if result.type.dtype is float32 else result


def _value(node: Node, op: Op) -> Any:
    if node.value is None:
        raise RuntimeError(
            f"{op.name}: a value traced by tl.compile was used outside its capture. "
            "Return it from the compiled function instead"
        )
    return node.value


Builder = Callable[..., Node]
