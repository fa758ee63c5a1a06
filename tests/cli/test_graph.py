"""`tinygrad-lite graph`: every stage in every form."""

import json

import pytest

from tinygrad_lite.cli.app import run


@pytest.mark.parametrize("stage", ["traced", "optimised", "scheduled"])
@pytest.mark.parametrize("part", ["--train", "--inference"])
def test_text_of_each_stage(capsys, stage, part):
    assert run(["graph", "gpt-nano", "--stage", stage, part, "--batch", "2"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("graph ")
    assert "i64[2,64]" in text
    assert ("update" in text) == (part == "--train")


def test_each_form(capsys, tmp_path):
    def written(form):
        assert run(["graph", "gpt-nano", "--format", form]) == 0
        return capsys.readouterr().out

    assert written("dot").startswith("digraph")
    assert "</svg>" in written("svg")
    assert json.loads(written("json"))["nodes"]
    assert run(["graph", "gpt-nano", "-o", str(tmp_path / "graph.txt")]) == 0
    assert (tmp_path / "graph.txt").read_text() == written("text")
    for extension, form in ((".svg", "svg"), (".DOT", "dot"), (".json", "json")):  # by the file's name
        path = tmp_path / f"graph{extension}"
        assert run(["graph", "gpt-nano", "-o", str(path)]) == 0
        assert path.read_text() == written(form)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["gpt-huge"], "no model is called 'gpt-huge'; there are autoencoder, autoencoder-tiny"),
        (["gpt-nano", "--stage", "baked"], "'baked' is not one of"),
        (["gpt-nano", "--format", "pdf"], "'pdf' is not one of"),
        (["gpt-nano", "-o", "graph.pdf"], "it is none of .txt, .dot, .svg, .png, .json, .html; give --format"),
        (["gpt-nano", "-o", "/dev/null/graph.txt"], "cannot write /dev/null/graph.txt"),
    ],
)
def test_bad_input_is_one_line_and_code_2(capsys, options, message):
    assert run(["graph", *options]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert message in lines[0]
