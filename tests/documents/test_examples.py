"""The section scripts run, print their tables, show what they claim, and leave pictures that are well-formed SVG."""

from __future__ import annotations

import runpy
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import tinygrad_lite as tl
from tests.documents.helpers import count_parameters
from tinygrad_lite import nn
from tinygrad_lite.models import build

FOLDER = Path(__file__).parent.parent.parent / "examples" / "documents"
SECTIONS = sorted(path.stem for path in FOLDER.glob("[ab][0-9]*.py"))
PICTURES = {
    "a00_shapes": ["a00_gpt"],
    "a01_depth": ["a01_decision_tree", "a01_folds"],
    "a03_convolution": ["a03_receptive_field", "a03_resnet", "a03_vgg"],
    "a04_pooling": ["a04_fpn", "a04_unet"],
    "a05_recurrence": ["a05_rnn"],
    "a06_gates": ["a06_highways"],
    "a07_attention": ["a07_attention", "a07_graph"],
    "a08_block": ["a08_block"],
    "a09_normalization": ["a09_axes"],
    "a13_activations": ["a13_activations"],
    "a14_wirings": ["a14_t5", "a14_wirings"],
    "b1_mlp": ["b1_mlp"],
    "b2_backpropagation": ["b2_tape"],
    "b3_activations": ["b3_activations"],
    "b4_normalization": ["b4_axes", "b4_blocks"],
    "b8_exercises": ["b8_tape"],
}


def last(rows):
    """The last number of each row."""
    return [row[-1] for row in rows]


def deeper_is_worse_but_for_residual_nets(found):
    (_, plain, residual), (_, deep_plain, deep_residual) = found["rows"]
    return deep_plain > 10 * plain and deep_residual < 3 * residual


# What the demonstrations must come to, by the names a script leaves behind.
CLAIMS = {
    "a03_convolution": lambda found: last(found["rows"])[0] < 0.9 < 0.97 < last(found["rows"])[1],
    "a04_pooling": lambda found: found["accuracy"] > 0.97,
    "a06_gates": lambda found: last(found["rows"])[1] < 0.5 < 1.2 < last(found["rows"])[0],
    "a08_block": lambda found: last(found["rows"])[0] < 0.7 * last(found["rows"])[1],
    "a10_residual": deeper_is_worse_but_for_residual_nets,
    "a14_wirings": lambda found: (found["written"] == found["target"]).float().mean().item() > 0.9,
    "b1_mlp": lambda found: found["accuracy"].item() > 0.97,
    "b5_residual": lambda found: last(found["rows"])[1] < last(found["rows"])[0] / 5,
}


