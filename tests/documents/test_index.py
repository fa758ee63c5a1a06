"""docs/documents.md names every system and figure, with code and tests that exist."""

from __future__ import annotations

import ast
import inspect

import pytest

import tinygrad_lite as tl
from tests.documents import index
from tinygrad_lite import nn, optim
from tinygrad_lite.models import encoder, t5


def test_every_system_is_listed():
    assert [row.number for row in index.rows()] == list(range(1, index.SYSTEMS + 1))
    assert set(index.PENDING) <= set(range(1, index.SYSTEMS + 1))


@pytest.mark.parametrize("row", index.rows(), ids=lambda row: str(row.number))
def test_a_system_has_code_and_tests(row):
    if row.number in index.PENDING:
        return
    assert row.name and row.section.startswith(("A", "B")) and row.code and row.tests
    for code in row.code:
        assert index.resolve(code) is not None
    for test in row.tests:
        assert index.located(test)


def test_every_figure_is_a_test():
    assert len(index.ids()) == 219
    assert set(index.tests_of_figures()) == set(index.ids())


def test_corrections_are_held_by_figures():
    assert {figure for *_, figure in index.CORRECTIONS} <= set(index.ids())


def test_choices_have_code():
    for _, _, code in index.CHOICES:
        for reference in code.split():
            assert index.resolve(reference) is not None


def test_chosen_defaults():
    def default(what, name):
        return inspect.signature(what).parameters[name].default

    assert default(nn.LeakyReLU, "negative_slope") == 0.01
    assert {default(kind, "eps") for kind in (nn.LayerNorm, nn.BatchNorm1d, nn.GroupNorm)} == {1e-5}
    assert nn.RMSNorm(2, eps=None)(tl.full((2,), 0.0)).tolist() == [0.0, 0.0] and default(nn.RMSNorm, "eps") is None
    assert (encoder.EncoderConfig().eps, t5.T5Config().eps) == (1e-12, 1e-6)
    assert default(nn.BatchNorm1d, "momentum") == 0.1
    assert default(nn.SinusoidalPositions, "base") == default(nn.RotaryPositions, "base") == 10_000
    assert (default(optim.Adam, "betas"), default(optim.Adam, "eps")) == ((0.9, 0.999), 1e-8)
    at_one, at_minus_infinity = nn.SELU()(tl.tensor([1.0, -100.0])).tolist()
    assert (at_one, at_minus_infinity) == pytest.approx((1.0507, -1.0507 * 1.6733), rel=1e-4)


def test_the_cheat_sheet_names_what_shows_each_symptom():
    tree = ast.parse((index.EXAMPLES / "a16_cheat_sheet.py").read_text())
    (sheet,) = [n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "SHEET"]
    for *_, shown in ast.literal_eval(sheet):
        script, figure = shown.split(", ")
        assert list(index.EXAMPLES.glob(f"{script}_*.py")) and index.located(figure)


@pytest.mark.parametrize("reference", ["nn.Lineer", "models.nothing", "ex:a99_none", "ex:diagrams::nothing"])
def test_unknown_code_is_noticed(reference):
    with pytest.raises(LookupError):
        index.resolve(reference)


@pytest.mark.parametrize("reference", ["DEP-99", "test_nothing", "nn/test_none::test_x", "nn/test_init::test_none"])
def test_unknown_tests_are_noticed(reference):
    with pytest.raises(LookupError):
        index.located(reference)


def test_the_page_is_up_to_date():
    assert index.PAGE.read_text(encoding="utf-8") == index.page(), "run python tests/documents/index.py"
