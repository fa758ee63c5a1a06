"""pad: constants, or what the tensor itself continues with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinygrad_lite.functional.common import Scalar, fresh, node_of, sizes
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import create, movement
from tinygrad_lite.ops import elementwise as ew

__all__ = ["pad"]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: Scalar | None = None) -> Tensor:
    """Add (before, after) pairs of elements, the last axis first; negative amounts cut.

    Args:
        mode: "constant" (of `value`, 0 by default); of the last 1 to 3 axes of a tensor with one or two more also
            "reflect" (mirrored about the edge elements), "replicate" (the edge repeated), "circular" (wrapped around).

    Raises:
        RuntimeError: amounts that are no pairs, too many, or larger than the mode allows; a value in another mode.
        NotImplementedError: another mode or rank.
    """
    amounts = sizes((pad,), "pad")
    node = node_of(input, "input")
    if len(amounts) % 2 or len(amounts) // 2 > node.type.ndim:
        raise RuntimeError(f"pad: {list(amounts)} must be (before, after) pairs for at most {node.type.ndim} dims")
    before, after = [0] * node.type.ndim, [0] * node.type.ndim
    for i in range(len(amounts) // 2):
        before[-1 - i], after[-1 - i] = amounts[2 * i], amounts[2 * i + 1]
    if mode == "constant":
        return fresh(padded(node, before, after, 0 if value is None else value), node)
    if value is not None and value != 0:
        raise RuntimeError(f'pad: padding mode "{mode}" doesn\'t take in value argument, got {value}')
    if mode not in _CONTINUED:
        raise NotImplementedError(
            f"pad: unrecognised padding mode {mode!r}; there are constant, {', '.join(_CONTINUED)}"
        )
    pairs = len(amounts) // 2
    if not 1 <= pairs <= 3 or node.type.ndim - pairs not in (1, 2):
        raise NotImplementedError(
            f"pad: mode {mode!r} pads the last 1, 2 or 3 dims of a tensor with one or two more, not {node.type}"
        )
    for axis in range(node.type.ndim - pairs, node.type.ndim):
        node = _along(node, axis, before[axis], after[axis], mode)
    return fresh(node, node_of(input, "input"))


def padded(x: Node, before: Sequence[int], after: Sequence[int], value: Scalar) -> Node:
    """x with `value` around; negative amounts cut."""
    starts = [max(-a, 0) for a in before]
    stops = [n + min(b, 0) for n, b in zip(x.shape, after, strict=True)]
    if any(a > b for a, b in zip(starts, stops, strict=True)):
        raise RuntimeError(f"pad: {list(before)} before and {list(after)} after cut more than there is of {x.type}")
    low, high = [max(a, 0) for a in before], [max(b, 0) for b in after]
    x = movement.slice_(x, starts, stops)
    around = movement.pad(x, low, high)
    if not value or around is x:
        return around
    inside = movement.pad(create.full(x.shape, True), low, high)
    return ew.where(inside, around, ew.as_node(value, x.dtype))


# ---- modes that continue the tensor, one axis at a time: (x, axis, count) → what stands before or after -----------


def _along(x: Node, axis: int, before: int, after: int, mode: str) -> Node:
    size = x.shape[axis]
    if size == 0 and (before or after):
        raise RuntimeError(f"pad: mode {mode!r} expects a non-empty dim {axis}, got {x.type}")
    limit = {"reflect": size - 1, "circular": size}.get(mode)
    if limit is not None and max(before, after) > limit:
        raise RuntimeError(
            f"pad: mode {mode!r} takes at most {limit} elements at dim {axis} of {x.type}, got ({before}, {after})"
        )
    if mode == "circular" and min(before, after) < 0:  # what is left goes round
        first = max(-before, 0)
        x = movement.narrow(x, axis, first, size - first - max(-after, 0))
        before, after = max(before, 0), max(after, 0)
    head, tail = _CONTINUED[mode]
    parts = [x]
    if before > 0:
        parts.insert(0, head(x, axis, before))
    if after > 0:
        parts.append(tail(x, axis, after))
    whole = movement.concat(parts, axis) if len(parts) > 1 else x
    first = max(-before, 0)
    return movement.narrow(whole, axis, first, whole.shape[axis] - first - max(-after, 0))


def _edge(x: Node, axis: int, at: int, count: int) -> Node:
    shape = tuple(count if a == axis else n for a, n in enumerate(x.shape))
    return movement.expand(movement.narrow(x, axis, at, 1), shape)


def _tail(x: Node, axis: int, count: int, skip: int = 0) -> Node:
    return movement.narrow(x, axis, x.shape[axis] - count - skip, count)


_Side = Callable[[Node, int, int], Node]
_CONTINUED: dict[str, tuple[_Side, _Side]] = {
    "reflect": (
        lambda x, axis, n: movement.flip(movement.narrow(x, axis, 1, n), axis),
        lambda x, axis, n: movement.flip(_tail(x, axis, n, 1), axis),
    ),
    "replicate": (lambda x, axis, n: _edge(x, axis, 0, n), lambda x, axis, n: _edge(x, axis, x.shape[axis] - 1, n)),
    "circular": (_tail, lambda x, axis, n: movement.narrow(x, axis, 0, n)),
}
