"""Structural equality, and the first difference in words."""

from tests.ir.samples import gpt_step, tracing
from tinygrad_lite.ir.equality import first_difference, structurally_equal
from tinygrad_lite.ir.graph import Graph, Update
from tinygrad_lite.ir.text import parse
from tinygrad_lite.ir.types import float32
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import leaf

BEFORE = """graph g {
  %0 = input "x" : f32[2]
  %1 = state "w" : f32[2]
  %2 = exp %0
  %3 = mul %2, %1
  update %1 = %3
  return %2
}
"""


def difference(old: str, new: str) -> str | None:
    return first_difference(parse(BEFORE), parse(BEFORE.replace(old, new)))


def test_equal_whatever_the_names_and_the_order_of_lines():
    assert difference("graph g", "graph h") is None
    assert difference("%2", "%e") is None
    assert structurally_equal(gpt_step(1), gpt_step(1))


def test_the_first_difference_shows_both_lines():
    assert difference("exp", "tanh") == "node 2 differs:\n  %2 = exp %0 : f32[2]\n  %2 = tanh %0 : f32[2]"
    assert "%3 = mul %2, %1" in (difference("mul %2, %1", "mul %1, %2") or "")
    assert (difference("return %2", "return %2, %3") or "") == "one graph has 1 outputs, the other 2"
    assert (difference("return %2", "return %3") or "").startswith("output 0 differs:\n  %2 = exp")
    assert (difference("  update %1 = %3\n", "") or "").startswith("one graph has 4 nodes, the other 3")


def test_sharing_counts():
    x = leaf.input("x", float32, ())
    with tracing():
        shared = ew.exp(x)
        twice = Graph("g", (x,), (), (shared, shared))
        apart = Graph("g", (x,), (), (ew.exp(x), ew.exp(x)))
    assert not structurally_equal(twice, apart)


def test_updates_count():
    w, v = leaf.state("w", float32, ()), leaf.state("v", float32, ())
    a, b = Graph("g", (), (w, v), (), (Update(w, v),)), Graph("g", (), (w, v), (), (Update(v, w),))
    assert "updated state 0 differs" in (first_difference(a, b) or "")
