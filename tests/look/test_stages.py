"""Every stage in every form: what prints, what reads back, what it says about groups, places and shares."""

import json
import re

import networkx as nx
import pytest

import tinygrad_lite as tl
import tinygrad_lite.nn.functional as F
from tinygrad_lite import nn, optim, viz
from tinygrad_lite.errors import UserError
from tinygrad_lite.ir.equality import first_difference
from tinygrad_lite.ir.export import from_dict
from tinygrad_lite.ir.text import parse
from tinygrad_lite.stages import STAGES

GRAPH_STAGES = STAGES[:3]


@pytest.fixture(scope="module")
def step():
    tl.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @tl.compile
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    x = tl.randn(100, 2)
    step(x, (x[:, 0] > 0).long())
    return step


@pytest.mark.parametrize("stage", GRAPH_STAGES)
def test_text_and_json_read_back(step, stage):
    shown = step.graph(stage)
    graph = getattr(shown, "graph", shown)
    assert first_difference(parse(str(shown)), graph) is None
    assert first_difference(parse(shown.to_text(comments=False)), graph) is None
    assert first_difference(from_dict(json.loads(shown.to_json())), graph) is None


@pytest.mark.parametrize("stage", STAGES)
def test_every_form_of_every_stage(step, stage, tmp_path, capsys):
    shown = step.graph(stage)
    assert shown.to_dot().startswith("digraph")
    assert "</svg>" in shown.to_svg()
    assert shown.to_png().startswith(b"\x89PNG")
    assert json.loads(shown.to_json(indent=1))["format"].startswith("tinygrad_lite.")
    assert isinstance(shown.to_networkx(), nx.DiGraph)
    assert "</svg>" in shown._repr_svg_() and shown._repr_html_().startswith("<div")
    shown.print()
    assert capsys.readouterr().out == shown.to_text() == str(shown)
    for extension in (".txt", ".json", ".dot", ".svg", ".png"):
        assert shown.save(tmp_path / f"{stage}{extension}").stat().st_size > 100
    with pytest.raises(UserError, match=r"cannot write a graph as \.pdf: use \.svg, \.png"):
        shown.save(tmp_path / "x.pdf")


def test_a_saved_graph_is_read_again(step, tmp_path):
    for stage in GRAPH_STAGES:
        shown = step.graph(stage)
        for extension in ("txt", "json"):
            again = viz.load(shown.save(tmp_path / f"{stage}.{extension}"))
            assert first_difference(again, getattr(shown, "graph", shown)) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "no UTF-8"),
        (b"graph g {\n  %0 = ex\n}", "line 2, column 8: expected an op's name, found 'ex'"),
        (b"{", "expected JSON"),
        (b"{}", "not a graph: expected an object whose 'format'"),
        (b"[" * 100_000, "expected 'graph'"),
        (b"{" + b'"a":{' * 100_000, "expected JSON"),
    ],
)
def test_a_file_that_is_no_graph(tmp_path, content, message):
    path = tmp_path / "x.txt"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        viz.load(path)
    assert message in str(caught.value)
    with pytest.raises(UserError, match="cannot read"):
        viz.load(tmp_path / "none.txt")


def test_an_unknown_stage_lists_those_there_are(step):
    with pytest.raises(ValueError, match="no stage 'baked'; there are traced, optimised, scheduled, kernels, tape"):
        step.graph("baked")


def test_the_schedule_says_groups_places_and_costs(step):
    text = step.graph("scheduled").to_text()
    assert re.search(r"# group 0: matmul over \[100, 16\], 6\.4 kFLOP, 7\.33 kB  forward 0\n", text)
    assert re.search(r"= where .* : f32\[100,16\]  # → arena\+\d+; 1 test_stages", text)
    assert "# → register" in text
    assert re.search(r"= sub .*# → 0\.weight; optimiser", text)
    assert "# arena " in text
    schedule = json.loads(step.graph("scheduled").to_json())["schedule"]
    assert {g["kind"] for g in schedule["groups"]} == {"matmul", "loops"}
    assert schedule["arena"]["size"] >= schedule["arena"]["live"] > 0


def test_the_tape_says_shares_barriers_and_buffers(step):
    tape = step.graph("tape")
    lines = str(tape).splitlines()
    data = tape.to_dict()
    assert lines[0].startswith(f"tape step: {len(data['instructions'])} instructions")
    assert sum(line.startswith("  ---- barrier") for line in lines) == sum(i["barrier"] for i in data["instructions"])
    assert any(re.search(r"mul_sub +\[0,32\)  0\.weight ← optimiser:cast@", line) for line in lines)
    for instruction in data["instructions"]:
        covered = sum(high - low for low, high in instruction["parts"])
        assert covered > 0 and instruction["flops"] >= 0 and instruction["bytes"] > 0


def test_kernels_are_shown_as_loop_nests_and_source(step):
    kernels = step.graph("kernels")
    assert "for r in lo..hi" in str(kernels)
    assert "def kernel(args, lo, hi, worker):" in kernels.to_text(source=True)
    users = [i for k in kernels.to_dict()["kernels"] for i in k["instructions"]]
    assert sorted(users) == list(range(len(step.graph("tape").to_dict()["instructions"])))


def test_what_eager_recorded():
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    loss = F.cross_entropy(model(tl.randn(3, 2)), tl.tensor([0, 1, 1]))
    graph = loss.graph(model)
    assert [s.attrs["name"] for s in graph.states] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert first_difference(parse(str(graph)), graph) is None
    assert "</svg>" in graph.to_svg()
    unnamed = [s.attrs["name"] for s in loss.graph().states]
    assert unnamed == ["0.weight0", "0.weight1", "2.weight0", "2.weight1"]
    loss.backward()
    assert first_difference(loss.graph(model), graph) is None
    assert len(tl.zeros(3).graph()) == 1


def test_trace_takes_functions_modules_and_matrices():
    model = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5)).train()
    assert tl.trace(model, tl.zeros(3, 2)).name == "Sequential"
    assert "uniform" not in str(tl.trace(model, tl.zeros(3, 2)))
    assert "uniform" in str(tl.trace(model, tl.zeros(3, 2), train=True))
    assert model.training
    assert tl.trace(lambda a, b: a + b, tl.zeros(3), tl.zeros(3)).outputs[0].op.name == "add"
    assert tl.trace(tl.eye(3)).item() == 3
