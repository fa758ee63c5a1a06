"""What training files say that has nothing to do here: wrappers for several devices, switches, old names."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import amp, nn
from tinygrad_lite.autograd import Variable


def test_data_parallel_calls_its_module():
    inner = nn.Linear(3, 2)
    model = nn.DataParallel(inner, dim=0)
    assert list(model.state_dict()) == ["module.weight", "module.bias"] and model.module is inner
    x = tl.ones(4, 3)
    np.testing.assert_array_equal(model(x).detach().numpy(), inner(input=x).detach().numpy())
    np.testing.assert_array_equal(model(input=x).detach().numpy(), tl.compile(model)(x).detach().numpy())
    with pytest.raises(RuntimeError, match=r"no devices \[0, 1\]"):
        nn.DataParallel(inner, device_ids=[0, 1])


def test_variables_are_tensors():
    x = tl.ones(3)
    v = Variable(x, requires_grad=True)
    assert type(v) is tl.Tensor and v.requires_grad and not x.requires_grad
    assert isinstance(x, Variable) and not isinstance(3.0, Variable)
    (v * 2).sum().backward()
    assert v.grad.tolist() == [2, 2, 2]
    assert not Variable((v * 2).sum()).requires_grad
    with pytest.raises(TypeError, match="not a list"):
        Variable([1.0])


def test_deterministic_algorithms_are_accepted():
    assert not tl.are_deterministic_algorithms_enabled()
    tl.use_deterministic_algorithms(True, warn_only=True)
    assert tl.are_deterministic_algorithms_enabled()
    tl.use_deterministic_algorithms(False)
    with pytest.raises(TypeError, match="not 'on'"):
        tl.use_deterministic_algorithms("on")


def test_grad_scaler_has_a_short_name():
    assert tl.GradScaler is amp.GradScaler


def test_methods_that_are_functions_too():
    x = tl.ones(2, 3, requires_grad=True)
    assert tl.is_same_size(x, tl.zeros(2, 3)) and not tl.is_same_size(x, tl.zeros(3, 2))
    assert tl.is_signed(x) and tl.is_signed(tl.tensor(1)) and not tl.is_signed(tl.tensor(1, dtype=tl.uint8))
    assert not tl.detach(x).requires_grad and tl.equal(tl.detach(x), x)
    assert tl.fill(tl.zeros(2, dtype=tl.int64), 3).tolist() == [3, 3]
    value = tl.tensor(2.0, requires_grad=True)
    filled = tl.fill(x, value)
    filled.sum().backward()
    assert filled.tolist() == [[2.0] * 3] * 2 and value.grad.item() == 6 and filled.dtype is x.dtype
