"""Construction, validation, groups and state dicts."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn, optim


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(tl.ones(2)), nn.Parameter(tl.zeros(2, 3))]


def step(optimizer: optim.Optimizer, times: int = 1) -> None:
    for _ in range(times):
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.grad = tl.ones(*p.shape) * 0.5
        optimizer.step()


OTHERS = [optim.RMSprop, optim.Adagrad, optim.Adadelta, optim.Adamax, optim.NAdam, optim.RAdam, optim.Rprop, optim.ASGD]


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW, *OTHERS])
@pytest.mark.parametrize("lr", [-1.0, math.nan, math.inf])
def test_bad_rate(make, lr):
    with pytest.raises(ValueError, match="lr must"):
        make(parameters(), lr=lr)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (optim.SGD, {"momentum": -0.1}, "momentum"),
        (optim.SGD, {"weight_decay": -0.1}, "weight_decay"),
        (optim.SGD, {"nesterov": True}, "nesterov"),
        (optim.SGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "nesterov"),
        (optim.Adam, {"eps": -1e-8}, "eps"),
        (optim.Adam, {"betas": (1.0, 0.9)}, r"betas\[0\]"),
        (optim.AdamW, {"betas": (0.9, -0.1)}, r"betas\[1\]"),
        (optim.AdamW, {"weight_decay": -1.0}, "weight_decay"),
        (optim.RMSprop, {"alpha": -0.1}, "alpha"),
        (optim.RMSprop, {"momentum": -0.1}, "momentum"),
        (optim.Adagrad, {"lr_decay": -1.0}, "lr_decay"),
        (optim.Adagrad, {"initial_accumulator_value": -1.0}, "initial_accumulator_value"),
        (optim.Adadelta, {"rho": 1.5}, "rho"),
        (optim.Adadelta, {"eps": -1.0}, "eps"),
        (optim.Adamax, {"betas": (0.9, 1.0)}, r"betas\[1\]"),
        (optim.NAdam, {"momentum_decay": -1.0}, "momentum_decay"),
        (optim.Rprop, {"etas": (1.1, 1.2)}, "not 1.1 and 1.2"),
        (optim.ASGD, {"weight_decay": -1.0}, "weight_decay"),
        (optim.Muon, {"momentum": -1.0}, "momentum"),
        (optim.Muon, {"adjust_lr_fn": "more"}, "'more'"),
        (optim.Muon, {"ns_steps": 100}, "ns_steps"),
        (optim.Muon, {"ns_coefficients": (1.0, 2.0)}, "three numbers"),
        (optim.Muon, {}, r"matrices, not parameters of shape \(2,\)"),
        (optim.RAdam, {"weight_decay": -1.0}, "weight_decay"),
    ],
)
def test_bad_options(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(parameters(), **options)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW])
def test_torchs_implementation_choices_are_accepted(make):
    make(parameters(), fused=True)
    make(parameters(), foreach=True, fused=False)
    with pytest.raises(RuntimeError, match="exclude"):
        make(parameters(), foreach=True, fused=True)
    with pytest.raises(TypeError, match="fused"):
        make(parameters(), fused="yes")
    with pytest.raises(RuntimeError, match="differentiable"):
        make(parameters(), differentiable=True)


@pytest.mark.parametrize("make", OTHERS)
def test_foreach_is_accepted_and_differentiable_refused(make):
    make(parameters(), foreach=True)
    with pytest.raises(TypeError, match="foreach"):
        make(parameters(), foreach="yes")
    with pytest.raises(RuntimeError, match="differentiable"):
        make(parameters(), differentiable=True)


def test_bad_parameters():
    a, b = parameters()
    for params, error in (
        (a, TypeError),
        ([], ValueError),
        ([3], TypeError),
        ([a * 2], ValueError),
        ([a, b, a], ValueError),
        ([{"params": [a]}, {"params": [a]}], ValueError),
        ([{"params": [a]}, b], TypeError),
        ([{"params": [a], "lr": -1.0}], ValueError),
    ):
        with pytest.raises(error):
            optim.SGD(params, lr=0.1)


def test_add_param_group():
    a, b = parameters()
    optimizer = optim.AdamW([a], lr=0.1)
    optimizer.add_param_group({"params": b, "weight_decay": 0.0})
    assert optimizer.param_groups[1]["lr"] == 0.1 and optimizer.param_groups[1]["weight_decay"] == 0
    step(optimizer)
    assert len(optimizer.state) == 2
    named = optim.SGD(nn.Linear(2, 2).named_parameters())
    assert len(named.param_groups[0]["params"]) == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
        lambda p: optim.AdamW(p, lr=0.1, amsgrad=True),
        lambda p: optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True),
        *(lambda p, make=make: make(p, lr=0.1) for make in OTHERS),
    ],
)
def test_state_dict_resumes_exactly(make):
    whole, half = make(parameters()), make(parameters())
    step(whole, 6)
    step(half, 3)
    params = [nn.Parameter(p.detach().clone()) for p in half.param_groups[0]["params"]]
    resumed = make(params)
    resumed.param_groups[0]["lr"] = 5.0
    resumed.load_state_dict(copy.deepcopy(half.state_dict()))
    assert resumed.param_groups[0]["lr"] == 0.1
    step(half, 1)  # the copy does not follow
    step(resumed, 3)
    for p, q in zip(whole.param_groups[0]["params"], params, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())


def test_state_dict_layout():
    a, b = parameters()
    optimizer = optim.AdamW([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1)
    assert optimizer.state_dict()["state"] == {}
    step(optimizer)
    state = optimizer.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0], [1]]
    assert state["param_groups"][1]["lr"] == 0.5
    assert set(state["state"][1]) == {"step", "exp_avg", "exp_avg_sq"}
    assert state["state"][1]["exp_avg"].shape == (2, 3)


def test_loading_shares_equal_counts_and_voids_captures():
    optimizer, structure = optim.AdamW(parameters()), None
    step(optimizer, 2)
    structure = optimizer._structure
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    first, second = (state["step"] for state in optimizer.state.values())
    assert first is second and first.item() == 2
    assert optimizer._structure > structure


def test_loading_refuses_other_groups():
    state = optim.SGD(parameters()).state_dict()
    with pytest.raises(ValueError, match=r"\[2\].*\[1\]"):
        optim.SGD(parameters()[:1]).load_state_dict(state)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": 0.9}),
        ("Adam", {}),
        ("AdamW", {"amsgrad": True}),
        ("RMSprop", {"momentum": 0.9, "centered": True}),
        ("RMSprop", {}),
        ("Adagrad", {"initial_accumulator_value": 0.5}),
        ("Adadelta", {}),
        ("Adamax", {}),
        ("NAdam", {}),
        ("RAdam", {}),
        ("Rprop", {}),
        ("ASGD", {}),
    ],
)
def test_state_dicts_are_torchs(name, options):
    torch = pytest.importorskip("torch")
    params = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.zeros(2, 3))]
    theirs = getattr(torch.optim, name)(params, **options)
    for p in params:
        p.grad = torch.full_like(p, 0.5)
    theirs.step()
    ours = getattr(optim, name)(parameters(), **options)
    step(ours)
    expected, found = theirs.state_dict(), ours.state_dict()
    assert found["param_groups"] == [
        {k: v for k, v in group.items() if k in found["param_groups"][0]} for group in expected["param_groups"]
    ]
    for number, state in expected["state"].items():
        assert set(state) == set(found["state"][number])
        for key, value in state.items():
            np.testing.assert_allclose(value.numpy(), found["state"][number][key].numpy(), rtol=1e-6)


def test_adagrad_has_its_sums_before_the_first_step():
    optimizer = optim.Adagrad(parameters(), initial_accumulator_value=0.25)
    assert {name: value.tolist() for name, value in optimizer.state_dict()["state"][0].items()} == {
        "step": 0.0,
        "sum": [0.25, 0.25],
    }


def test_numbers_stay_in_float32():
    p = nn.Parameter(tl.ones(2, dtype=tl.bfloat16))
    p.grad = tl.ones(2, dtype=tl.bfloat16)
    first, second = optim.NAdam([p]), optim.NAdam([p])
    first.step()
    second.load_state_dict(first.state_dict())
    product = first.state[p]["mu_product"]
    assert product.dtype is second.state[p]["mu_product"].dtype is tl.float32
    assert product.item() == second.state[p]["mu_product"].item() != product.bfloat16().item()


def test_repr():
    text = repr(optim.SGD(parameters(), lr=0.25))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0.0\n") and "    lr: 0.25\n" in text
