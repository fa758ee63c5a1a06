"""Every stage of every family's tiny preset reads back, and 500 random programs; mutated text never crashes."""

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings

from tests.strategies import cases
from tinygrad_lite import models, viz
from tinygrad_lite.cli.targets import target
from tinygrad_lite.errors import UserError
from tinygrad_lite.ir.equality import first_difference
from tinygrad_lite.ir.export import FormatError, from_dict
from tinygrad_lite.ir.text import ParseError, parse
from tinygrad_lite.models.examples import example

TINY = [name for name in models.MODELS if "tiny" in name]


def assert_reads_back(shown) -> None:
    graph = getattr(shown, "graph", shown)
    assert first_difference(parse(str(shown)), graph) is None
    assert first_difference(from_dict(json.loads(shown.to_json())), graph) is None


@pytest.mark.parametrize("train", [False, True], ids=["inference", "train"])
@pytest.mark.parametrize("name", TINY)
def test_every_graph_stage_reads_back(name, train):
    what = target(name, train)
    for stage in ("traced", "optimised", "scheduled"):
        assert_reads_back(what.stage(stage))
    for stage in ("kernels", "tape"):
        shown = what.stage(stage)
        assert len(str(shown)) > 100 and json.loads(shown.to_json())


@pytest.mark.parametrize("name", TINY)
def test_every_family_has_an_architecture(name):
    model = models.build(name).eval()
    shown = viz.architecture(model, *example(model).inputs)
    drawn = shown.diagram()
    assert 3 <= len(drawn.boxes) <= 80
    ends = {key for edge in drawn.edges for key in edge}
    assert ends <= set(drawn.boxes)
    reached = {b for _, b in drawn.edges}
    assert all(key in reached for key in drawn.boxes if key[0] == "output")


@pytest.mark.slow
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_random_programs_read_back_at_every_stage(case):
    from tinygrad_lite.ir.passes import pipeline
    from tinygrad_lite.stages import Planned, stage_of

    optimised = pipeline.run(case.graph)
    for stage in ("traced", "optimised", "scheduled"):
        assert_reads_back(stage_of(stage, case.graph, optimised, Planned(optimised)))


@pytest.mark.slow
def test_ten_thousand_mutations_of_text():
    from tests.ir.test_text import SMALL, _mutated, assert_round_trip

    rng = random.Random(1)
    sources = [SMALL, str(target("mlp-tiny", True).stage("scheduled")), str(target("charrnn-tiny").traced())]
    read = 0
    for i in range(10_000):
        text = _mutated(sources[0 if i % 8 else 1 + i // 8 % 2], rng)
        try:
            graph = parse(text)
        except ParseError as error:
            assert error.line >= 1 and error.column >= 1 and error.problem
            continue
        assert_round_trip(graph)
        read += 1
    assert read > 100


@pytest.mark.slow
def test_ten_thousand_mutations_of_json():
    rng = random.Random(2)
    source = target("mlp-tiny").traced().to_json()
    pieces = ["null", "true", "-1", "1e999", '"x"', "[]", "{}", "[0]", '{"graph":{}}', '{"dtype":"f32"}', "9" * 30]
    for _ in range(10_000):
        text = source
        for _ in range(rng.randint(1, 3)):
            at, stop = (
                sorted(rng.randrange(len(text)) for _ in range(2))
                if rng.random() < 0.1
                else (rng.randrange(len(text)),) * 2
            )
            text = text[:at] + rng.choice(["", *pieces, text[at : at + 9]]) + text[stop + rng.randint(0, 4) :]
        try:
            from_dict(json.loads(text))
        except (FormatError, ValueError) as error:
            assert not isinstance(error, UserError) or str(error)
