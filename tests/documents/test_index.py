"""docs/documents.md names every system and figure, with code and tests that exist."""

from __future__ import annotations

import pytest

from tests.documents import index


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
