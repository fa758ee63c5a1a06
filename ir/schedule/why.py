"""Why two groups are not one kernel: the rules of `fuse`, asked afterwards of its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.schedule.fuse import Group, fusible_operands, most_nodes
from tinygrad_lite.ir.schedule.place import is_virtual, root_of

_ALONE = {
    "matmul": "a matrix product is a kernel of its own, run by BLAS",
    "attention": "attention is a kernel of its own",
    "scatter": "a scatter changes memory in place",
    "opaque": "its kernel is native code of its own",
    "scan": "a loop's body is scheduled by itself",
    "convolution": "a convolution is a kernel of its own",
}


class Border(NamedTuple):
    """A value that is stored because its reader is another group, and why that is so."""

    writer: int
    reader: int
    value: Node
    nbytes: int
    reason: str


def borders(groups: Sequence[Group]) -> Iterator[Border]:
    """Every value that goes from one group to another, in order of the readers."""
    home = {id(n): i for i, g in enumerate(groups) for n in g.nodes}
    above = _above(groups, home)
    for number, group in enumerate(groups):
        seen: set[int] = set()
        for node in group.nodes:
            for operand in node.inputs:
                value = root_of(operand)
                source = home.get(id(value))
                if source is None or source == number or id(value) in seen:
                    continue
                seen.add(id(value))
                reason = why_apart(groups, source, number, node, value, above)
                yield Border(source, number, value, value.type.nbytes, reason)


def why_apart(
    groups: Sequence[Group], writer: int, reader: int, node: Node, value: Node, above: Sequence[int] | None = None
) -> str:
    """Why `node` of group `reader` does not run in the loops of group `writer`, which makes `value`."""
    a, b = groups[writer], groups[reader]
    for group in (a, b):
        if group.kind != "loops":
            return _ALONE.get(group.kind, f"a {group.kind} is a kernel of its own")
        if any("alone" in n.op.traits for n in group.nodes):
            return "a copy into a state's or result's own memory"
    if a.shape != b.shape:
        return f"their loops differ: {list(a.shape)} and {list(b.shape)}"
    if a.axes and b.axes and a.axes != b.axes:
        return f"they sum over different axes: {sorted(a.axes)} and {sorted(b.axes)}"
    if value not in [o for o, _ in fusible_operands(node)]:
        return "it is read through a view or by index: the whole value must lie in memory first"
    most = most_nodes(a.shape, a.axes or b.axes)
    if len(a.nodes) + len(b.nodes) > most:
        return f"together they would have more than {most} nodes"
    if above is not None and any(above[i] >> writer & 1 for i in _direct(groups, reader) if i != writer):
        return "a third kernel must run between them"
    if a.is_column or b.is_column:
        return "sums over outer axes are complete only after the whole loop"
    return "a reduction must be complete, or memory would be overwritten too early"


def _direct(groups: Sequence[Group], number: int) -> set[int]:
    home = {id(n): i for i, g in enumerate(groups) for n in g.nodes}
    found = {home.get(id(root_of(i))) for n in groups[number].nodes for i in n.inputs if not is_virtual(i)}
    return {i for i in found if i is not None and i != number}


def _above(groups: Sequence[Group], home: dict[int, int]) -> list[int]:
    """For each group the bit set of those that it depends on, directly or not."""
    above = [0] * len(groups)
    for number, group in enumerate(groups):
        for node in group.nodes:
            for operand in node.inputs:
                source = home.get(id(root_of(operand)))
                if source is not None and source != number:
                    above[number] |= above[source] | 1 << source
    return above
