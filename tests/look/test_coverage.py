"""docs/coverage.md says of no name that it is here when it is not; where torch is installed, the page is up to date."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coverage_page", DOCS / "coverage.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_names_said_to_be_here_are_here() -> None:
    page = (DOCS / "coverage.md").read_text(encoding="utf-8")
    make = generator()
    for theirs, ours in make.SPACES.items():
        section = page.split(f"\n## `{theirs}`\n", 1)[1].split("\n## ", 1)[0]
        here = re.search(r"^Here: (.*)$", section, re.MULTILINE).group(1)
        missing = set(re.findall(r"`(\w+)`", here)) - set(dir(make.resolve(ours)))
        assert not missing, f"{ours} lacks {sorted(missing)}: run python docs/coverage.py"


@pytest.mark.torch
def test_the_page_is_what_the_generator_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    make = generator()
    monkeypatch.setattr(make, "PAGE", tmp_path / "coverage.md")
    make.main()
    assert make.PAGE.read_text(encoding="utf-8") == (DOCS / "coverage.md").read_text(encoding="utf-8")
