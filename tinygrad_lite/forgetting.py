"""Values that eager autograd lets go, and computes again when a gradient asks for them: `utils.checkpoint`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import mode


def forget(results: Sequence[Node], start: int) -> None:
    """Let go the values recorded since serial `start` that lead to `results`, but for these and what tensors hold."""
    kept = {id(n) for n in results}
    seen = set(kept)
    stack = list(results)
    while stack:
        for node in stack.pop().inputs:
            if id(node) in seen or node.serial < start or node.grad is None or node.grad.leaf:
                continue
            seen.add(id(node))
            stack.append(node)
            if node.holder is None or node.holder() is None:
                node.value = None


def restore(node: Node) -> list[Node]:
    """Compute the values that the rule of `node` may read and that are gone; the nodes that have one again.

    Of other segments within the same one, only the results are kept.

    Raises:
        RuntimeError: an operand was overwritten in place since.
    """
    if mode.trace is not None:
        return []
    missing = {id(n): n for n in (node, *node.inputs) if n.value is None}
    stack = list(missing.values())
    while stack:
        for each in stack.pop().inputs:
            if each.value is None and id(each) not in missing:
                missing[id(each)] = each
                stack.append(each)
    again = sorted(missing.values(), key=lambda n: n.serial)
    for each in again:
        each.value = _value(each)
    return list(_wanted(again, node))


def _value(node: Node) -> np.ndarray:
    for i, operand in enumerate(node.inputs):
        if operand.storage.written > node.serial:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"{node.op.name} at {node.location} is computed again by checkpoint(), and reads its operand {i} of "
                f"type {operand.type} as it was before. Clone it before writing, or write out of place"
            )
    with np.errstate(all="ignore"):
        return np.asarray(node.op.numpy(*[i.value for i in node.inputs], **node.attrs))


def _wanted(again: Sequence[Node], node: Node) -> Iterator[Node]:
    """Lets go again what lies inside of segments that `node` is not in."""
    leaving = {id(i) for n in again for i in n.inputs if _segment(i) != _segment(n)}
    for each in again:
        if f"{_segment(node)}/".startswith(f"{_segment(each)}/") or id(each) in leaving:
            yield each
        else:
            each.value = None


def _segment(node: Node) -> str:
    return node.location.segment if node.location else ""
