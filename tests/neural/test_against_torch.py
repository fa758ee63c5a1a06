"""Neural functions agree with PyTorch in value, shape, dtype and gradient."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.neural.cases import CASES
from tests.neural.running import tolerance, with_gradients
from tinygrad_lite.nn import functional

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

#: PyTorch computes a sixth in float32 there.
SIXTHS = {"rtol": 1e-7, "atol": 1e-7}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_case(name):
    case = CASES[name]
    theirs = with_gradients(torch, torch.nn.functional, case)
    ours = with_gradients(tl, functional, case)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, **(SIXTHS if name.startswith("hardsigmoid") else tolerance(case)))
