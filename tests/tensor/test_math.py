"""The table of tests/tensor/math_calls.py: compiled as eager, and both as PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.tensor.math_calls import CALLS, Call

pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom")
cases = pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CALLS])


def results(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


def tensors(case: Call, T: Any, grad: bool) -> list[Any]:
    made = [T.tensor(a) for a in case.arrays]
    for t in made:
        if grad and t.is_floating_point():
            t.requires_grad_()
    return made


def loss(T: Any, found: list[Any]) -> Any:
    """A weighted sum of the finite floating results."""
    total = None
    for f in found:
        if f.requires_grad:
            weights = T.tensor(np.random.default_rng(4).normal(size=tuple(f.shape))).to(f.dtype)
            part = (f * weights).sum()
            total = part if total is None else total + part.to(total.dtype)
    return total


def gradients(case: Call, T: Any) -> list[Any]:
    inputs = tensors(case, T, True)
    total = loss(T, results(case.run(T, *inputs)))
    if total is None:
        return []
    total.backward()
    return [t.grad for t in inputs if t.requires_grad]


def array(t: Any) -> np.ndarray:
    return np.asarray((t.detach().float() if str(t.dtype).endswith("float16") else t.detach()).numpy())


def agree(ours: Any, theirs: Any, rtol: float | None = None) -> None:
    a, b = array(ours), array(theirs)
    assert (str(ours.dtype).split(".")[1], a.shape) == (str(theirs.dtype).split(".")[1], b.shape)
    if a.dtype.kind != "f":
        np.testing.assert_array_equal(a, b)
        return
    rtol = rtol or {2: 1e-3, 4: 3e-6, 8: 1e-9}[a.dtype.itemsize]
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol / 10 if a.dtype == np.float64 else 1e-6)


#: Variants whose kernels the other calls of a function compile as well: minutes of compilation.
VARIANTS = ("method", "broadcast", "in place", "number", "empty", "0-d", "no rows", "of nothing", "u8 i16", "int f32")
REPEATED = tuple(f" {variant}" for variant in VARIANTS)


def compiled(case: Call) -> Any:
    return pytest.param(case, id=case.id, marks=pytest.mark.slow if case.id.endswith(REPEATED) else ())


@pytest.mark.parametrize("case", [compiled(c) for c in CALLS])
def test_compiled_as_eager(case):
    if not case.captures:
        with pytest.raises(tl.CaptureError, match=r"math_calls.py:\d+"):
            tl.compile(lambda *x: case.run(tl, *x))(*tensors(case, tl, False))
        return

    def run(*inputs: Any) -> list[Any]:
        return results(case.run(tl, *inputs))

    inputs = tensors(case, tl, False)
    eager, compiled = run(*inputs), tl.compile(run)(*inputs)
    for a, b in zip(compiled, eager, strict=True):
        agree(a, b)


@cases
@pytest.mark.torch
def test_as_pytorch(case):
    torch = pytest.importorskip("torch")
    ours = results(case.run(tl, *tensors(case, tl, False)))
    theirs = results(case.run(torch, *tensors(case, torch, False)))
    for a, b in zip(ours, theirs, strict=True):
        agree(a, b, case.rtol)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CALLS if c.grad and c.arrays])
@pytest.mark.torch
def test_gradients_as_pytorch(case):
    torch = pytest.importorskip("torch")
    ours, theirs = gradients(case, tl), gradients(case, torch)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if b is None or a is None:
            assert all(g is None or not np.any(array(g)) for g in (a, b))
        else:
            agree(a, b, case.rtol)
