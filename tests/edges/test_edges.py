"""Every row of docs/edge_cases.md: eager, compiled, as PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.edges.edge import Edge
from tests.edges.table import DOCUMENT, EDGES, document

ROWS = [pytest.param(e, id=f"{e.family}: {e.case}") for e in EDGES]
rows = pytest.mark.parametrize("edge", ROWS)


def test_the_document_is_the_table():
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run python -m tests.edges.table"


def test_rows_are_told_apart():
    names = [(e.family, e.case) for e in EDGES]
    assert len(set(names)) == len(names)
    assert all(e.torch or e.note for e in EDGES)
    assert all("|" not in e.case + e.outcome + e.note for e in EDGES)


def tensors(T: Any, edge: Edge) -> list[Any]:
    return [T.tensor(a) for a in edge.arrays()]


def results(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


def values(T: Any, edge: Edge) -> Any:
    return lambda *inputs: results(edge.run(T, *inputs))


def gradients(T: Any, edge: Edge) -> Any:
    def run(*inputs: Any) -> list[Any]:
        leaves = [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]
        total = sum(r.sum() for r in results(edge.run(T, *leaves)) if r.requires_grad)
        total.backward()
        return [x.grad for x in leaves if x.is_floating_point()]

    return run


def array(t: Any) -> np.ndarray:
    return np.asarray((t.detach().float() if str(t.dtype).endswith("float16") else t.detach()).numpy())


def check(found: list[Any], expected: Any, rtol: float, signs: bool) -> None:
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(found) == len(expected)
    for got, want in zip(found, expected, strict=True):
        a, b = array(got), np.asarray(want)
        assert a.shape == b.shape or a.size == b.size == 0
        if b.size:
            np.testing.assert_allclose(a, b.astype(a.dtype), rtol=rtol)
        if b.size and signs and b.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(a) & (a == 0), np.signbit(b) & (b == 0))


def run_edge(T: Any, edge: Edge, wrapped: Any) -> None:
    if edge.raises:
        with pytest.raises(edge.raises[0], match=edge.raises[1]):
            wrapped(values(T, edge))(*tensors(T, edge))
        return
    rtol = edge.rtol
    if edge.value is not None:
        check(wrapped(values(T, edge))(*tensors(T, edge)), edge.value, rtol, True)
    if edge.grads is not None:
        check(wrapped(gradients(T, edge))(*tensors(T, edge)), tuple(edge.grads), rtol, False)


@rows
def test_eager(edge):
    run_edge(tl, edge, lambda f: f)


@rows
def test_compiled(edge):
    if not edge.captures:
        with pytest.raises(tl.CaptureError):
            tl.compile(values(tl, edge))(*tensors(tl, edge))
        return
    run_edge(tl, edge, tl.compile)


@pytest.mark.torch
@pytest.mark.parametrize("edge", [r for r in ROWS if r.values[0].torch])
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_as_pytorch(edge):
    torch = pytest.importorskip("torch")
    if edge.raises:
        with pytest.raises((edge.raises[0], RuntimeError, IndexError, TypeError, ValueError)):
            values(torch, edge)(*tensors(torch, edge))
        return
    run_edge(torch, edge, lambda f: f)
