"""Text: print and parse are inverse, and no text whatever crashes or hangs the parser."""

import random

import numpy as np
import pytest
from hypothesis import given, settings

from tests.ir.samples import gpt_step, tracing
from tests.strategies import SOMEWHERE, Case, cases
from tinygrad_lite.ir.equality import first_difference, structurally_equal
from tinygrad_lite.ir.graph import Graph, Update
from tinygrad_lite.ir.op import all_ops
from tinygrad_lite.ir.text import ParseError, parse, to_text
from tinygrad_lite.ir.types import DTYPES, bool_, float32, float64, int64, uint8
from tinygrad_lite.ops import create, leaf
from tinygrad_lite.ops import elementwise as ew

SMALL = """graph step {
  %0 = input "x" : f32[2,3]
  %1 = state "fc.weight" : f32[2,3]
  %2 = full 0.1 : f32[2,3]
  %3 = mul %0, %2 : f32[2,3]
  %4 = sum %3 axes=[0, 1] : f32[1,1]
  %5 = reshape %4 : f32[]
  %6 = constant 0.5 : f32[]
  %7 = add %5, %6 : f32[]
  update %1 = %3
  return %7, %6
}
"""


def assert_round_trip(graph: Graph) -> None:
    text = to_text(graph)
    again = parse(text)
    assert first_difference(graph, again) is None
    assert again.name == graph.name
    assert to_text(again) == to_text(graph, comments=False)


def test_reads_what_it_prints():
    assert to_text(parse(SMALL)) == SMALL


@settings(max_examples=150, deadline=None)
@given(cases())
def test_random_graphs_round_trip(case: Case):
    assert_round_trip(case.graph)


def test_a_training_step_round_trips():
    assert_round_trip(gpt_step())


def test_comments_hold_phase_scope_and_line():
    x = leaf.input("x", float32, ())
    with tracing():
        y = ew.exp(x)
        y.location = SOMEWHERE._replace(phase="backward", scope="blocks.0\n")
    assert "%1 = exp %0 : f32[]  # backward blocks.0? model.py:7" in to_text(Graph("g", (x,), (), (y,)))


@pytest.mark.parametrize("name", ["", "two words", 'a"b', "\n", "\u2028", "\ud800", "graph", "a.b", "ünï", "\\n"])
def test_odd_names_survive(name: str):
    x, w = leaf.input(name, float32, (1,)), leaf.state(name, float32, (1,))
    assert_round_trip(Graph(name, (x,), (w,), (x, w)))


def test_odd_numbers_survive():
    numbers = [float("nan"), float("inf"), -float("inf"), -0.0, 1e-45, 3.4028235e38, 0.1, 1.0]
    with tracing():
        outputs = [leaf.constant(numbers, d) for d in (float32, float64)]
        outputs += [leaf.constant(True, bool_), leaf.constant([2**63 - 1, -(2**63)], int64), leaf.constant([], uint8)]
        values = (0.1, float("nan"), -0.0, 3, True)
        outputs += [create.full((2,), v, d) for v in values for d in DTYPES if d.kind == "f"]
    graph = Graph("g", (), (), tuple(outputs))
    assert_round_trip(graph)
    assert "constant [nan, inf, -inf, -0.0, 1e-45, 3.4028235e+38, 0.1, 1.0] : f32[8]" in to_text(graph)


def test_kinds_of_attributes_are_told_apart():
    with tracing():
        values = [create.full((2,), v, float32) for v in (1, 1.0, True, 0.0, -0.0)]
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            assert structurally_equal(Graph("g", (), (), (a,)), Graph("h", (), (), (b,))) == (i == j)


def test_types_may_be_left_out_where_rules_say_them():
    lines = [line.rpartition(" : ")[0] if " mul " in line or " add " in line else line for line in SMALL.split("\n")]
    assert structurally_equal(parse("\n".join(lines)), parse(SMALL))


def test_twenty_thousand_nodes():
    x = leaf.input("x", float32, (2,))
    with tracing():
        y = x
        for _ in range(20_000):
            y = ew.add(y, x)
    graph = Graph("deep", (x,), (), (y,))
    assert_round_trip(graph)
    del y
    del graph  # and is freed without recursion


