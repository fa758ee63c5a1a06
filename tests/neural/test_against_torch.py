"""Neural functions agree with PyTorch in value, shape, dtype and gradient."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.neural.cases import CASES
from tests.neural.running import with_gradients
from tinygrad_lite.nn import functional

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

#: PyTorch computes a sixth in float32 there.
LOOSE = {"hardsigmoid 0": 1e-7, "hardsigmoid 0 kinks": 1e-7}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_case(name):
    case = CASES[name]
    theirs = with_gradients(torch, torch.nn.functional, case)
    ours = with_gradients(tl, functional, case)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=LOOSE.get(name, 1e-9), atol=LOOSE.get(name, 1e-11))
