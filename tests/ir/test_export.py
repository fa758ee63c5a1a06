"""JSON and networkx: nothing is lost on the way, and whatever is not a graph is refused by name."""

import copy
import json

import pytest
from hypothesis import given, settings

from tests.ir.samples import gpt_step, tracing
from tests.strategies import SOMEWHERE, Case, cases
from tinygrad_lite.ir.equality import first_difference
from tinygrad_lite.ir.export import FormatError, from_dict, to_dict, to_networkx
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.types import float32
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import leaf


def through_json(graph: Graph) -> Graph:
    return from_dict(json.loads(json.dumps(to_dict(graph), allow_nan=False)))


@settings(max_examples=100, deadline=None)
@given(cases())
def test_random_graphs_survive_json(case: Case):
    again = through_json(case.graph)
    assert first_difference(case.graph, again) is None
    assert [n.location for n in again.nodes] == [n.location for n in case.graph.nodes]


def test_deep_graphs_survive_json():
    x = leaf.input("x", float32, ())
    with tracing():
        y = x
        for _ in range(20_000):
            y = ew.add(y, x)
    graph = Graph("deep", (x,), (), (y,))
    assert first_difference(graph, through_json(graph)) is None


def _set(data, *path_and_value):
    *path, last, value = path_and_value
    for key in path:
        data = data[key]
    data[last] = value


BROKEN = {
    "not a graph": ("format", "other"),
    "'nodes' must be a list": ("nodes", 3),
    "'name' must be a string": ("name", None),
    "nodes[1]: KeyError: 'nonsense'": ("nodes", 1, "op", "nonsense"),
    "nodes[1]: FormatError: inputs: 1 is not the index": ("nodes", 1, "inputs", [1]),
    "nodes[1]: TypeError: exp gives f32[2], the entry says f32[3]": ("nodes", 1, "shape", [3]),
    "outputs: True is not the index": ("outputs", [True]),
    "'updates' must hold": ("updates", [0]),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_what_is_no_graph_is_refused(problem: str):
    x = leaf.input("x", float32, (2,))
    with tracing():
        data = copy.deepcopy(to_dict(Graph("g", (x,), (), (ew.exp(x),))))
    _set(data, *BROKEN[problem])
    with pytest.raises(FormatError) as caught:
        from_dict(data)
    assert problem in str(caught.value)


@pytest.mark.parametrize("data", [None, [], "graph", {}, 3.5])
def test_other_json_is_refused(data: object):
    with pytest.raises(FormatError, match="not a graph"):
        from_dict(data)


def test_networkx_knows_nodes_and_operands():
    import networkx as nx

    x = leaf.input("x", float32, (2,))
    with tracing("block"):
        y = ew.mul(x, x)
        z = ew.sub(y, x)
    y.location = SOMEWHERE
    drawn = to_networkx(Graph("g", (x,), (), (z,)))
    assert nx.is_directed_acyclic_graph(drawn)
    assert drawn.nodes[1]["op"] == "mul"
    assert drawn.nodes[1] | SOMEWHERE._asdict() == drawn.nodes[1]
    assert (drawn.nodes[0]["role"], drawn.nodes[2]["role"]) == ("argument", "output")
    assert drawn.nodes[2]["type"] == "f32[2]"
    assert drawn.edges[0, 1]["operands"] == (0, 1)
    assert drawn.edges[0, 2]["operand"] == 1
    assert drawn.edges[1, 2]["type"] == "f32[2]"


def test_networkx_of_a_training_step():
    graph = gpt_step(1)
    drawn = to_networkx(graph)
    assert len(drawn) == len(graph)
    assert {n["phase"] for _, n in drawn.nodes(data=True)} == {"forward", "backward", "optimiser"}
