"""What a drawing shows and what it leaves out; the DOT it becomes; the files that viz writes."""

import re
import time

import pytest
from hypothesis import given, settings

from tests.ir.samples import gpt_forward, gpt_step, mlp_step, tracing
from tests.strategies import Case, cases
from tinygrad_lite import viz
from tinygrad_lite.errors import UserError
from tinygrad_lite.ir.diagram import diagram
from tinygrad_lite.ir.dot import to_dot
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.text import parse
from tinygrad_lite.ir.types import float32
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import leaf
from tinygrad_lite.viz import renderer


def labels(drawn) -> list[str]:
    return [box.label for box in drawn.boxes.values()]


def test_constants_and_relabelling_are_not_boxes():
    x = leaf.input("x", float32, (2, 3))
    with tracing():
        y = ew.mul(x, 0.1)
    assert labels(diagram(Graph("g", (x,), (), (y,)))) == ["x\nf32[2,3]", "mul 0.1", "output 0\nf32[2,3]"]


def test_movement_can_be_drawn():
    x, w = leaf.input("x", float32, (2, 3)), leaf.state("w", float32, (3,))
    with tracing():
        graph = Graph("g", (x,), (w,), (ew.mul(x, w),))
    assert "expand" not in labels(diagram(graph))
    assert "expand" in labels(diagram(graph, movement=True))


@pytest.mark.parametrize("optimised", [False, True])
@pytest.mark.parametrize("build", [gpt_forward, gpt_step])
def test_repeated_blocks_are_drawn_once(build, optimised: bool):
    graph, shorter = (pipeline.run(g) if optimised else g for g in (build(6), build(3)))
    drawn = diagram(graph)
    assert len(drawn.boxes) <= 80
    prefix = ("forward",) if drawn.by_phase else ()
    assert drawn.folded[(*prefix, "blocks", "0")] == (6, "5")
    assert len(drawn.boxes) == len(diagram(shorter).boxes)
    assert any("drawn once (× 6)" in note for note in drawn.notes)


def test_single_operations_of_a_folded_model():
    drawn = diagram(gpt_forward(4), cap=200)
    assert labels(drawn).count("erf") == 1
    assert "weight\nf32[24,8]" in labels(drawn)  # attn.qkv.weight, named within its module's frame
    assert sum(edge.kind == "carried" for edge in drawn.edges.values()) >= 1
    assert len(diagram(gpt_forward(4), cap=10_000, fold=False).boxes) > 2.5 * len(drawn.boxes)


def test_a_summary_counts_parameters_and_kept_values():
    text = "\n".join(labels(diagram(gpt_step(2))))
    assert "fc\nmatmul, add\n288 parameters" in text
    assert re.search(r"reads \d+ forward values", text)
    assert "updates" in text


def test_a_summary_has_no_cycles_within_a_phase():
    import networkx as nx

    drawn = diagram(gpt_step(2))
    flow = nx.DiGraph(pair for pair, edge in drawn.edges.items() if edge.kind == "data")
    assert nx.is_directed_acyclic_graph(flow)


def test_more_modules_than_the_cap_are_left_out_and_said_so():
    x = leaf.input("x", float32, ())
    y = x
    for i in range(50):
        with tracing(f"part{'abcdefghij'[i % 10]}{'abcde'[i // 10]}"):
            y = ew.exp(y)
    drawn = diagram(Graph("g", (x,), (), (y,)), cap=20)
    assert len(drawn.boxes) == 20
    assert "boxes left out" in drawn.notes[-1]


def test_a_step_of_forty_eight_layers_draws_in_seconds(tmp_path):
    graph = gpt_step(48)
    start = time.perf_counter()
    viz.draw(graph, tmp_path / "step.svg")
    assert time.perf_counter() - start < 5


def test_names_cannot_break_out_of_labels():
    name = 'a"]; evil [label="\\N <b>&\n\x00'
    x = leaf.input(name, float32, ())
    with tracing('"];\\'):
        graph = Graph(name, (x,), (), (ew.exp(x),))
    source = to_dot(graph)
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", source)  # what is not within a quoted string
    assert "evil" not in outside
    assert "&" not in outside
    assert "\x00" not in source


@settings(max_examples=60, deadline=None)
@given(cases())
def test_any_graph_becomes_dot(case: Case):
    for options in ({}, {"cap": 3}, {"depth": 1}, {"movement": True, "fold": False}):
        assert to_dot(case.graph, **options).startswith("digraph")


def test_deep_graphs_and_scopes_are_drawn():
    x = leaf.input("x", float32, ())
    with tracing(".".join("abc" * 500)):
        y = x
        for _ in range(20_000):
            y = ew.add(y, x)
    assert len(diagram(Graph("deep", (x,), (), (y,))).boxes) < 10


@pytest.mark.skipif(viz.renderer_program() is None, reason="nothing to draw with")
@pytest.mark.parametrize("extension", viz.EXTENSIONS)
def test_files_by_extension(tmp_path, extension: str):
    path = tmp_path / "deeper" / f"step{extension}"
    assert viz.draw(mlp_step(), path) == path
    content = path.read_bytes()
    starts = {
        ".png": b"\x89PNG",
        ".svg": b"<?xml",
        ".dot": b"digraph",
        ".json": b"{",
        ".txt": b"graph",
        ".html": b"<!doctype",
    }
    assert content.startswith(starts[extension])
    assert list(path.parent.iterdir()) == [path]  # no temporary file stays
    if extension == ".txt":
        parse(content.decode())


def test_an_unknown_extension_lists_the_known(tmp_path):
    with pytest.raises(UserError, match=r"cannot write a graph as \.pdf: use \.svg, \.png, \.dot, \.txt, \.json"):
        viz.draw(mlp_step(), tmp_path / "x.pdf")


def test_without_a_renderer_the_source_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(renderer, "renderer_program", lambda: None)
    with pytest.raises(viz.NoRenderer, match="pip install graphviz-pure") as caught:
        viz.draw(mlp_step(), tmp_path / "x.svg")
    assert caught.value.kept == tmp_path / "x.dot"
    assert caught.value.kept.read_text().startswith("digraph")


def test_a_failing_renderer_leaves_no_file(tmp_path):
    if viz.renderer_program() is None:
        pytest.skip("nothing to draw with")
    with pytest.raises(UserError):
        viz.render("this is not DOT {", tmp_path / "x.svg")
    assert not list(tmp_path.iterdir())
