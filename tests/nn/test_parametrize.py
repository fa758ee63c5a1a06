"""Parameters computed from others: weight and spectral norm in both forms, own parametrisations; folded batch norms."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn, optim
from tinygrad_lite.nn.utils import parametrizations, parametrize

RNG = np.random.default_rng(0)
FORMS = {
    "weight_norm": lambda u: u.weight_norm,
    "spectral_norm": lambda u: u.spectral_norm,
    "parametrized weight_norm": lambda u: u.parametrizations.weight_norm,
    "parametrized spectral_norm": lambda u: u.parametrizations.spectral_norm,
}
LAYERS = {
    "Linear": ((3, 4), (5, 3)),
    "Conv2d": ((2, 4, 3), (1, 2, 5, 5)),
    "ConvTranspose1d": ((2, 4, 3), (2, 2, 5)),
}


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).t()

    def right_inverse(self, x):
        return x.triu()


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return x / 2


class RankOne(nn.Module):
    def forward(self, x, y):
        return x.unsqueeze(1) @ y.unsqueeze(0)

    def right_inverse(self, x):
        u, s, v = tl.linalg.svd(x)
        return u[:, 0] * s[0].sqrt(), v[0] * s[0].sqrt()


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def values(t: tl.Tensor) -> np.ndarray:
    return t.detach().numpy()


@pytest.mark.parametrize("dim", [0, 1, 2, None])
def test_weight_norm_separates_length_and_direction(dim):
    layer = nn.Conv1d(2, 4, 3)
    weight = values(layer.weight).astype(np.float64)
    for wrapped in (nn.utils.weight_norm(copy.deepcopy(layer), dim=dim), parametrizations.weight_norm(layer, dim=dim)):
        np.testing.assert_allclose(values(wrapped.weight), weight, rtol=1e-6)
        g = next(p for name, p in wrapped.named_parameters() if name.endswith(("_g", "original0")))
        axes = tuple(i for i in range(3) if i != dim)
        expected = np.sqrt((weight**2).sum(axes, keepdims=dim is not None))
        assert g.shape == expected.shape
        np.testing.assert_allclose(values(g), expected, rtol=1e-6)
        with tl.no_grad():
            g.mul_(3.0)
        np.testing.assert_allclose(values(wrapped.weight), 3 * weight, rtol=1e-6)


@pytest.mark.parametrize("form", ["spectral_norm", "parametrized spectral_norm"])
@pytest.mark.parametrize("layer", LAYERS)
def test_spectral_norm_comes_to_one(form, layer):
    options, shape = LAYERS[layer]
    wrapped = FORMS[form](nn.utils)(getattr(nn, layer)(*options))
    for _ in range(80):
        wrapped(tl.zeros(*shape))
    wrapped.eval()
    axis = 1 if layer == "ConvTranspose1d" else 0
    largest = tl.linalg.svdvals(wrapped.weight.movedim(axis, 0).flatten(1))[0]
    assert largest.item() == pytest.approx(1, rel=1e-3)
    before = values(wrapped.weight)
    wrapped(tl.zeros(*shape))
    np.testing.assert_array_equal(values(wrapped.weight), before)


def test_spectral_norm_of_a_vector_is_its_length():
    layer = parametrizations.spectral_norm(nn.Linear(3, 4), "bias")
    assert tl.linalg.norm(layer.bias).item() == pytest.approx(1)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layer", LAYERS)
def test_against_torch(form, layer):
    """The same keys; from the same state the same outputs, gradients and buffers, over two calls before a backward."""
    torch = pytest.importorskip("torch")
    options, shape = LAYERS[layer]
    theirs = FORMS[form](torch.nn.utils)(getattr(torch.nn, layer)(*options))
    ours = FORMS[form](nn.utils)(getattr(nn, layer)(*options))
    state = {name: value.numpy().copy() for name, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    x = draw(*shape)
    for model, given in ((theirs, torch.tensor(x)), (ours, tl.tensor(x))):
        ((model(given) ** 2).sum() + model(given * 2).sum()).backward()
    for (name, p), (_, q) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        np.testing.assert_allclose(values(p.grad), q.grad.numpy(), rtol=2e-4, atol=2e-5, err_msg=name)
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(values(ours.state_dict()[name]), value.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)
    assert type(ours).__name__ == type(theirs).__name__


@pytest.mark.parametrize("form", FORMS)
def test_in_compiled_steps(form):
    found = []
    for compiled in (False, True):
        tl.manual_seed(0)
        model = nn.Sequential(FORMS[form](nn.utils)(nn.Linear(3, 4)), nn.Tanh(), nn.Linear(4, 1))
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x, model=model, optimizer=optimizer):
            loss = (model(x) ** 2).mean() + model(2 * x).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        run = tl.compile(step) if compiled else step
        x = tl.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
        found.append([run(x).item() for _ in range(4)] + [values(t).sum() for t in model.state_dict().values()])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-6)
    assert sum(map(len, run._captures.values())) == 1


@pytest.mark.parametrize("form", FORMS)
def test_copies_are_apart(form):
    layer = FORMS[form](nn.utils)(nn.Linear(3, 4)).eval()
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(other) is type(layer) and isinstance(other, nn.Linear)
        np.testing.assert_array_equal(values(other.weight), values(layer.weight))
        before = values(layer.weight).copy()
        next(p for name, p in other.named_parameters() if p.dim() == 2).data.zero_()
        assert not np.array_equal(values(other.weight), before)
        np.testing.assert_array_equal(values(layer.weight), before)


def test_removing_leaves_a_parameter_of_the_present_value():
    plain, x = nn.Linear(3, 4), tl.tensor(draw(2, 3))
    normed = nn.utils.weight_norm(copy.deepcopy(plain))
    normed.weight_g.data = normed.weight_g.data * 2
    spectral = nn.utils.spectral_norm(copy.deepcopy(plain))
    spectral(x)
    removals = [
        (normed, nn.utils.remove_weight_norm),
        (spectral, nn.utils.remove_spectral_norm),
        (
            parametrizations.weight_norm(copy.deepcopy(plain)),
            lambda m: parametrize.remove_parametrizations(m, "weight"),
        ),
    ]
    for layer, remove in removals:
        weight = values(layer.weight).copy()
        assert remove(layer) is layer and type(layer) is nn.Linear
        assert set(layer.state_dict()) == {"weight", "bias"} and isinstance(layer.weight, nn.Parameter)
        assert layer.weight.requires_grad and not layer._forward_pre_hooks
        np.testing.assert_allclose(values(layer.weight), weight, rtol=1e-6)
        layer(x)
        with pytest.raises(ValueError, match="has no"):
            remove(layer)


def test_own_parametrizations():
    layer = nn.Linear(3, 3)
    weight, original = values(layer.weight).copy(), layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    symmetric = np.triu(weight) + np.triu(weight, 1).T
    np.testing.assert_allclose(values(layer.weight), symmetric, rtol=1e-6)
    assert layer.parametrizations.weight.original is original and list(layer.parametrizations) == ["weight"]
    assert "ParametrizedLinear" in repr(layer) and parametrize.type_before_parametrizations(layer) is nn.Linear
    parametrize.register_parametrization(layer, "weight", Doubled())
    np.testing.assert_allclose(values(layer.weight), 2 * symmetric, rtol=1e-6)
    layer.weight = tl.ones(3, 3)
    np.testing.assert_array_equal(values(original), np.triu(np.ones((3, 3))) / 2)
    (layer(tl.ones(1, 3)).sum()).backward()
    np.testing.assert_allclose(values(original.grad), np.triu(np.full((3, 3), 4.0)) - 2 * np.eye(3))
    parametrize.register_parametrization(layer, "bias", Doubled())
    assert parametrize.is_parametrized(layer, "bias") and not parametrize.is_parametrized(layer, "other")
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight is original and parametrize.is_parametrized(layer)
    np.testing.assert_array_equal(values(original), np.triu(np.ones((3, 3))) / 2)
    bias = values(layer.bias).copy()
    parametrize.remove_parametrizations(layer, "bias")
    np.testing.assert_array_equal(values(layer.bias), bias)
    assert type(layer) is nn.Linear and not hasattr(layer, "parametrizations")


def test_what_cannot_be_inverted_takes_no_value():
    class Squared(nn.Module):
        def forward(self, x):
            return x * x

    layer = nn.Linear(2, 2)
    weight = values(layer.weight).copy()
    parametrize.register_parametrization(layer, "weight", Squared())
    np.testing.assert_allclose(values(layer.weight), weight**2, rtol=1e-6)
    with pytest.raises(NotImplementedError, match="Squared has no right_inverse"):
        layer.weight = tl.ones(2, 2)


def test_several_originals():
    layer = parametrize.register_parametrization(nn.Linear(4, 3), "weight", RankOne())
    assert [name for name, _ in layer.named_parameters()][1:] == [
        f"parametrizations.weight.original{i}" for i in (0, 1)
    ]
    layer.weight = tl.ones(3, 1) * tl.arange(4.0)
    np.testing.assert_allclose(values(layer.weight), np.tile(np.arange(4), (3, 1)), atol=1e-5)
    with pytest.raises(ValueError, match="several originals"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)


def test_a_buffer_and_an_unsafe_shape():
    layer = nn.BatchNorm1d(4)
    parametrize.register_parametrization(layer, "running_mean", Doubled())
    assert dict(layer.named_buffers())["parametrizations.running_mean.original"].shape == (4,)
    parametrize.remove_parametrizations(layer, "running_mean")
    assert "running_mean" in dict(layer.named_buffers())
    linear = nn.Linear(3, 4)
    with pytest.raises(ValueError, match=r"may not change the shape unless unsafe: from .*4, 3.* to .*12"):
        parametrize.register_parametrization(linear, "weight", nn.Flatten(0))
    parametrize.register_parametrization(linear, "weight", nn.Flatten(0), unsafe=True)
    assert linear.weight.shape == (12,)


ORTHOGONAL = [("matrix_exp", True), ("matrix_exp", False), ("cayley", True), ("cayley", False), ("householder", True)]


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize(("kind", "trivial"), [(None, True), *ORTHOGONAL])
def test_orthogonal_weights(rows, columns, kind, trivial):
    layer, few = nn.Linear(columns, rows), min(rows, columns)
    nn.init.orthogonal_(layer.weight)
    weight = values(layer.weight).copy()
    assert parametrizations.orthogonal(layer, orthogonal_map=kind, use_trivialization=trivial) is layer
    if trivial:  # it starts from what it was
        np.testing.assert_allclose(values(layer.weight), weight, atol=1e-5)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (layer.weight * tl.tensor(draw(rows, columns))).sum().backward()
        optimizer.step()
    moved = values(layer.weight)
    product = moved.T @ moved if rows >= columns else moved @ moved.T
    np.testing.assert_allclose(product, np.eye(few), atol=1e-5)
    assert np.abs(moved - weight).max() > 0.05
    if trivial:
        nn.init.orthogonal_(target := tl.zeros(rows, columns))
        layer.weight = target
        np.testing.assert_allclose(values(layer.weight), values(target), atol=1e-5)
    else:
        with pytest.raises(NotImplementedError, match="use_trivialization=False"):
            layer.weight = tl.zeros(rows, columns)


@pytest.mark.torch
@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize(("kind", "trivial"), ORTHOGONAL)
def test_orthogonal_weights_are_torchs(rows, columns, kind, trivial):
    torch = pytest.importorskip("torch")
    options = {"orthogonal_map": kind, "use_trivialization": trivial}
    theirs = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(columns, rows), **options)
    ours = parametrizations.orthogonal(nn.Linear(columns, rows), **options)
    state = {name: value.numpy().copy() for name, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    original = state["parametrizations.weight.original"]
    original += np.tril(draw(rows, columns), -1) if rows >= columns else np.triu(draw(rows, columns), 1)
    ours.load_state_dict(state)
    theirs.load_state_dict({name: torch.tensor(value) for name, value in state.items()})
    for layer in (ours, theirs):
        (layer.weight**3).sum().backward()
    np.testing.assert_allclose(values(ours.weight), theirs.weight.detach().numpy(), atol=1e-5)
    found, expected = (layer.parametrizations.weight.original.grad for layer in (ours, theirs))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-4)


def test_cached_readings():
    class Counted(nn.Module):
        calls = 0

        def forward(self, x):
            Counted.calls += 1
            return x * 2

        def right_inverse(self, x):
            return x / 2

    layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Counted())
    Counted.calls = 0
    with parametrize.cached():
        with parametrize.cached():
            assert layer.weight is layer.weight
        assert layer.weight is layer.weight and Counted.calls == 1
        before = values(layer.weight).copy()
        layer.weight = tl.ones(3, 3)
        assert not np.array_equal(values(layer.weight), before)
    assert layer.weight is not layer.weight and Counted.calls == 4


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.utils.weight_norm(nn.ReLU()), ValueError, "weight_norm: the ReLU has no parameter 'weight'"),
        (lambda: nn.utils.weight_norm(nn.LazyLinear(3)), ValueError, "has no shape yet"),
        (lambda: nn.utils.weight_norm(nn.utils.weight_norm(nn.Linear(2, 2))), RuntimeError, "computed already"),
        (lambda: nn.utils.weight_norm(nn.Linear(2, 2), dim=2), IndexError, r"\[0, 2\), not 2"),
        (lambda: nn.utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0), ValueError, "positive, not 0"),
        (lambda: parametrizations.spectral_norm(nn.Linear(2, 2), dim=5), IndexError, "not 5"),
        (lambda: parametrizations.weight_norm(nn.Linear(2, 2), "scale"), ValueError, "'scale'"),
        (lambda: setattr(nn.utils.weight_norm(nn.Linear(2, 2)), "weight", tl.ones(2, 2)), AttributeError, "computed"),
        (
            lambda: parametrize.remove_parametrizations(nn.Linear(2, 2), "bias"),
            ValueError,
            "no parametrization of 'bias'",
        ),
        (lambda: parametrizations.spectral_norm(nn.LazyLinear(2)), ValueError, "has no shape yet"),
        (lambda: parametrizations.orthogonal(nn.Linear(2, 2), "bias"), ValueError, "not 1 axes"),
        (lambda: parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="qr"), ValueError, "not 'qr'"),
        (
            lambda: parametrizations.orthogonal(nn.Linear(2, 3), use_trivialization=False),
            ValueError,
            "householder' needs use_trivialization=True",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def settled(norm: nn.Module) -> nn.Module:
    """A batch norm in evaluation mode with moments and weights of its own."""
    for value in norm.state_dict().values():
        if value.is_floating_point():
            value.copy_(tl.tensor(np.abs(draw(*value.shape)) + 0.5))
    return norm.eval()


@pytest.mark.parametrize(
    ("layer", "norm", "shape", "options"),
    [
        (lambda: nn.Conv2d(2, 4, 3), nn.BatchNorm2d, (2, 2, 5, 5), {}),
        (lambda: nn.Conv1d(2, 4, 3, bias=False, groups=2), nn.BatchNorm1d, (2, 2, 5), {}),
        (lambda: nn.ConvTranspose2d(2, 4, 3), nn.BatchNorm2d, (2, 2, 3, 3), {"transpose": True}),
        (lambda: nn.Linear(3, 4), nn.BatchNorm1d, (5, 3), None),
    ],
)
@pytest.mark.parametrize("affine", [True, False])
def test_a_folded_batch_norm(layer, norm, shape, options, affine):
    first, second = layer().eval(), settled(norm(4, affine=affine))
    x = tl.tensor(draw(*shape))
    if options is None:
        fused = nn.utils.fuse_linear_bn_eval(first, second)
    else:
        fused = nn.utils.fuse_conv_bn_eval(first, second, **options)
    assert type(fused) is type(first) and fused.weight is not first.weight
    np.testing.assert_allclose(values(fused(x)), values(second(first(x))), rtol=2e-5, atol=2e-5)


def test_folding_refuses():
    with pytest.raises(AssertionError, match="eval"):
        nn.utils.fuse_conv_bn_eval(nn.Conv1d(1, 2, 1), nn.BatchNorm1d(2).eval())
    with pytest.raises(AssertionError, match="running moments"):
        nn.utils.fuse_conv_bn_eval(nn.Conv1d(1, 2, 1).eval(), nn.BatchNorm1d(2, track_running_stats=False).eval())
    with pytest.raises(AssertionError, match="4 output features, and a batch norm of 3"):
        nn.utils.fuse_linear_bn_eval(nn.Linear(2, 4).eval(), nn.BatchNorm1d(3).eval())


def test_skip_init_draws_nothing():
    tl.manual_seed(0)
    before = tl.get_rng_state()
    layer = nn.utils.skip_init(nn.Linear, 3, out_features=2, bias=False)
    assert tl.equal(tl.get_rng_state(), before) and layer.weight.shape == (2, 3) and layer.bias is None
    with pytest.raises(RuntimeError, match="class of modules"):
        nn.utils.skip_init(tl.ones)
