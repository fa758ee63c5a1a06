"""The generated documents: op tables of the records, the tour through every stage, the gallery's small pictures."""

import importlib.util
from pathlib import Path
from types import ModuleType

from tinygrad_lite import models

DOCS = Path(__file__).parents[2] / "docs"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_op_tables_are_up_to_date():
    text = (DOCS / "ir.md").read_text()
    assert text == script("op_tables").document(text), "run: make tables"


def test_the_tour_goes_through_every_stage():
    text = (DOCS / "tour.md").read_text()
    for heading in ("traced", "Passes", "optimised", "scheduled", "kernels", "tape"):
        assert f"\n## {heading}\n" in text
    assert "# group 0: " in text and "for r in lo..hi" in text and "arena+" in text and "---- barrier" in text


def test_the_gallery_has_every_family_in_small_pictures():
    drawn = script("gallery").PRESETS
    text = (DOCS / "gallery.md").read_text()
    for family in models.FAMILIES:
        assert set(family.PRESETS) & set(drawn), f"no preset of {family.__name__} is in docs/gallery.py"
    for name in drawn:
        assert f"](images/gallery/{name}.svg)" in text
        assert (DOCS / "images" / "gallery" / f"{name}.svg").stat().st_size < 120_000
