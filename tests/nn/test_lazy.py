"""Lazy layers: without shapes until their first call, the plain layers after it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn, optim
from tinygrad_lite.nn.parameter import is_lazy

# name → the lazy layer's arguments, the plain layer's (size first), options, shapes of inputs
CASES = {
    "Linear": ((5,), (3, 5), {}, [(4, 2, 3), (3,)]),
    "Linear, no bias": ((5,), (3, 5), {"bias": False}, [(4, 3)]),
    "Conv1d": ((6, 3), (4, 6, 3), {"stride": 2}, [(2, 4, 9), (4, 9)]),
    "Conv2d": ((6, 3), (4, 6, 3), {"padding": 1, "groups": 2}, [(2, 4, 5, 5), (4, 5, 5)]),
    "Conv3d": ((2, 2), (3, 2, 2), {"bias": False}, [(1, 3, 3, 3, 3)]),
    "ConvTranspose1d": ((6, 3), (4, 6, 3), {"stride": 2, "output_padding": 1}, [(2, 4, 5)]),
    "ConvTranspose2d": ((6, 3), (4, 6, 3), {"groups": 2}, [(2, 4, 3, 3), (4, 3, 3)]),
    "ConvTranspose3d": ((2, 2), (3, 2, 2), {}, [(1, 3, 2, 2, 2)]),
    "BatchNorm1d": ((), (4,), {"momentum": None}, [(6, 4), (6, 4, 3)]),
    "BatchNorm2d": ((), (4,), {"affine": False}, [(3, 4, 2, 2)]),
    "BatchNorm3d": ((), (4,), {"track_running_stats": False}, [(3, 4, 2, 2, 2)]),
    "InstanceNorm1d": ((), (4,), {"affine": True, "track_running_stats": True}, [(2, 4, 5), (4, 5)]),
    "InstanceNorm2d": ((), (4,), {"affine": False, "track_running_stats": False}, [(2, 4, 3, 3), (4, 3, 3)]),
    "InstanceNorm3d": ((), (4,), {"affine": True, "track_running_stats": False}, [(2, 4, 2, 2, 2)]),
}


def pair(case: str, lib=nn) -> tuple[nn.Module, nn.Module]:
    """The lazy layer and the plain one."""
    name = case.split(",")[0]
    lazy, plain, options, _ = CASES[case]
    return getattr(lib, f"Lazy{name}")(*lazy, **options), getattr(lib, name)(*plain, **options)


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def net() -> nn.Sequential:
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))


@pytest.mark.parametrize(("case", "shape"), [(case, shape) for case in CASES for shape in CASES[case][3]])
def test_the_first_call_makes_the_plain_layer(case, shape):
    lazy, _ = pair(case)
    tl.manual_seed(3)
    x = tl.tensor(draw(*shape))
    found = lazy(x)
    tl.manual_seed(3)
    plain = pair(case)[1]
    np.testing.assert_array_equal(found.detach().numpy(), plain(x).detach().numpy())
    assert type(lazy) is type(plain) and repr(lazy) == repr(plain)
    mine, expected = lazy.state_dict(), plain.state_dict()
    assert list(mine) == list(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(mine[name].numpy(), value.numpy())
    assert all(type(p) is nn.Parameter and p.requires_grad for p in lazy.parameters())
    assert set(vars(lazy)) == set(vars(plain))


@pytest.mark.parametrize("case", CASES)
def test_names_are_there_before(case):
    lazy, plain = pair(case)
    assert list(lazy.state_dict()) == list(plain.state_dict())
    assert lazy.has_uninitialized_params() == any(map(is_lazy, lazy.state_dict().values()))


@pytest.mark.parametrize(
    "use",
    [
        lambda p: p + 1,
        lambda p: p.shape,
        lambda p: p.ndim,
        lambda p: p.size(),
        lambda p: p.dim(),
        lambda p: p.numel(),
        lambda p: p.tolist(),
        lambda p: tl.sum(p),
        lambda p: p.copy_(tl.zeros(1)),
        lambda p: p.double(),
        lambda p: nn.functional.linear(tl.ones(3), p),
    ],
)
@pytest.mark.parametrize("kind", [nn.UninitializedParameter, nn.UninitializedBuffer])
def test_values_and_shapes_are_refused(use, kind):
    with pytest.raises(RuntimeError, match=f"{kind.__name__} has no shape"):
        use(kind())


def test_what_can_be_said_before():
    p, b = nn.UninitializedParameter(dtype=tl.float64), nn.UninitializedBuffer()
    assert p.dtype is tl.float64 and b.dtype is tl.float32
    assert p.requires_grad and p.is_leaf and p.grad is None and not b.requires_grad
    assert repr(p) == "<UninitializedParameter>" and repr(b) == "<UninitializedBuffer>"
    assert isinstance(p, nn.Parameter) and not isinstance(b, nn.Parameter)
    frozen = nn.UninitializedParameter(requires_grad=False)
    frozen.materialize((2, 3))
    assert type(frozen) is nn.Parameter and frozen.shape == (2, 3) and not frozen.requires_grad
    b.materialize((4,), dtype=tl.float64)
    assert type(b) is tl.Tensor and b.tolist() == [0.0] * 4 and b.dtype is tl.float64


def test_copies_and_conversions():
    model = net().requires_grad_(False)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other[0].weight is not model[0].weight and not other[0].weight.requires_grad
        other.double()
        assert all(t.dtype is tl.float64 for name, t in other.state_dict().items() if "num" not in name)
        assert other(tl.tensor(draw(2, 3, 5, 5)).double()).dtype is tl.float64
    assert all(type(layer).__name__.startswith("Lazy") for layer in model if list(layer.parameters()))


def test_an_optimizer_made_before_trains_what_comes():
    model = net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    model(tl.tensor(draw(2, 3, 5, 5))).sum().backward()
    before = model[4].bias.detach().numpy().copy()
    optimizer.step()
    np.testing.assert_allclose(model[4].bias.detach().numpy(), before - 0.2, rtol=1e-6)


def test_loading_before_the_first_call():
    x = tl.tensor(draw(2, 3, 5, 5))
    trained, model, assigned = net(), net(), net()
    trained(x)
    trained.eval()
    model.load_state_dict(trained.state_dict())
    assigned.load_state_dict(trained.state_dict(), assign=True)
    for loaded in (model, assigned):
        assert not loaded[0].has_uninitialized_params()
        np.testing.assert_array_equal(loaded.eval()(x).detach().numpy(), trained(x).detach().numpy())
        assert repr(loaded) == repr(trained)


def test_state_without_shapes():
    model, trained = net(), net()
    trained(tl.tensor(draw(2, 3, 5, 5)))
    model.load_state_dict(net().state_dict())
    assert model[0].has_uninitialized_params()
    with pytest.raises(RuntimeError, match=r"4\.bias: the state_dict has an UninitializedParameter, .* \[2\]"):
        trained.load_state_dict(net().state_dict())


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (nn.LazyConv2d(4, 3), (3, 3), r"LazyConv2d: expected 3D .* got 2D"),
        (nn.LazyConv1d(4, 3, groups=2), (3, 5), "in_channels must be divisible by groups, got 3 and 2"),
        (nn.LazyBatchNorm2d(), (3, 3), "expected 4D"),
        (nn.LazyInstanceNorm1d(affine=True), (3,), "expected 2D or 3D"),
    ],
)
def test_a_first_input_that_does_not_fit(layer, shape, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        layer(tl.zeros(shape))
    assert type(layer).__name__.startswith("Lazy") and layer.weight.requires_grad and is_lazy(layer.weight)


def test_options_are_checked_at_once():
    assert {"weight", "running_mean"} <= set(nn.LazyInstanceNorm1d().state_dict())
    with pytest.raises(ValueError, match="out_channels must be divisible by groups"):
        nn.LazyConv2d(3, 3, groups=2)


def test_compiled_steps_record_once():
    found = []
    for compiled in (False, True):
        tl.manual_seed(0)
        model = nn.Sequential(nn.LazyLinear(4), nn.Tanh(), nn.LazyLinear(1))
        optimizer = optim.AdamW(model.parameters(), lr=0.05)

        def step(x, model=model, optimizer=optimizer):
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        run = tl.compile(step) if compiled else step
        found.append([run(tl.tensor(draw(6, 3))).item() for _ in range(4)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    assert sum(map(len, run._captures.values())) == 1 and type(model[0]) is nn.Linear


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:input's size at dim=1")  # torch's, of a layer whose size it never set
@pytest.mark.parametrize("case", CASES)
def test_against_torch(case):
    torch = pytest.importorskip("torch")
    theirs, ours = pair(case, torch.nn)[0], pair(case)[0]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = draw(*CASES[case][3][0])
    theirs(torch.tensor(x))
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    expected, found = theirs(torch.tensor(x)), ours(tl.tensor(x))
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-5)
    assert type(ours).__name__ == type(theirs).__name__


@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 5), (2, 4, 3, 3), (2, 4, 2, 2, 2)])
def test_sync_batch_norm_is_batch_norm(shape):
    x = tl.tensor(draw(*shape))
    plain = getattr(nn, f"BatchNorm{max(len(shape) - 2, 1)}d")(4)
    sync = nn.SyncBatchNorm(4)
    np.testing.assert_array_equal(sync(x).detach().numpy(), plain(x).detach().numpy())
    np.testing.assert_array_equal(sync.running_var.numpy(), plain.running_var.numpy())


def test_convert_sync_batchnorm():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, eps=0.1), nn.Sequential(nn.BatchNorm2d(2, affine=False)))
    model[2].append(model[1])
    model.eval()
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert converted is model and type(model[2][0]) is nn.SyncBatchNorm and model[2][0].weight is None
    assert type(model[1]) is type(model[2][1]) is nn.SyncBatchNorm and model[1].weight is model[2][1].weight
    assert model[1].eps == 0.1 and not model[1].training and not model[2][0].affine
    alone = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(3, bias=False))
    assert type(alone) is nn.SyncBatchNorm and alone.bias is None
    with pytest.raises(NotImplementedError, match="process_group"):
        nn.SyncBatchNorm(4, process_group="workers")
    with pytest.raises(ValueError, match="at least 2D"):
        alone(tl.zeros(3))
