"""The benchmark programs: their arithmetic, and that a workload runs as a child process."""

import importlib.util
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def compare(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("benchmarks_compare", BENCHMARKS / "compare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("workload", None)


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
