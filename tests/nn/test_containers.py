"""Sequential, ModuleList, ModuleDict, ParameterList."""

from __future__ import annotations

import itertools
from collections import OrderedDict

import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn


def linears(*widths: int) -> list[nn.Linear]:
    return [nn.Linear(a, b) for a, b in itertools.pairwise(widths)]


def test_sequential_runs_in_order():
    assert nn.Sequential(*linears(2, 3, 4))(tl.ones(5, 2)).shape == (5, 4)
    assert nn.Sequential()(3) == 3


def test_sequential_indexing():
    a, b, c = layers = linears(2, 3, 4, 5)
    net = nn.Sequential(*layers)
    assert net[0] is a and net[-1] is c and len(net) == 3 and list(net) == layers
    assert isinstance(net[1:], nn.Sequential) and list(net[1:]) == [b, c]
    with pytest.raises(IndexError, match="3 is out of range"):
        net[3]
    net[1] = nn.Identity()
    assert isinstance(net[1], nn.Identity)
    del net[1]
    assert list(net) == [a, c] and [n for n, _ in net.named_children()] == ["0", "1"]
    assert net.pop(0) is a
    net.append(b).insert(0, a).extend([nn.ReLU()])
    assert list(net)[:3] == [a, c, b] and len(net) == 4


def test_sequential_of_names():
    net = nn.Sequential(OrderedDict(first=nn.Linear(2, 3), act=nn.ReLU()))
    assert net.act is net[1]
    assert [n for n, _ in net.named_parameters()] == ["first.weight", "first.bias"]
    del net[0]
    assert [n for n, _ in net.named_children()] == ["act"]


def test_slice_keeps_the_scopes():
    net = nn.Module()
    net.body = nn.Sequential(*linears(2, 3, 4))
    assert net.body[1:][0]._name == "1"


def test_module_list():
    layers = linears(2, 3, 4, 5)
    held = nn.ModuleList(layers[:1])
    held.append(layers[1])
    held += [layers[2]]
    assert list(held) == layers and held[-1] is layers[2] and layers[1] in held
    assert list(held[:2]) == layers[:2] and isinstance(held[:2], nn.ModuleList)
    held.insert(0, nn.Identity())
    assert [n for n, _ in held.named_children()] == ["0", "1", "2", "3"]
    del held[0:2]
    assert list(held) == layers[1:]
    assert len(held.__add__([nn.ReLU()])) == 3


def test_module_list_repr_folds_equal_children():
    held = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU()])
    assert repr(held) == (
        "ModuleList(\n  (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)\n  (2): ReLU()\n)"
    )


def test_names_follow_the_list():
    model = nn.Module()
    model.stages = nn.ModuleList([nn.ModuleList([nn.Identity()])])
    assert model.stages[0][0]._name == "stages.0.0"
    model.stages[0].append(nn.ReLU())
    assert model.stages[0][1]._name == "stages.0.1"


def test_module_dict():
    held = nn.ModuleDict({"a": nn.Linear(2, 3)})
    held["b"] = nn.ReLU()
    held.update([("c", nn.Identity())])
    assert list(held) == ["a", "b", "c"] and "b" in held and len(held) == 3
    assert list(held.keys()) == ["a", "b", "c"] and dict(held.items())["a"] is held["a"]
    assert isinstance(held.pop("b"), nn.ReLU) and list(held.values()) == [held["a"], held["c"]]
    held.clear()
    assert not len(held)
    with pytest.raises(KeyError):
        held["a"]


def test_parameter_list():
    held = nn.ParameterList([tl.ones(2), nn.Parameter(tl.zeros(3))])
    held.append(tl.ones(4))
    assert [tuple(p.shape) for p in held] == [(2,), (3,), (4,)]
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in held.parameters())
    held[-1] = tl.ones(5)
    assert held[2].shape == (5,) and len(held[:2]) == 2
    assert list(held.state_dict()) == ["0", "1", "2"]
    with pytest.raises(IndexError):
        held[3] = tl.ones(1)


def test_parameter_dict():
    held = nn.ParameterDict({"a": tl.ones(2), "b": nn.Parameter(tl.zeros(3))})
    held["c"] = tl.ones(4)
    held.update([("d", tl.ones(1))])
    assert list(held) == list(held.keys()) == list(held.state_dict()) == ["a", "b", "c", "d"] and len(held) == 4
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in held.values())
    assert "a" in held and held.get("z") is None and dict(held.items())["b"] is held["b"]
    assert held.pop("a").shape == (2,) and "a" not in held
    del held["b"]
    assert "(c): Parameter of" in repr(held)
    held.clear()
    assert not len(held)
    with pytest.raises(KeyError):
        held["c"]
