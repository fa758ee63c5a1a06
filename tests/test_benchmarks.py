"""The benchmark programs: their arithmetic, and that a workload runs as a child process."""

import importlib
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import tinygrad_lite as tl

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    """Import a benchmark's module by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for path in BENCHMARKS.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def compare(load):
    return load("compare")


def result(ms, first=1.0):
    return {"ms": ms, "first_s": first, "growth_mb": 10.0, "losses": [1.0], "import_s": 0.1}


def test_the_ratio_is_that_of_medians_to_the_better_of_torch(compare):
    results = {
        "eager": [result(4.0), result(8.0), result(6.0)],
        "compile": [result(9.0)] * 3,
        "ours": [result(3.0, first=5.0), result(2.0, first=0.5), result(1.0, first=0.5)],
    }
    row = compare.summarise("moons", results)
    assert row["ratio"] == 3.0
    assert (row["ours"]["cold_s"], row["ours"]["warm_s"]) == (5.0, 0.5)
    assert not row["errors"]


def test_a_failed_side_has_no_ratio_and_still_a_line(compare):
    results = {"eager": [result(4.0)], "compile": [result(9.0)], "ours": [{"error": "AttributeError: nn.Conv2d"}]}
    row = compare.summarise("lenet", results)
    assert row["ratio"] is None
    assert row["errors"] == {"ours": "AttributeError: nn.Conv2d"}
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(compare.tabulate([row]))
    assert "lenet" in console.export_text()


def test_a_child_that_fails_is_reported_by_its_last_line(compare, tmp_path):
    assert "invalid choice" in compare.run_once(sys.executable, "no-such", "ours", 0.1, tmp_path)["error"]


def test_a_workload_runs(tmp_path):
    command = [
        sys.executable,
        str(BENCHMARKS / "workload.py"),
        "moons",
        "--library",
        "tinygrad_lite",
        "--seconds",
        "0.1",
    ]
    line = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    figures = json.loads(line)
    assert figures["parameters"] == 2 * 16 + 16 + 16 * 16 + 16 + 16 * 2 + 2
    assert figures["losses"][-1] < figures["losses"][0]


def test_shares_add_up_to_the_step(load, compare):
    report = load("report")
    w = tl.randn(64, 64)
    step = tl.compile(lambda x: (x @ w).relu().sum())
    step(tl.randn(64, 64))
    found = report.details(step, 1e-3)
    assert sum(found["shares"].values()) == pytest.approx(1, abs=1e-3)
    assert found["shares"]["products"] > 0 and found["shares"]["kernels"] > 0 and found["shares"]["attention"] == 0
    assert found["shares"]["python"] > 0.5, "a millisecond is far more than the tape takes"
    row = compare.summarise("moons", {"ours": [result(1.0) | found]})
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(compare.tabulate_shares([row, {"name": "without"}]))
    text = console.export_text()
    assert "moons" in text and "without" not in text and f"{100 * found['shares']['python']:.1f}" in text


def test_the_roofline_is_drawn(load, tmp_path):
    step = tl.compile(lambda x: (x @ x).exp().sum())
    step(tl.randn(64, 64))
    load("report").roofline(step.profile(2), tmp_path / "roofline.svg")
    text = (tmp_path / "roofline.svg").read_text()
    assert "GFLOP/s" in text


def test_exponents_of_growth(load, tmp_path):
    scaling = load("scaling")
    points = [scaling.Point(n, 1e-3 * n, 100 * n * n) for n in (1, 2, 4, 8)]
    assert scaling.exponents(points) == pytest.approx([0.5] * 3)
    points = [scaling.Point(n, 5e-6 * n**3, 100 * n**2) for n in (1, 2, 4, 8)]
    assert scaling.overall(points) == pytest.approx(1.5)
    scaling.draw({"batch": points, "T": points}, tmp_path / "scaling.svg")
    assert "FLOPs" in (tmp_path / "scaling.svg").read_text()


@pytest.mark.slow
def test_decoding_writes_the_same_text_either_way(load):
    decode = load("decode")
    values = decode.weights(np.random.default_rng(0))
    (native, _), (eager, _) = decode.ours(True, values), decode.ours(False, values)
    text = native()
    assert text == eager() and len(text) == decode.BLOCK and len(set(text)) > 8
