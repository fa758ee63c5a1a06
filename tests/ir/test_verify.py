"""The verifier: graphs from the builders pass, each broken rule is named with the printed node and the user's line."""

import pytest
from hypothesis import given, settings

from tests.ir.samples import gpt_step, mlp_step, tracing
from tests.strategies import Case, cases
from tinygrad_lite.ir.graph import Graph, Update
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import TensorType, float32, int64
from tinygrad_lite.ir.verify import GraphError, verify
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import indexing, leaf


@settings(max_examples=100, deadline=None)
@given(cases())
def test_recorded_graphs_pass(case: Case):
    assert verify(case.graph) is case.graph


@pytest.mark.parametrize("step", [gpt_step, mlp_step])
def test_training_steps_pass(step):
    verify(step())


def test_a_wrong_type_shows_node_and_line():
    x = leaf.input("x", float32, (2,))
    with tracing("block"):
        y = ew.exp(x)  # the line to be shown
    y.type = TensorType(float32, (3,))
    with pytest.raises(GraphError) as caught:
        verify(Graph("g", (x,), (), (y,)))
    message = str(caught.value)
    assert "graph 'g': exp gives f32[2], the node says f32[3]" in message
    assert "%1 = exp %0 : f32[3]" in message
    assert "block test_verify.py:" in message
    assert "y = ew.exp(x)  # the line to be shown" in message


def _broken() -> dict[str, Graph]:
    x, w, i = leaf.input("x", float32, (4,)), leaf.state("w", float32, (4,)), leaf.input("i", int64, (2,))
    with tracing():
        y = ew.exp(x)
        wide = ew.cast(y, int64)
        gathered = Node(indexing.GATHER, (x, i), {"axis": 0}, TensorType(float32, (2,)))
        constant = leaf.constant(0.1, float32)
    three = Node(ew.ADD, (x, x, x), {}, x.type)
    constant.attrs = {**constant.attrs, "data": (0.1,)}
    odd = Node(ew.EXP, (x,), {"mode": [1]}, x.type)
    return {
        "is not in the graph's signature": Graph("g", (), (), (y,)),
        "an argument must be a leaf": Graph("g", (y,), (), ()),
        "a state must be a leaf": Graph("g", (), (x,), ()),
        "two arguments are called 'x'": Graph("g", (x, leaf.input("x", float32, ())), (), ()),
        "what is no state of the graph": Graph("g", (x,), (), (), (Update(x, y),)),
        "is updated twice": Graph("g", (x,), (w,), (), (Update(w, x), Update(w, y))),
        "of f32[4] is updated by i64[4]": Graph("g", (x,), (w,), (), (Update(w, wide),)),
        "did not pass check_index": Graph("g", (x, i), (), (gathered,)),
        "add has 3 operands": Graph("g", (x,), (), (three,)),
        "must be exact in float32": Graph("g", (), (), (constant,)),
        "cannot hold a list": Graph("g", (x,), (), (odd,)),
    }


@pytest.mark.parametrize("problem", _broken())
def test_each_broken_rule_is_named(problem: str):
    with pytest.raises(GraphError) as caught:
        verify(_broken()[problem])
    assert problem in str(caught.value)


def test_a_cycle_is_found():
    x = leaf.input("x", float32, ())
    with tracing():
        y = ew.exp(x)
        z = ew.exp(y)
    y.inputs = (z,)
    with pytest.raises(GraphError, match="before its input"):
        verify(Graph("g", (x,), (), (z,)))


def test_checked_indices_may_move_and_combine():
    x, i = leaf.input("x", float32, (4, 3)), leaf.input("i", int64, (2, 1))
    with tracing():
        y = indexing.index_nd(x, [i, i])
        z = indexing.index_put_nd(x, [i, i], y, accumulate=True)
    verify(Graph("g", (x, i), (), (y, z)))
