"""Products that are cheaper as something else.

Floating sums are taken in another order than BLAS takes them, which no two machines agree on anyway.
"""

from __future__ import annotations

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.rewrite import Rule, rule
from tinygrad_lite.ops import elementwise, movement, reduce


@rule("matmul", why="x W for a single row x reads each weight once: as a sum of products it fuses with what follows")
def product_of_a_row(node: Node) -> Node | None:
    a, b = node.inputs
    if a.shape[-2] != 1 or node.dtype.kind != "f" or 0 in a.shape or 0 in node.shape:
        return None
    *batch, k, n = b.shape
    if b.op.name == "permute":  # rows of W lie dense: each is summed along
        wide = movement.expand(a, (*batch, n, k))
        return movement.reshape(reduce.sum(elementwise.mul(wide, movement.transpose(b, -2, -1)), -1, True), node.shape)
    tall = movement.expand(movement.reshape(a, (*batch, k, 1)), (*batch, k, n))
    return reduce.sum(elementwise.mul(tall, b), -2, True)


RULES: tuple[Rule, ...] = (product_of_a_row,)
