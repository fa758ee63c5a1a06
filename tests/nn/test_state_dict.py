"""state_dict and load_state_dict."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn


def net(width: int = 4) -> nn.Sequential:
    layers = nn.Sequential(nn.Linear(3, width), nn.LayerNorm(width))
    layers[1].register_buffer("seen", tl.zeros(1))
    layers[1].register_buffer("scratch", tl.zeros(1), persistent=False)
    return layers


def arrays(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.numpy().copy() for name, value in module.state_dict().items()}


def test_keys_and_prefix():
    keys = ["0.weight", "0.bias", "1.weight", "1.bias", "1.seen"]
    assert list(net().state_dict()) == keys
    assert list(net().state_dict(prefix="net.")) == [f"net.{key}" for key in keys]
    kept = net().state_dict(keep_vars=True)
    assert isinstance(kept["0.weight"], nn.Parameter)
    assert not net().state_dict()["0.weight"].requires_grad


def test_values_share_storage():
    model = net()
    state = model.state_dict()
    nn.init.constant_(model[0].weight, 7.0)
    assert np.all(state["0.weight"].numpy() == 7)


def test_round_trip():
    one, two = net(), net()
    weight = two[0].weight
    result = two.load_state_dict(one.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert two[0].weight is weight and weight.requires_grad
    for name, value in arrays(one).items():
        np.testing.assert_array_equal(value, arrays(two)[name])


def test_arrays_and_other_dtypes_are_converted():
    model = net()
    model.load_state_dict({name: value.astype(np.float64) + 1 for name, value in arrays(model).items()})
    assert model[0].weight.dtype == tl.float32
    np.testing.assert_array_equal(model[1].weight.detach().numpy(), 2)


def test_tied_weights_appear_under_each_name():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.weight"]
    other = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3, bias=False))
    other[1].weight = other[0].weight
    other.load_state_dict(model.state_dict())
    assert other[1].weight is other[0].weight


def test_the_error_names_every_key_and_nothing_is_changed():
    model = net()
    before = arrays(model)
    state = dict(net(5).state_dict())
    del state["0.bias"], state["1.seen"]
    state["2.weight"] = state["2.bias"] = tl.ones(1)
    state["1.bias"] = 3
    with pytest.raises(RuntimeError) as error:
        model.load_state_dict(state)
    assert str(error.value).split("\n\t") == [
        "Error(s) in loading state_dict for Sequential:",
        'Unexpected key(s) in state_dict: "2.weight", "2.bias". ',
        'Missing key(s) in state_dict: "0.bias", "1.seen". ',
        "size mismatch for 0.weight: the state_dict has shape [5, 3], the model has shape [4, 3].",
        "size mismatch for 1.weight: the state_dict has shape [5], the model has shape [4].",
        "1.bias: expected a tensor or an array, got int.",
    ]
    for name, value in before.items():
        np.testing.assert_array_equal(value, arrays(model)[name])


def test_not_strict_returns_what_did_not_match_but_refuses_shapes():
    model = net()
    missing, unexpected = model.load_state_dict({"0.bias": tl.ones(4), "x": tl.ones(1)}, strict=False)
    assert missing == ["0.weight", "1.weight", "1.bias", "1.seen"] and unexpected == ["x"]
    np.testing.assert_array_equal(model[0].bias.detach().numpy(), 1)
    with pytest.raises(RuntimeError, match=r"size mismatch for 0\.bias"):
        model.load_state_dict({"0.bias": tl.ones(5)}, strict=False)
    with pytest.raises(TypeError, match="mapping"):
        model.load_state_dict([("0.bias", tl.ones(4))])


def test_assign_replaces_the_parameters():
    model, other = net(), net()
    model[0].bias.requires_grad_(False)
    weight = model[0].weight
    state = other.double().state_dict()
    model.load_state_dict(state, assign=True)
    assert isinstance(model[0].weight, nn.Parameter)
    assert model[0].weight.requires_grad and not model[0].bias.requires_grad
    assert model[0].weight is not weight and model[0].weight.dtype == tl.float64
    np.testing.assert_array_equal(model[0].weight.detach().numpy(), other[0].weight.detach().numpy())
    assert model[1].seen is state["1.seen"]
