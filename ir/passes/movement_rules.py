"""Movement ops: those that do nothing go, neighbours of one kind merge, and `expand` comes as late as it can.

Elements are copied, never computed on, so every rule keeps all bits.
"""

from __future__ import annotations

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.passes.values import full, uniform
from tinygrad_lite.ir.rewrite import Rule, rule
from tinygrad_lite.ops import movement

Ints = tuple[int, ...]


@rule("reshape", "expand", why="a movement to the shape it has is the value")
def same_shape(node: Node) -> Node | None:
    return node.inputs[0] if node.type == node.inputs[0].type else None


@rule("reshape", why="reshape(reshape(x)) = reshape(x)")
def reshape_reshape(node: Node) -> Node | None:
    (x,) = node.inputs
    return movement.reshape(x.inputs[0], node.shape) if x.op.name == "reshape" else None


@rule("reshape", why="reshape(expand(x)) = expand(reshape(x)) where the reshape only adds or drops axes of size 1")
def reshape_of_expand(node: Node) -> Node | None:
    (x,) = node.inputs
    if x.op.name != "expand" or [s for s in x.shape if s != 1] != [s for s in node.shape if s != 1]:
        return None
    sources = iter([old for old, new in zip(x.inputs[0].shape, x.shape, strict=True) if new != 1])
    before = [1 if s == 1 else next(sources) for s in node.shape]
    return movement.expand(movement.reshape(x.inputs[0], before), node.shape)


@rule("permute", why="an order of axes that moves none longer than 1 is a reshape")
def permute_to_reshape(node: Node) -> Node | None:
    (x,) = node.inputs
    moved = [a for a in node.attrs["axes"] if x.shape[a] != 1]
    return movement.reshape(x, node.shape) if moved == sorted(moved) else None


@rule("permute", why="permute(permute(x, p), q) = permute(x, p[q])")
def permute_permute(node: Node) -> Node | None:
    (x,) = node.inputs
    if x.op.name != "permute":
        return None
    return movement.permute(x.inputs[0], [x.attrs["axes"][a] for a in node.attrs["axes"]])


@rule("expand", why="expand(expand(x)) = expand(x)")
def expand_expand(node: Node) -> Node | None:
    (x,) = node.inputs
    return movement.expand(x.inputs[0], node.shape) if x.op.name == "expand" else None


@rule("slice", why="x[0:n] = x")
def slice_whole(node: Node) -> Node | None:
    return node.inputs[0] if node.shape == node.inputs[0].shape else None


@rule("slice", why="x[a:b:s][c:d:t] = x[a + c s : … : s t]")
def slice_slice(node: Node) -> Node | None:
    (x,) = node.inputs
    if x.op.name != "slice":
        return None
    starts, stops, steps = [], [], []
    for outer, inner in zip(_ranges(x), _ranges(node), strict=True):
        picked = outer[inner.start : inner.stop : inner.step]
        starts.append(picked.start if picked else 0)
        stops.append(picked[-1] + 1 if picked else 0)
        steps.append(picked.step)
    return movement.slice_(x.inputs[0], starts, stops, steps)


@rule("slice", why="expand(x)[…] = expand(x[…]): the stretched axes are not cut but stretched less")
def slice_of_expand(node: Node) -> Node | None:
    (x,) = node.inputs
    if x.op.name != "expand" or 0 in node.shape:
        return None
    source = x.inputs[0]
    stretched = [s == 1 for s in source.shape]
    starts = [0 if one else a for one, a in zip(stretched, node.attrs["starts"], strict=True)]
    stops = [1 if one else b for one, b in zip(stretched, node.attrs["stops"], strict=True)]
    steps = [1 if one else s for one, s in zip(stretched, node.attrs["steps"], strict=True)]
    return movement.expand(movement.slice_(source, starts, stops, steps), node.shape)


@rule("slice", why="pad(x)[…] = x[…] where the slice lies within x")
def slice_of_pad(node: Node) -> Node | None:
    (x,) = node.inputs
    if x.op.name != "pad":
        return None
    low, source = x.attrs["low"], x.inputs[0]
    starts = [a - p for a, p in zip(node.attrs["starts"], low, strict=True)]
    stops = [b - p for b, p in zip(node.attrs["stops"], low, strict=True)]
    inside = all(0 <= a <= b <= s for a, b, s in zip(starts, stops, source.shape, strict=True))
    return movement.slice_(source, starts, stops, node.attrs["steps"]) if inside else None


@rule("pad", why="a pad by nothing is the value")
def pad_nothing(node: Node) -> Node | None:
    return node.inputs[0] if node.shape == node.inputs[0].shape else None


@rule("pad", why="pad(pad(x, a), b) = pad(x, a + b)")
def pad_pad(node: Node) -> Node | None:
    (x,) = node.inputs
    if x.op.name != "pad":
        return None
    return movement.pad(x.inputs[0], *(_added(x.attrs[side], node.attrs[side]) for side in ("low", "high")))


@rule("flip", why="a flip of axes of size 1 is the value; flip(flip(x, a), b) flips what is in just one of a and b")
def flip_flip(node: Node) -> Node | None:
    (x,) = node.inputs
    if all(x.shape[a] <= 1 for a in node.attrs["axes"]):
        return x
    if x.op.name != "flip":
        return None
    return movement.flip(x.inputs[0], sorted({*node.attrs["axes"]} ^ {*x.attrs["axes"]}))


@rule(
    "reshape", "permute", "expand", "slice", "flip", "window", why="a movement of a uniform value is the uniform value"
)
def movement_of_uniform(node: Node) -> Node | None:
    value = uniform(node)
    return None if value is None else full(value, node.shape, node.dtype)


@rule("full", "constant", why="uniform values are written one way: a constant where they are scalars, else full")
def uniform_leaf(node: Node) -> Node | None:
    if (node.op.name == "constant") == (node.shape == ()):
        return None
    value = uniform(node)
    return None if value is None else full(value, node.shape, node.dtype)


def _ranges(node: Node) -> list[range]:
    return [range(*t) for t in zip(node.attrs["starts"], node.attrs["stops"], node.attrs["steps"], strict=True)]


def _added(a: Ints, b: Ints) -> Ints:
    return tuple(x + y for x, y in zip(a, b, strict=True))


RULES: tuple[Rule, ...] = (
    same_shape,
    movement_of_uniform,
    uniform_leaf,
    reshape_reshape,
    reshape_of_expand,
    permute_to_reshape,
    permute_permute,
    expand_expand,
    slice_whole,
    slice_slice,
    slice_of_expand,
    slice_of_pad,
    pad_nothing,
    pad_pad,
    flip_flip,
)