@pytest.fixture
def scripts(monkeypatch):
    """The scripts' folder on the path, their shared modules forgotten afterwards."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in ("show", "diagrams", "trees"):
        sys.modules.pop(name, None)


def test_every_section_has_a_script():
    assert [name.split("_")[0] for name in SECTIONS] == [f"a{i:02}" for i in range(17)] + [f"b{i}" for i in range(1, 9)]


@pytest.mark.parametrize("name", SECTIONS)
def test_script(name, scripts, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, str(tmp_path)])
    found = runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.count("\n---") >= 2, "no headings"
    assert "nan" not in printed.split()
    assert name not in CLAIMS or CLAIMS[name](found)
    assert sorted(path.stem for path in tmp_path.iterdir()) == PICTURES.get(name, [])
    for path in tmp_path.iterdir():
        root = ElementTree.parse(path).getroot()
        assert root.tag.endswith("svg") and root.findall(".//{*}g[@class='node']")


# The eleven diagrams, by what must be in them


@pytest.fixture
def diagrams(scripts):
    import diagrams

    return diagrams


def statements(dot):
    """Nodes and edges that a source declares or implies."""
    edges = [line.strip() for line in dot.source.splitlines() if "->" in line]
    ends = {end.split("[")[0].strip().strip('"') for e in edges for end in e.split("->")}
    return ends, edges


def test_decision_tree(diagrams):
    nodes, edges = statements(diagrams.decision_tree())
    assert len(nodes) == 6 and len(edges) == 5
    assert all(text in diagrams.decision_tree().source for leaf in diagrams.LAYERS.values() for text in leaf)


def test_receptive_field_chain(diagrams):
    from tinygrad_lite.models.arithmetic import receptive_field

    stack = [(3, 1), (3, 1), (2, 2)] * 3 + [(3, 1), (3, 1)]
    dot = diagrams.field_chain(stack, receptive_field(stack))
    nodes, edges = statements(dot)
    assert len(nodes) == 12 and len(edges) == 11
    assert dot.source.count(diagrams.ORANGE) == 3
    assert "r=68, j=8" in dot.source and "r=6, j=2" in dot.source


def test_highways(diagrams):
    source = diagrams.highways().source
    assert "2.7e-08" in source and "0.37" in source and source.count("subgraph") == 2
    assert "0.0059" in diagrams.highways(forget=0.95).source


def test_pipeline(diagrams):
    nodes, edges = statements(diagrams.attention_pipeline())
    assert len(nodes) == 9 and len(edges) == len(diagrams.PIPELINE) == 9
    graph = tl.trace(lambda q, k, v: ((q @ k.transpose(-2, -1)) / 2.0).softmax(-1) @ v, *[tl.zeros(1, 4, 4)] * 3)
    names = [node.op.name for node in graph.nodes]
    assert names.count("matmul") == 2 and names.index("matmul") < names.index("exp") < len(names) - 1


@pytest.mark.parametrize("variant, norms", [("pre", 2), ("post", 2), ("sandwich", 4)])
def test_block(diagrams, variant, norms):
    dot = diagrams.block(variant)
    assert dot.source.count("label=norm ") == norms
    assert dot.source.count("style=bold") == 2
    free = variant != "post"  # a way from input to output that passes no norm
    edges = [tuple(e.strip().strip('"') for e in line.split("[")[0].split("->")) for line in statements(dot)[1]]
    reached = {f"{variant} x"}
    for _ in edges:
        reached |= {b for a, b in edges if a in reached and "norm" not in b.removeprefix(variant)}
    assert (f"{variant} out" in reached) == free


def test_unknown_block(diagrams):
    with pytest.raises(ValueError, match="'pre', 'post' or 'sandwich', not 'mid'"):
        diagrams.block("mid")


def test_wirings(diagrams):
    source = diagrams.wirings().source
    assert source.count("subgraph") == 3 and len(statements(diagrams.wirings())[0]) == 9


def test_tape(diagrams):
    source = diagrams.tape().source
    for value in ("0.7616", "-1.1424", "2.2949", "-2.1424", "3.2136", "1.3496", "2.6992", "-1.6316"):
        assert value in source, value
    assert source.count("cached") == 5


def test_activation_shapes(diagrams):
    source = diagrams.activations().source
    assert all(text in source for text in ("ReLU, lowest 0.000", "GELU, lowest -0.170", "SiLU, lowest -0.278"))


def test_norm_axes(diagrams):
    source = diagrams.norm_axes(tl.arange(12).float().reshape(3, 4)).source
    assert "BatchNorm: 4 means" in source and "LayerNorm: 3 means" in source
    assert source.count("<td bgcolor") == 24


def test_any_model(diagrams, tmp_path):
    """Every parameter once."""
    net = build("mlp-tiny")
    path = diagrams.model(net, tl.zeros(2, 2), path=tmp_path / "net.svg", ops=True)
    text = path.read_text()
    assert text.count("weight") == text.count("bias") == 3 and count_parameters(net) == 354


def test_a_lone_layer_is_a_model(diagrams, tmp_path):
    assert "matmul" in diagrams.model(nn.Linear(2, 3), tl.zeros(1, 2), path=tmp_path / "layer.svg").read_text()
