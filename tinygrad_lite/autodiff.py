"""Reverse-mode differentiation over Nodes.

Cotangents are pulled back in the order of descending `serial`, kept in a heap: a node's users all have greater serials,
so its cotangent is complete when it comes up. Nothing recurses. The VJP rules record ordinary nodes, which makes
gradients of gradients, and the backward half of a captured step, the same thing as forward code.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tinygrad_lite.forgetting import restore
from tinygrad_lite.ir.graph import topological
from tinygrad_lite.ir.node import GradMeta, Node, next_serial
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.record import mode, record
from tinygrad_lite.ops.elementwise import ADD

Deliver = Callable[[GradMeta, Node], None]

_SECOND_TIME = (
    "Trying to backward through the graph a second time: {op} at {where} needs values that the first pass has freed. "
    "Specify retain_graph=True when calling .backward() or autograd.grad() the first time"
)
_MODIFIED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: {op} at {where} "
    "reads the {role} of type {type} as it was before. Clone it before writing, or write out of place"
)


def gradients(
    outputs: Sequence[Node],
    cotangents: Sequence[Node],
    wrt: Sequence[Node] | None = None,
    *,
    create_graph: bool = False,
    retain_graph: bool | None = None,
    deliver: Deliver | None = None,
) -> list[Node | None]:
    """Pull `cotangents` of `outputs` back to the nodes `wrt`, or to every leaf where `wrt` is None.

    Args:
        outputs, cotangents: pairs of one type; outputs that nothing differentiable leads to are ignored.
        wrt: the nodes asked for, told apart by their GradMeta; only paths to them are followed.
        create_graph: record the pass itself for differentiation.
        retain_graph: allow a second pass over nodes whose VJP reads values; by default as create_graph.
        deliver: called with (GradMeta, cotangent) for each leaf reached (wrt None) and each node that retains its
            gradient.

    Returns:
        A cotangent for each of `wrt`, None where it was not reached.

    Raises:
        RuntimeError: a second pass over a consumed node, a value overwritten in place, a missing or ill-typed rule.
    """
    retain = create_graph if retain_graph is None else retain_graph
    walk = _Walk(wrt, deliver, consume=not retain, relocate=create_graph or mode.trace is not None)
    if wrt is not None:
        walk.follow_only_paths_to(outputs)
    with mode.set(phase="backward", grad_enabled=create_graph, scope=mode.scope):
        walk.run(outputs, cotangents)
    return [walk.found.get(id(n.grad)) for n in wrt] if wrt is not None else []


class _Walk:
    """One backward pass: the heap of nodes due, their cotangents so far, and what was asked for."""

    def __init__(self, wrt: Sequence[Node] | None, deliver: Deliver | None, consume: bool, relocate: bool) -> None:
        self.asked = None if wrt is None else {id(n.grad) for n in wrt}
        self.deliver = deliver
        self.consume = consume
        self.relocate = relocate
        self.useful: set[int] | None = None  # ids of nodes that lead to `wrt`
        self.found: dict[int, Node] = {}
        self.due: list[tuple[int, Node]] = []
        self.pending: dict[int, Node] = {}
        self.restored: dict[int, Node] = {}  # values of checkpointed segments, computed again for this pass

    def follow_only_paths_to(self, outputs: Iterable[Node]) -> None:
        useful: set[int] = set()
        for node in _differentiable(outputs):
            if id(node.grad) in (self.asked or ()) or any(id(i) in useful for i in node.inputs):
                useful.add(id(node))
        self.useful = useful

    def run(self, outputs: Sequence[Node], cotangents: Sequence[Node]) -> None:
        for node, g in zip(outputs, cotangents, strict=True):
            if self._wants(node):
                self._add(node, _checked(g, node, "the cotangent given for the result"))
        try:
            while self.due:
                _, node = heapq.heappop(self.due)
                self._visit(node, self.pending.pop(id(node)))
                if id(node) in self.restored:
                    self.restored.pop(id(node)).value = None
        finally:
            for node in self.restored.values():
                node.value = None

    def _wants(self, node: Node) -> bool:
        return node.grad is not None and (self.useful is None or id(node) in self.useful)

    def _add(self, node: Node, g: Node) -> None:
        known = self.pending.get(id(node))
        if known is None:
            heapq.heappush(self.due, (-node.serial, node))
        self.pending[id(node)] = g if known is None else record(ADD, known, g)

    def _visit(self, node: Node, g: Node) -> None:
        meta = node.grad
        assert meta is not None
        if meta.hooks:
            g = _run_hooks(meta, node, g)
        if self.asked is not None and id(meta) in self.asked:
            known = self.found.get(id(meta))
            self.found[id(meta)] = g if known is None else record(ADD, known, g)
        if self.deliver is not None and (meta.retains or (meta.leaf and self.asked is None)):
            self.deliver(meta, g)
        if not meta.leaf:
            self._pull_back(node, g)
            meta.consumed = meta.consumed or self.consume

    def _pull_back(self, node: Node, g: Node) -> None:
        mode.scope = node.location.scope if node.location else ""
        self.restored |= {id(n): n for n in restore(node)}
        suspect = "checks_reads" not in node.op.traits and _suspect(node)
        wanted = [i for i, x in enumerate(node.inputs) if self._wants(x)]
        for i in wanted if suspect else ():
            _check_reads(node, g, i)
        for i, result, mark in _cotangents(node, g, wanted):
            if result is None:
                continue
            if self.relocate:
                _relocate(result, node, mark)
            x = node.inputs[i]
            self._add(x, _checked(result, x, f"the vjp of {node.op.name} at {node.location}, input {i},"))


def _cotangents(node: Node, g: Node, wanted: Sequence[int]) -> Iterator[tuple[int, Node | None, int]]:
    """(input, its cotangent, the serial that recording it began at), one at a time or all together."""
    if node.op.joint_vjp is not None and wanted:
        mark = next_serial()
        yield from zip(wanted, node.op.joint_vjp(g, node, wanted), [mark] * len(wanted), strict=True)
        return
    for i in wanted:
        mark = next_serial()
        yield i, _rule(node)(g, node, i), mark


def _rule(node: Node) -> Callable[[Node, Node, int], Node | None]:
    if node.op.vjp is None:
        raise RuntimeError(f"{node.op.name} at {node.location} has no vjp rule, but a gradient was asked for")
    return node.op.vjp


def _checked(g: Node, primal: Node, what: str) -> Node:
    if g.type != primal.type:
        raise RuntimeError(f"{what} has type {g.type}; its primal {primal.op.name} has {primal.type}")
    return g


def _run_hooks(meta: GradMeta, node: Node, g: Node) -> Node:
    for hook in tuple((meta.hooks or {}).values()):
        changed = hook(g)
        if changed is not None:
            g = _checked(changed, node, f"a hook on {node.op.name}: what it returned")
    return g


def _differentiable(outputs: Iterable[Node]) -> list[Node]:
    """The nodes with gradients that `outputs` depend on, inputs before users."""
    seen: dict[int, Node] = {}
    stack = [n for n in outputs if n.grad is not None]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        assert node.grad is not None
        if not node.grad.leaf:
            stack.extend(i for i in node.inputs if i.grad is not None)
    return sorted(seen.values(), key=lambda n: n.serial)


def _recorded_since(root: Node, mark: int) -> Iterator[Node]:
    """The nodes under `root` recorded after serial `mark`; the older ones they read are theirs to look up."""
    seen, stack = {id(root)}, [root]
    while stack:
        node = stack.pop()
        if node.serial <= mark:
            continue
        yield node
        for i in node.inputs:
            if id(i) not in seen:
                seen.add(id(i))
                stack.append(i)


def _relocate(result: Node, forward: Node, mark: int) -> None:
    """A cotangent points to the forward line that it differentiates."""
    location = forward.location and forward.location._replace(phase="backward")
    for node in _recorded_since(result, mark):
        node.location = location


# ---- values that a VJP may no longer read -------------------------------------------------------------


def _overwritten(value: Node, user: Node) -> bool:
    return value.storage.written > user.serial


def _suspect(node: Node) -> bool:
    assert node.grad is not None
    return node.grad.consumed or any(_overwritten(n, node) for n in (node, *node.inputs))


class _Probe:
    """Stands for a capture while a rule is asked which values it reads; nothing is computed."""


def _check_reads(node: Node, g: Node, i: int) -> None:
    """Raise if the cotangent of input i reads values that were freed by an earlier pass, or overwritten."""
    assert node.grad is not None
    for value in _values_read(node, g, i):
        role = "result" if value is node else f"operand {node.inputs.index(value)}"
        if _overwritten(value, node):
            raise RuntimeError(_MODIFIED.format(op=node.op.name, where=node.location, role=role, type=value.type))
        if node.grad.consumed and not _is_constant(value):
            raise RuntimeError(_SECOND_TIME.format(op=node.op.name, where=node.location))


def _values_read(node: Node, g: Node, i: int) -> list[Node]:
    mark = next_serial()
    with mode.set(trace=_Probe(), grad_enabled=False):
        result = _rule(node)(g, node, i)
    if result is None:
        return []
    read = {id(x): x for n in _recorded_since(result, mark) for x in n.inputs}
    return [x for x in dict.fromkeys((node, *node.inputs)) if id(x) in read and x is not g]


def _is_constant(node: Node) -> bool:
    """One number, stretched or not: a scalar of the source text rather than a saved value."""
    if node.grad is not None:
        return False
    if node.value is not None:
        return node.value.size == 1 or not any(_strides(node.value))
    return all(n.op.kind in (Kind.MOVEMENT, Kind.CREATE) or n.op.name == "constant" for n in topological([node]))


def _strides(value: np.ndarray[Any, Any]) -> list[int]:
    return [s for s, n in zip(value.strides, value.shape, strict=True) if n > 1]
