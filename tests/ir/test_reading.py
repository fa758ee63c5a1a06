"""Text for readers: folded scopes, costs, live memory; and the difference of two graphs."""

import re

import pytest

from tests.ir.samples import gpt_forward, gpt_step, tracing
from tests.ir.test_text import SMALL
from tinygrad_lite.ir.difference import diff
from tinygrad_lite.ir.equality import structurally_equal
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.reading import amount, levels, live_bytes, parts
from tinygrad_lite.ir.text import parse
from tinygrad_lite.ir.types import float32
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import leaf


def test_a_number_is_no_level():
    assert levels("blocks.3.mlp.fc") == ("blocks.3", "mlp", "fc")
    assert levels("0.1.conv2") == ("0.1", "conv2")
    assert levels("") == ()


def test_scopes_fold_to_a_line():
    graph = gpt_step(2)
    lines = graph.to_text(depth=1).splitlines()
    blocks = [line for line in lines if line.startswith("  # blocks.0: ") and "nodes" in line]
    assert len(blocks) == 1
    assert re.search(r"# blocks\.0: \d+ nodes, .*FLOP, .*B; reads %\d+; gives %\d+ : f32\[", blocks[0])
    assert any(line.startswith("  # backward blocks.1: ") for line in lines)
    assert any(line.startswith("  # optimiser: ") for line in lines)
    assert "  # blocks.0: 36 states of 2,616 numbers" in lines
    assert f"  # updates {len(graph.updates)} states" in lines
    assert len(lines) < 90
    assert len(graph.to_text(depth=0).splitlines()) < 12
    assert len(graph.to_text(depth=2).splitlines()) > len(lines)
    with pytest.raises(ValueError, match="depth must be 0 or more, not -1"):
        graph.to_text(depth=-1)


def test_costs_are_sums_over_the_scopes():
    graph = gpt_forward(2)
    found = {".".join(p.scope): p for p in parts(graph)}
    assert found[""].flops == sum(n.op.cost(n).flops for n in graph.nodes)
    inner = [p for name, p in found.items() if re.fullmatch(r"blocks\.0\.\w+", name)]
    own = [n for n in graph.nodes if n.location and n.location.scope == "blocks.0"]
    assert found["blocks.0"].flops == sum(p.flops for p in inner) + sum(n.op.cost(n).flops for n in own)
    text = graph.to_text(costs=True)
    assert re.search(r"#     blocks\.1 +\d+ +20\.8 k +71\.2 kB\n", text)
    assert structurally_equal(parse(text), graph)


def test_live_memory_stands_beside_each_line():
    x = leaf.input("x", float32, (100,))
    with tracing():
        a = ew.exp(x)
        b = ew.exp(a)
        c = ew.exp(b)
    graph = Graph("g", (x,), (), (c,))
    assert live_bytes(graph) == [0, 400, 800, 800]
    text = graph.to_text(memory=True, comments=False)
    assert "%2 = exp %1 : f32[100]  # live 800 B\n" in text
    assert structurally_equal(parse(text), graph)


@pytest.mark.parametrize(("n", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2.5e9, "2.5 GB")])
def test_amounts(n, text):
    assert amount(n, "B") == text


def test_a_difference_names_what_went_and_what_came():
    before = parse(SMALL)
    after = parse(SMALL.replace("%3 = mul %0, %2", "%3 = add %0, %2"))
    found = diff(before, after)
    assert found
    assert [n.op.name for n in found.removed] == ["mul"]
    assert [n.op.name for n in found.added] == ["add"]
    assert [n.op.name for n in found.rewired] == ["sum"]
    text = str(found)
    assert text.startswith("step → step: 8 → 8 nodes, 1 removed, 1 added, 1 rewired\n")
    assert "\n- %old3 = mul %0, %2 : f32[2,3]\n" in text
    assert "\n+ %3 = add %0, %2 : f32[2,3]\n" in text
    assert "\n~ %4 = sum %3 axes=[0, 1] : f32[1,1]\n" in text


def test_equal_graphs_do_not_differ():
    assert not diff(gpt_step(1), gpt_step(1))
    assert not diff(parse(SMALL), parse(SMALL))


def test_a_changed_result_is_a_difference():
    found = diff(parse(SMALL), parse(SMALL.replace("return %7, %6", "return %7")))
    assert [line.text for line in found.lines if line.mark == "-"] == ["return %7, %6"]
    assert [line.text for line in found.lines if line.mark == "+"] == ["return %7"]


def test_a_merged_duplicate_says_what_it_is_now():
    log = pipeline.PassLog()
    graph = gpt_step(1)
    pipeline.run(graph, observers=[log])
    first = log.passes[0].diff()
    assert first.removed and not first.added and not first.rewired
    assert "(is %" in str(first)
    counts = [(len(p.before), len(p.diff().removed), len(p.diff().added), len(p.after)) for p in log]
    assert all(before - removed + added == after for before, removed, added, after in counts)
    assert log.to_dict()[0]["hits"]["constant"] > 0


def test_a_difference_prints_in_colour():
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", width=200)
    diff(parse(SMALL), parse(SMALL.replace("mul", "add"))).print(console)
    assert "\x1b[31m- %old3 = mul" in out.getvalue()
    assert "\x1b[32m+ %3 = add" in out.getvalue()