ERRORS = {
    "": (1, 1, "expected 'graph'"),
    "graph g {\n": (2, 1, "expected a value such as %0"),
    "graph g {\n}": (2, 1, "'return'"),
    "graph g {\n  %0 = ex %1\n  return\n}": (2, 8, "expected an op's name, found 'ex' (did you mean 'exp'?)"),
    "graph g {\n  %0 = exp %1\n  return\n}": (2, 12, "expected a value defined above, found %1"),
    "graph g {\n  %0 = input 'x' : f32[]\n  return\n}": (2, 14, "expected a value, word"),
    'graph g {\n  %0 = input "x"\n  return\n}': (2, 8, "expected a type such as"),
    'graph g {\n  %0 = input "x" : f32[-1]\n  return\n}': (2, 24, "expected a size"),
    'graph g {\n  %0 = input "x" : f33[1]\n  return\n}': (2, 20, "expected a dtype such as f32, found 'f33'"),
    'graph g {\n  %0 = input "x" : f32[1]\n  %0 = exp %0\n  return\n}': (3, 3, "expected a new name"),
    'graph g {\n  %0 = input "x" : i64[1]\n  %1 = exp %0\n  return\n}': (3, 8, "expected a well-typed exp"),
    'graph g {\n  %0 = input "x" : f32[1]\n  %1 = exp %0 : f32[2]\n  return\n}': (3, 8, "expected type f32[1]"),
    'graph g {\n  %0 = input "x" : f32[1]\n  %1 = sum %0 axis=0\n  return\n}': (3, 15, "expected one of axes"),
    'graph g {\n  %0 = input "x" : f32[1]\n  %1 = sum %0\n  return\n}': (3, 8, "expected the attribute axes"),
    'graph g {\n  %0 = input "x" : f32[1]\n  %1 = add %0\n  return\n}': (3, 8, "expected 2 operands of add, found 1"),
    'graph g {\n  %0 = input "x" : f32[1]\n  update %0 = %0\n  return\n}': (3, 10, "expected a state"),
    "graph g {\n  %0 = constant 300 : u8[]\n  return\n}": (2, 8, "expected data that fits"),
    "graph g {\n  %0 = constant " + "[" * 9000: (2, 33, "expected a value such as 3"),
    "graph g {\n  %0 = constant " + "9" * 9000 + " : i64[]": (2, 17, "expected a shorter number"),
    "graph g {\n  return\n} more": (3, 3, "expected nothing after '}'"),
}


@pytest.mark.parametrize("text", ERRORS, ids=range(len(ERRORS)))
def test_errors_name_line_column_and_what_was_expected(text: str):
    with pytest.raises(ParseError) as caught:
        parse(text)
    line, column, problem = ERRORS[text]
    assert (caught.value.line, caught.value.column) == (line, column), str(caught.value)
    assert problem in caught.value.problem


def _mutated(text: str, rng: random.Random) -> str:
    words = ["graph", "input", "constant", "f32", "nan", "-", "1e999", "99999999999", "\u2028", "%0"]
    alphabet = [*'%{}[]=:,"#\n\\ 0', *words]
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(text) + 1), rng.randint(0, 12)
        if rng.random() < 0.3:
            start = rng.randrange(len(text))
            text = text[:at] + text[start : start + length] + text[at:]
        else:
            text = text[:at] + rng.choice(["", *alphabet]) + text[at + length :]
    return text


def test_mutated_text_gives_an_error_or_a_graph():
    rng = random.Random(0)
    sources = [SMALL, to_text(gpt_step(1))]
    parsed = 0
    for i in range(600):
        try:
            graph = parse(_mutated(sources[i % 10 == 0], rng))
        except ParseError:
            continue
        assert_round_trip(graph)
        parsed += 1
    assert parsed > 5  # some mutations only touch comments, names or literals


def test_every_op_has_a_signature_the_parser_can_use():
    from tinygrad_lite.ir.signature import signature

    for op in all_ops():
        sign = signature(op)
        assert sign.high is None or sign.low <= sign.high, op


def test_update_lines_keep_their_order():
    a, b = (leaf.state(n, float32, ()) for n in "ab")
    graph = Graph("g", (), (a, b), (), (Update(b, a), Update(a, b)))
    assert_round_trip(graph)
    assert np.array_equal([u.state.attrs["name"] for u in parse(to_text(graph)).updates], ["b", "a"])
