"""Diagnostics against values known beforehand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import diagnostics as D
from tinygrad_lite import nn
from tinygrad_lite.models import build, mlp
from tinygrad_lite.nn import functional as F

RNG = np.random.default_rng(0)


def draw(*shape: int) -> tl.Tensor:
    return tl.tensor(RNG.standard_normal(shape).astype(np.float32))


def scalar_chain(factor: float, length: int) -> nn.Sequential:
    net = nn.Sequential(*[nn.Linear(1, 1, bias=False) for _ in range(length)])
    for layer in net:
        nn.init.constant_(layer.weight, factor)
    return net


def test_gradient_norms():
    net = scalar_chain(0.8, 50)
    x = tl.ones(1, 1)
    net[0].weight.grad = tl.full((1, 1), 7.0)
    by_layer = D.activation_gradients(net, lambda: net(x).sum())
    assert by_layer["gradient norm"][0] == pytest.approx(0.8**49, rel=1e-4)
    assert by_layer.x[0] == "0" and by_layer["gradient norm"][-1] == 1
    weights = D.gradient_norms(net, lambda: net(x).sum())
    assert list(weights.x) == [str(i) for i in range(50)]
    np.testing.assert_allclose(weights["gradient norm"], 0.8**49, rtol=1e-4)
    assert net[0].weight.grad.item() == 7.0 and net[1].weight.grad is None


def test_gradient_by_span():
    rnn = nn.RNN(1, 3, batch_first=True, one_bias=True)
    nn.init.zeros_(rnn.bias_ih_l0)
    with tl.no_grad():
        rnn.weight_hh_l0.copy_(tl.eye(3) * 0.5)
    found = D.gradient_by_span(rnn, tl.zeros(1, 8, 1), factor=0.5)
    np.testing.assert_allclose(found["gradient"], math.sqrt(3) * 0.5 ** np.arange(8), rtol=1e-5)
    np.testing.assert_allclose(found["bound"], found["gradient"], rtol=1e-5)
    random = nn.RNN(2, 6, batch_first=True)
    s = np.linalg.norm(random.weight_hh_l0.detach().numpy(), 2)
    found = D.gradient_by_span(random, draw(1, 12, 2), factor=s)
    assert np.all(found["gradient"] <= found["bound"] * (1 + 1e-5))
    assert len(D.gradient_by_span(nn.LSTM(2, 3, batch_first=True), draw(2, 5, 2))["gradient"]) == 5


def test_dead_units():
    net = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))
    with tl.no_grad():
        net[0].bias.copy_(tl.tensor([-1e3, 1e3, 0.0, -1e3, 1e3, 0.0]))
    found = D.dead_units(net, [draw(20, 3), draw(30, 3)])["1"]
    assert found[[0, 3]].tolist() == [1, 1] and found[[1, 4]].tolist() == [0, 0] and 0 < found[2] < 1
    histogram = D.activation_histograms(net, draw(40, 3), bins=10)
    assert histogram.counts["1"].sum() == 240 and histogram.zeros["1"] >= 80
    conv = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU())
    assert D.dead_units(conv, [draw(2, 1, 5, 5)], axis=1)["1"].shape == (3,)
    with pytest.raises(ValueError, match="no ReLU"):
        D.dead_units(nn.Linear(2, 2), [])
    assert D.update_counts(tl.tensor([[3, 3], [0, 3]]), 5).tolist() == [1, 0, 0, 3, 0]


def test_residual_stream():
    class Add(nn.Module):
        def forward(self, x):
            return x + tl.randn(*x.shape)

    tl.manual_seed(0)
    net = nn.Sequential(*[Add() for _ in range(12)])
    found = D.residual_variance(list(net), lambda: net(tl.randn(200, 100)))
    np.testing.assert_allclose(found["variance"], 1 + np.arange(1, 13), rtol=0.05)
    np.testing.assert_allclose(found["‖F(x)‖ / ‖x‖"], 1 / np.sqrt(np.arange(1, 13)), rtol=0.05)
    model = build("gpt-tiny").eval()
    ids = tl.zeros(1, 5, dtype=tl.int64)
    assert len(D.residual_variance(list(model.blocks), lambda: model(ids)).x) == 2


@pytest.mark.parametrize("name", ["gpt-tiny", "llama-tiny", "encoder-tiny", "t5-tiny", "vit-tiny", "dit-tiny"])
def test_attention_of_every_family(name):
    model = build(name).eval()
    ids = tl.tensor(RNG.integers(1, 10, (2, 6)))
    inputs = {"vit-tiny": (draw(2, 1, 8, 8),), "t5-tiny": (ids, ids)}.get(name, (ids,))
    if name == "dit-tiny":
        inputs = (draw(2, 1, 4, 4), tl.tensor([1, 2]), tl.tensor([0, 1]))
    report = D.attention_report(model, *inputs)
    assert len(report.x) == (6 if name == "t5-tiny" else 2)
    for path, weights in report.weights.items():
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5, err_msg=path)
    assert np.all(report["entropy"] > 0) and np.all(report["saturated"] <= 1)
    if name in ("gpt-tiny", "llama-tiny"):
        assert all(np.all(np.triu(w, 1) == 0) for w in report.weights.values())
        np.testing.assert_allclose(report["saturated"].min(), 1 / 6, atol=0.02)  # the first position sees itself only


def test_entropy():
    assert D.entropy(np.full(8, 1 / 8)) == pytest.approx(math.log(8))
    assert D.entropy(tl.tensor([[1.0, 0.0]])).tolist() == [0]


def test_jacobians():
    layers = [nn.Linear(4, 5).double(), nn.Tanh(), nn.Linear(5, 3).double()]
    x = tl.tensor(RNG.standard_normal(4))
    found = D.jacobian_product(layers, x)
    np.testing.assert_allclose(found.product, D.jacobian(nn.Sequential(*layers), x), atol=1e-12)
    np.testing.assert_allclose(found.each[0], layers[0].weight.detach().numpy())
    assert found["‖∏ J‖"][-1] == pytest.approx(np.linalg.norm(found.product, 2))
    residual = D.jacobian(lambda v: v + layers[2](layers[0](v)).sum(), x)
    inner = D.jacobian(lambda v: layers[2](layers[0](v)).sum(), x)
    np.testing.assert_allclose(residual, np.eye(4) + np.ones((4, 1)) * inner, atol=1e-12)
    assert not D.jacobian(lambda v: tl.ones(2), x).any()
    shares = D.path_shares(50, 0.5)
    assert shares.sum() == pytest.approx(1) and (shares * np.arange(51)).sum() == pytest.approx(50 * 0.5 / 1.5)


def test_pieces():
    for folds in (1, 3, 6):
        assert D.count_pieces(mlp.fold_network(folds).double(), 0, 1, 2 ** (folds + 1)) == 2**folds
    assert D.count_pieces(lambda x: x.relu(), -1, 1, 8) == 2 and D.count_pieces(lambda x: 3 * x, -1, 1, 8) == 1
    found = D.count_pieces(lambda x: x.relu(), -1, 1, 8)
    assert found.kinks.tolist() == [0.0] and found.y.tolist() == np.maximum(found.x, 0).tolist()


def test_support_and_equivariance():
    conv = nn.Conv1d(1, 1, 3, padding=1, bias=False)
    support = D.gradient_support(conv, tl.ones(1, 1, 9), (0, 0, 4))
    assert np.flatnonzero(support).tolist() == [3, 4, 5]
    x = draw(1, 1, 32)
    assert D.equivariance_gap(conv, x, 3, margin=1) < 1e-6
    dense = nn.Linear(32, 32)
    assert D.equivariance_gap(dense, x, 3) > 0.1


def test_forget_gates():
    lstm = nn.LSTM(2, 3, batch_first=True, forget_bias=2.0, one_bias=True)
    with tl.no_grad():
        lstm.weight_hh_l0.copy_(tl.zeros(12, 3))
    found = D.forget_gates(lstm, tl.zeros(1, 7, 2))
    bias = lstm.bias_ih_l0.detach().numpy()[3:6]
    gate = 1 / (1 + np.exp(-bias))
    np.testing.assert_allclose(found.gates[0, 0], gate, rtol=1e-5)
    np.testing.assert_allclose(found.product[0], gate**7, rtol=1e-5)
    random, x = nn.LSTM(2, 3, batch_first=True), draw(2, 5, 2)
    gates = D.forget_gates(random, x).gates
    # c' = f c + i g: two cells that differ in c alone differ by f of it after one step
    h, c = tl.zeros(1, 2, 3), draw(1, 2, 3)
    _, (_, low) = random(x[:, :1], (h, tl.zeros(1, 2, 3)))
    _, (_, high) = random(x[:, :1], (h, c))
    np.testing.assert_allclose(((high - low) / c)[0].detach().numpy(), gates[0], rtol=1e-4)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("one_bias", [False, True])
def test_all_gates_make_the_states(kind, one_bias):
    """From the gates alone, by the formulae, the states the layer gave; and every gate in its range."""
    rnn, x = kind(2, 3, num_layers=2, batch_first=True, one_bias=one_bias), draw(2, 5, 2)
    h, c = draw(2, 2, 3), draw(2, 2, 3)
    state = (h, c) if kind is nn.LSTM else h
    found = D.recurrent_gates(rnn, x, state)
    single = kind(2, 3, batch_first=True, one_bias=one_bias)
    single.load_state_dict({k: v for k, v in rnn.state_dict().items() if k.endswith("l0")})
    first = (h[:1], c[:1]) if kind is nn.LSTM else h[:1]
    states = single(x, first)[0].detach().numpy()
    h, c = h[0].numpy(), c[0].numpy()
    for t in range(5):
        if kind is nn.LSTM:
            i, f, g, o = (found.gates[n][t] for n in ("input", "forget", "candidate", "output"))
            c = f * c + i * g
            h = o * np.tanh(c)
        else:
            update, new = (found.gates[n][t] for n in ("update", "candidate"))
            h = update * h + (1 - update) * new
        np.testing.assert_allclose(h, states[:, t], rtol=1e-4, atol=1e-6)
    for name, values in found.gates.items():
        assert values.shape == (5, 2, 3)
        assert values.max() < 1 and values.min() > (-1 if name == "candidate" else 0)
        np.testing.assert_allclose(found[name], values.mean(axis=(1, 2)))


def test_recurrent_diagnostics_refuse():
    with pytest.raises(ValueError, match="RNN has no gates"):
        D.recurrent_gates(nn.RNN(2, 3, batch_first=True), draw(1, 4, 2))
    for call in (D.recurrent_gates, D.forget_gates, D.gradient_by_span):
        with pytest.raises(ValueError, match="LSTM must have batch_first=True"):
            call(nn.LSTM(2, 3), draw(1, 4, 2))


def test_nothing_to_look_at():
    net, x = nn.Linear(2, 2), draw(3, 2)
    for call, message in (
        (lambda: D.dead_units(net, [x]), "no ReLU module"),
        (lambda: D.activation_histograms(net, x), "no activation module"),
        (lambda: D.attention_report(net, x), "no layer of attention"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_path_products():
    """Their sum is the Jacobian of the stack, later blocks on the left."""
    blocks = [0.3 * RNG.standard_normal((4, 4)) for _ in range(3)]
    paths = D.path_products(blocks)
    assert set(paths) == {(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)}
    np.testing.assert_array_equal(paths[0, 2], blocks[2] @ blocks[0])
    eye = np.eye(4)
    np.testing.assert_allclose(sum(paths.values()), (eye + blocks[2]) @ (eye + blocks[1]) @ (eye + blocks[0]))
    assert len(D.path_products([])) == 1 and D.path_products([tl.tensor(2.0)])[(0,)].item() == 2


def test_first_not_finite():
    x = tl.tensor([1.0, 0.0]).requires_grad_()
    y = (x * 2).log() + 1
    z = (y * 0).sum() * 3
    found = D.first_not_finite(z)
    assert (found.op, found.kind, found.count) == ("log", "infinite", 1)
    assert "test_diagnostics.py" in str(found)
    assert D.first_not_finite(F.relu(x)) is None


def test_quantisation():
    x = RNG.standard_normal((64, 16))
    whole, scale = D.quantise(x)
    assert np.abs(whole).max() == 127 and np.abs(whole * scale - x).max() <= scale / 2 + 1e-12
    loud = x.copy()
    loud[:, 3] *= 100
    rest = np.delete(loud, 3, 1)
    step = D.quantise(loud)[1]
    error = np.sqrt(np.mean((np.round(rest / step) * step - rest) ** 2))
    assert error > 30 * D.quantisation_error(rest)
    assert D.outlier_ratio(loud) > 30 > D.outlier_ratio(x)


def test_plots(tmp_path):
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    x = draw(5, 3)
    for i, found in enumerate(
        (
            D.gradient_norms(net, lambda: net(x).sum()),
            D.gradient_by_span(nn.GRU(2, 3, batch_first=True), draw(1, 4, 2), factor=0.9),
            D.activation_histograms(net, x),
            D.attention_report(build("gpt-tiny"), tl.zeros(1, 4, dtype=tl.int64)),
            D.jacobian_product(list(net), x[0]),
            D.forget_gates(nn.LSTM(2, 3, batch_first=True), draw(1, 4, 2)),
            D.recurrent_gates(nn.GRU(2, 3, batch_first=True), draw(1, 4, 2)),
            D.activation_gradients(net, lambda: net(x).sum()),
            D.residual_variance([net[1]], lambda: net(x)),
            D.dead_units(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), [draw(4, 2)]),
            D.count_pieces(lambda x: x.relu(), -1, 1, 8),
        )
    ):
        path = tmp_path / f"{i}.svg"
        figure = found.plot(path)
        assert figure.axes and path.read_text().lstrip().startswith("<?xml")


def test_number_formats():
    x = tl.tensor([1e38, 1e5, 1.0, 1e-3, 1e-8, 0.0])
    found = D.number_formats(x)
    assert {name: loss.bytes for name, loss in found.items()} == {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
    assert found["float32"][1:] == (0.0, 0.0, 0.0)
    assert (found["float16"].infinite, found["float16"].zero) == (2 / 6, 1 / 6)
    assert (found["bfloat16"].infinite, found["bfloat16"].zero) == (0.0, 0.0)
    assert 0 < found["float16"].error < 2**-11 < found["bfloat16"].error < 2**-8
    assert (found["int8"].infinite, found["int8"].zero) == (0.0, 4 / 6)


@pytest.mark.parametrize("run", [lambda f: f, tl.compile], ids=["eager", "compiled"])
def test_rounding_to_a_narrow_format(run):
    x = tl.tensor([1.0 + 2**-9, 65_504.0, 1e38, 1e-9], requires_grad=True)

    def rounds(x):
        y = D.rounded(x, tl.float16)
        return y, D.rounded(x, tl.bfloat16), tl.autograd.grad(y, x, tl.tensor([1.0, 1.0 + 2**-12, 1e-9, 70_000.0]))[0]

    half, brain, slope = (v.tolist() for v in run(rounds)(x))
    assert half == [1.0 + 2**-9, 65_504.0, math.inf, 0.0]
    assert brain[0] == 1.0 and math.isfinite(brain[2]) and brain[3] > 0
    assert slope == [1.0, 1.0, 0.0, math.inf]
