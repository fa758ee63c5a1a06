"""The regression guard: each workload's program has the figures of benchmarks/figures.json, on any machine."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
GOLDEN = json.loads((BENCHMARKS / "figures.json").read_text())


@pytest.fixture(scope="module")
def figures():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("figures")
    for name in ("figures", "decode", "workload"):
        sys.modules.pop(name, None)


def test_all_workloads_are_guarded(figures):
    assert list(GOLDEN) == list(figures.NAMES)


@pytest.mark.parametrize("name", GOLDEN)
def test_figures_are_as_they_were(figures, name):
    changes = figures.differences({name: figures.figures_of(figures.graph_of(name))}, GOLDEN)
    assert not changes, "\n".join([*changes, "if this was meant: python benchmarks/figures.py --update"])


def test_they_do_not_depend_on_the_machine(figures, monkeypatch):
    import tinygrad_lite as tl
    from tinygrad_lite.backends.numba import packed

    graph = figures.graph_of("mlp")
    before = tl.get_num_threads()
    try:
        for lanes, threads in ((8, 1), (16, 3)):
            monkeypatch.setattr(packed, "lanes", lambda lanes=lanes: lanes)
            tl.set_num_threads(threads)
            assert figures.figures_of(graph) == GOLDEN["mlp"]
    finally:
        tl.set_num_threads(before)


def test_differences_are_told_one_a_line(figures):
    found = {"a": {"kernels": 11, "arena": 5}, "b": {"kernels": 1}}
    golden = {"a": {"kernels": 10, "arena": 5, "moved": 3}}
    lines = figures.differences(found, golden)
    assert lines == ["a: kernels was 10, is 11 (+10.0%)", "a: moved was 3, is None", "b: kernels was None, is 1"]
