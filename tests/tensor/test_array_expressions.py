"""Movement, indexing and linear algebra: compiled = eager, and as PyTorch, which the tests marked torch need."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.tensor.array_errors import ERRORS
from tests.tensor.array_expressions import (
    CONTRACTIONS,
    EAGER_ONLY,
    INDEXING,
    LINALG,
    LINALG_EAGER_ONLY,
    MATRICES,
    MOVEMENT,
    SMALL,
)
from tinygrad_lite.nn import functional

TABLES = [(MOVEMENT, SMALL), (INDEXING, SMALL), (CONTRACTIONS, MATRICES), (LINALG, MATRICES)]
CASES = [pytest.param(f, arrays, id=name.replace(" ", "_")) for table, arrays in TABLES for name, f in table.items()]
READS_VALUES = EAGER_ONLY | LINALG_EAGER_ONLY
CAPTURED = [c for c in CASES if c.id.replace("_", " ") not in {n.replace("_", " ") for n in READS_VALUES}]
REFUSED = [c for c in CASES if c not in CAPTURED]


def _step(f):
    def step(*leaves):
        out = f(tl, functional, *leaves)
        weights = tl.cos(tl.arange(out.numel()).to(out.dtype)).reshape(out.shape)
        grads = tl.autograd.grad((out * weights).sum(), leaves, allow_unused=True, materialize_grads=True)
        return out.detach(), *grads

    return step


def _leaves(lib, arrays):
    return [lib.tensor(a, requires_grad=True) for a in arrays.values()]


def _close(ours, expected, dtype):
    loose = {"rtol": 3e-5, "atol": 5e-6} if dtype == np.float32 else {"rtol": 1e-8, "atol": 1e-9}
    np.testing.assert_allclose(ours, expected, **loose)


@pytest.mark.parametrize("f, arrays", CAPTURED)
def test_compiled_as_eager(f, arrays):
    step = _step(f)
    for ours, expected in zip(tl.compile(step)(*_leaves(tl, arrays)), step(*_leaves(tl, arrays)), strict=True):
        assert ours.dtype is expected.dtype and ours.shape == expected.shape
        _close(ours.numpy(), expected.numpy(), ours.dtype.numpy)


@pytest.mark.parametrize("f, arrays", REFUSED)
def test_what_reads_values_names_the_line(f, arrays):
    with pytest.raises(tl.CaptureError, match=r"array_expressions.py:\d+"):
        tl.compile(_step(f))(*_leaves(tl, arrays))


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("f, arrays", CASES)
def test_values_and_gradients(f, arrays):
    torch = pytest.importorskip("torch")
    found = []
    for lib, F in ((torch, torch.nn.functional), (tl, functional)):
        leaves = _leaves(lib, arrays)
        out = f(lib, F, *leaves)
        weights = lib.tensor(
            np.cos(np.arange(out.numel())).reshape(tuple(out.shape)).astype(str(out.dtype).split(".")[1])
        )
        (out * weights).sum().backward()
        grads = [
            np.zeros(a.shape) if p.grad is None else p.grad.numpy()
            for p, a in zip(leaves, arrays.values(), strict=True)
        ]
        found.append((str(out.dtype).split(".")[1], out.detach().numpy(), *grads))
    theirs, ours = found
    assert ours[0] == theirs[0]
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        assert a.shape == b.shape
        _close(a, b, np.dtype(ours[0]))


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    torch = pytest.importorskip("torch")
    raised = []
    for lib in (torch, tl):
        with pytest.raises(Exception) as caught:
            ERRORS[name](lib, torch.nn.functional if lib is torch else functional)
        raised.append(caught.value)
    theirs, ours = raised
    expected = next(c for c in type(theirs).__mro__ if c.__module__ == "builtins")
    # PyTorch's "not implemented for this dtype" is a RuntimeError too
    assert isinstance(ours, RuntimeError if expected is NotImplementedError else expected), repr(ours)
