"""view, summary, profile, explain, diff, and what the commands take: presets, module:callable, saved graphs."""

import json
import re

import pytest

from tinygrad_lite import models, viz
from tinygrad_lite.cli.app import run
from tinygrad_lite.cli.targets import target
from tinygrad_lite.ir.equality import first_difference
from tinygrad_lite.models.examples import example

USER = """
import tinygrad_lite as tl
from tinygrad_lite import nn

model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
pair = (model, tl.zeros(2, 3))
graph = tl.trace(model, tl.zeros(2, 3))
number = 3


class Raises(nn.Module):
    def forward(self, x):
        raise ValueError("not today\\nor tomorrow")


def make():
    return pair


def broken():
    return Raises(), tl.zeros(1)


def takes(x):
    return x


def wrong():
    return (lambda x: x @ x), tl.zeros(2, 3)
"""


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    import sys

    (tmp_path / "users_net.py").write_text(USER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "users_net"
    sys.modules.pop("users_net", None)


def lines(capsys):
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("stage", ["kernels", "tape"])
def test_the_late_stages_as_text(capsys, stage):
    assert run(["graph", "mlp-tiny", "--stage", stage]) == 0
    assert capsys.readouterr().out.startswith({"kernels": "# kernel 0", "tape": "tape MLP: "}[stage])


def test_text_options(capsys):
    assert run(["graph", "gpt-tiny", "--depth", "1", "--costs"]) == 0
    text = capsys.readouterr().out
    assert "# blocks.0: " in text and re.search(r"# scope +nodes", text)
    assert run(["graph", "gpt-tiny", "--memory"]) == 0
    assert "# live " in capsys.readouterr().out
    assert run(["graph", "gpt-tiny", "--stage", "tape", "--costs"]) == 2
    assert "costs" in capsys.readouterr().err


def test_a_picture_and_a_page(tmp_path):
    for form, start in (("png", b"\x89PNG"), ("html", b"<!doctype")):
        path = tmp_path / f"x.{form}"
        assert run(["graph", "mlp-tiny", "--format", form, "-o", str(path)]) == 0
        assert path.read_bytes().startswith(start)


def test_view_writes_a_page_and_says_where(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["view", "mlp-tiny", "--train"]) == 0
    assert lines(capsys) == ["mlp-tiny.html"]
    assert "<title>mlp-tiny</title>" in (tmp_path / "mlp-tiny.html").read_text()
    assert run(["view", "mlp-tiny", "--profile", "2", "-o", "deep/x.html"]) == 0
    assert (tmp_path / "deep" / "x.html").exists()


def test_summary_profile_and_explain(capsys, tmp_path):
    assert run(["summary", "resnet-tiny", "--depth", "1"]) == 0
    assert any("field / jump" in line for line in lines(capsys))
    assert run(["summary", "resnet-tiny", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["kind"] == "ResNet"
    assert run(["profile", "mlp-tiny", "--train", "--runs", "3", "--trace", str(tmp_path / "t.json")]) == 0
    assert "a run over 3" in capsys.readouterr().out
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert run(["profile", "mlp-tiny", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 10
    assert run(["explain", "mlp-tiny", "--train"]) == 0
    assert "not fused, so stored" in capsys.readouterr().out
    assert run(["explain", "mlp-tiny", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["captures"] == 1


def test_diff_of_stages_and_of_graphs(capsys, tmp_path):
    assert run(["diff", "gpt-tiny", "--to", "optimised"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("GPT → GPT: ") and "\n- %old" in text and "\n+ %" in text
    assert run(["diff", "gpt-tiny", "gpt-tiny"]) == 0
    assert "0 removed, 0 added" in capsys.readouterr().out
    assert run(["diff", "gpt-tiny", "llama-tiny", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["added"] > 0


def test_a_saved_graph_is_a_target(capsys, tmp_path):
    for extension in ("txt", "json"):
        path = tmp_path / f"saved.{extension}"
        form = {"txt": "text"}.get(extension, extension)
        assert run(["graph", "mlp-tiny", "--train", "--format", form, "-o", str(path)]) == 0
        assert run(["graph", str(path), "--stage", "scheduled"]) == 0
        assert "# group 0" in capsys.readouterr().out
        assert run(["profile", str(path), "--runs", "2"]) == 0
        assert run(["explain", str(path)]) == 0
        assert run(["view", str(path), "-o", str(tmp_path / "x.html")]) == 0
        assert first_difference(viz.load(path), target("mlp-tiny", True).traced()) is None
        capsys.readouterr()


@pytest.mark.parametrize("name", ["pair", "make", "graph"])
def test_the_users_own_code_is_a_target(capsys, user_module, name):
    assert run(["graph", f"{user_module}:{name}"]) == 0
    assert "matmul" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["graph", "users_net:none"], "users_net has no 'none'"),
        (
            ["graph", "users_net:number"],
            "gives a int; it must be, or return, a Graph, a Module, or (function, inputs…)",
        ),
        (["graph", "users_net:model"], "gives a model without inputs: let it return (model, *example_inputs)"),
        (["graph", "users_net:broken"], "raised ValueError: not today (at users_net.py:13 forward)"),
        (["profile", "users_net:wrong"], "users_net:wrong raised RuntimeError"),
        (["summary", "users_net:graph"], "is no model: a summary is of a Module"),
        (["graph", "not_a_module:x"], "there is no module 'not_a_module'"),
        (["graph", "none.txt"], "cannot read none.txt"),
        (["graph", "users_net.py"], "users_net.py is not a graph: line 5, column 22: expected a value"),
        (
            ["graph", "users_net:takes"],
            "users_net:takes takes arguments (missing a required argument: 'x'): name somethi",
        ),
        (["view", "mlp-tiny", "-o", "x.svg"], "a page is an .html file, not x.svg"),
        (["view", "mlp-tiny", "-o", "/dev/null/x.html"], "cannot write /dev/null/x.html"),
        (["profile", "mlp-tiny", "--trace", "/dev/null/x.json"], "cannot write /dev/null/x.json"),
        (["diff", "mlp-tiny"], "give two targets, or --to with another stage"),
        (["diff", "mlp-tiny", "--to", "tape"], "diff compares graphs"),
        (["explain", "nothing"], "no model is called 'nothing'; there are autoencoder"),
    ],
)
def test_bad_input_is_one_line_and_code_2(capsys, user_module, arguments, message):
    assert run(arguments) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and message in said[0], said


def test_no_renderer_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr("tinygrad_lite.viz.renderer.renderer_program", lambda: None)
    assert run(["graph", "mlp-tiny", "--format", "svg"]) == 2
    assert "no program to draw with; install Graphviz" in capsys.readouterr().err


@pytest.mark.parametrize("name", [n for n in models.MODELS if "tiny" in n])
def test_every_family_has_an_example(name):
    model = models.build(name)
    shown = example(model, 2)
    assert shown.loss(model, *shown.batch).shape == ()
    model.eval()(*shown.inputs)


def test_no_example_for_another_model():
    from tinygrad_lite import nn

    with pytest.raises(TypeError, match="no example input is known for a Linear"):
        example(nn.Linear(2, 2))
