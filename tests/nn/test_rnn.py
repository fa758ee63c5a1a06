"""Recurrent layers: formulas, the documents' options, compiled training, packed sequences. PyTorch: test_rnn_torch."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn, optim
from tinygrad_lite.nn import functional as F
from tinygrad_lite.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

LAYERS = {"RNN": nn.RNN, "LSTM": nn.LSTM, "GRU": nn.GRU}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_lstm_formula():
    layer = nn.LSTM(3, 4)
    x = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)
    w_ih, w_hh, b_ih, b_hh = (p.detach().numpy() for p in layer.parameters())
    h = c = np.zeros((2, 4), np.float32)
    outputs = []
    for row in x:
        i, f, g, o = np.split(row @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    out, (last, memory) = layer(tl.tensor(x))
    np.testing.assert_allclose(out.detach().numpy(), outputs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last.detach().numpy()[0], h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(memory.detach().numpy()[0], c, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_one_bias(name):
    layer = LAYERS[name](3, 4, num_layers=2, bidirectional=True, one_bias=True)
    names = list(layer.state_dict())
    assert names[:3] == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0"]
    assert not any(n.startswith("bias_hh") for n in names)
    two = LAYERS[name](3, 4, num_layers=2, bidirectional=True)
    state = two.state_dict()
    two.load_state_dict({k: layer.state_dict().get(k, tl.zeros_like(v)) for k, v in state.items()})
    x = tl.randn(5, 2, 3)
    np.testing.assert_allclose(layer(x)[0].detach().numpy(), two(x)[0].detach().numpy(), rtol=1e-6, atol=1e-6)


def test_forget_bias():
    layer = nn.LSTM(3, 4, num_layers=2, forget_bias=1.0)
    for n in range(2):
        total = getattr(layer, f"bias_ih_l{n}") + getattr(layer, f"bias_hh_l{n}")
        assert total[4:8].tolist() == [1.0] * 4
        assert 1.0 not in total[:4].tolist()
    assert nn.LSTM(3, 4, one_bias=True, forget_bias=2.0).bias_ih_l0[4:8].tolist() == [2.0] * 4


def test_initial_values():
    tl.manual_seed(0)
    for p in nn.GRU(3, 16).parameters():
        assert p.abs().max().item() <= 0.25
        assert p.std().item() == pytest.approx(0.25 / np.sqrt(3), rel=0.3)


def test_shown():
    assert repr(nn.LSTM(3, 4, 2, batch_first=True)) == "LSTM(3, 4, num_layers=2, batch_first=True)"
    assert repr(nn.LSTM(3, 4, proj_size=2, one_bias=True)) == "LSTM(3, 4, proj_size=2, one_bias=True)"
    assert repr(nn.RNNCell(3, 4, nonlinearity="relu")) == "RNNCell(3, 4, nonlinearity=relu)"


def test_dropout_between_layers():
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        nn.GRU(3, 4, dropout=0.5)
    layer = nn.GRU(3, 4, 2, dropout=0.5)
    x = tl.randn(6, 2, 3)
    assert not tl.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert tl.equal(layer(x)[0], layer(x)[0])
    tl.manual_seed(1)
    layer.train()
    eager = layer(x)[0].detach().numpy()
    tl.manual_seed(1)
    np.testing.assert_allclose(tl.compile(layer)(x)[0].detach().numpy(), eager, rtol=1e-5, atol=1e-6)


def test_states_cannot_be_of_the_wrong_kind():
    with pytest.raises(RuntimeError, match="LSTM: hx must be a pair"):
        nn.LSTM(3, 4)(tl.zeros(2, 1, 3), tl.zeros(1, 1, 4))
    with pytest.raises(RuntimeError, match="GRU: hx must be a tensor"):
        nn.GRU(3, 4)(tl.zeros(2, 1, 3), (tl.zeros(1, 1, 4),) * 2)
    with pytest.raises(RuntimeError, match=r"Expected hidden\[1\] size \(1, 1, 4\), got \[1, 1, 5\]"):
        nn.LSTM(3, 4)(tl.zeros(2, 1, 3), (tl.zeros(1, 1, 4), tl.zeros(1, 1, 5)))


def trained(name, compiled, options, steps=5):
    """Losses and parameters of a few steps."""
    tl.manual_seed(0)
    layer, head = LAYERS[name](3, 8, **options), nn.Linear(8 * (1 + options.get("bidirectional", False)), 2)
    parameters = [*layer.parameters(), *head.parameters()]
    optimizer = optim.AdamW(parameters, lr=1e-2)
    x, y = tl.randn(6, 4, 3), tl.tensor([0, 1, 0, 1])

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(head(layer(x)[0][-1]), y)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss

    run = tl.compile(step) if compiled else step
    return [run(x, y).item() for _ in range(steps)], [p.detach().numpy() for p in parameters]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}], ids=str)
def test_compiled_training_equals_eager(name, options):
    eager, compiled = trained(name, False, options), trained(name, True, options)
    assert eager[0][-1] < eager[0][0]
    np.testing.assert_allclose(compiled[0], eager[0], rtol=1e-4)
    for a, b in zip(eager[1], compiled[1], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-4)


def test_the_input_product_is_taken_once():
    layer = nn.LSTM(3, 8)
    compiled = tl.compile(layer)
    compiled(tl.randn(50, 4, 3))
    graph = compiled.graph()
    outside = [n for n in graph if n.op.name == "matmul"]
    (loop,) = [n for n in graph if n.op.name == "scan"]
    assert [n.shape for n in outside] == [(200, 32)]
    assert [n.shape for n in loop.attrs["body"] if n.op.name == "matmul"] == [(4, 32)]


def test_packed_in_a_capture():
    layer = nn.LSTM(3, 4, bidirectional=True)
    x, lengths = tl.randn(5, 3, 3), [4, 5, 2]

    def run(x):
        out, state = layer(pack_padded_sequence(x, lengths, enforce_sorted=False))
        return pad_packed_sequence(out)[0], state

    eager, compiled = run(x), tl.compile(run)(x)
    np.testing.assert_allclose(compiled[0].detach().numpy(), eager[0].detach().numpy(), rtol=1e-5, atol=1e-6)
    for i, n in enumerate(lengths):  # each sequence by itself
        alone, (h, _) = layer(x[:n, i : i + 1])
        np.testing.assert_allclose(eager[0][:n, i].detach().numpy(), alone[:, 0].detach().numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(eager[1][0][:, i].detach().numpy(), h[:, 0].detach().numpy(), rtol=1e-5, atol=1e-6)
        assert not eager[0][n:, i].any()


def test_cells_in_a_scan_are_the_layer():
    tl.manual_seed(0)
    layer, cell = nn.LSTM(3, 4), nn.LSTMCell(3, 4)
    cell.load_state_dict({k.removesuffix("_l0"): v for k, v in layer.state_dict().items()})
    x = tl.randn(7, 2, 3)

    def step(state, row):
        state = cell(row, state)
        return state, state[0]

    for run in (tl.scan, tl.compile(lambda start, x: tl.scan(step, start, x))):
        start = (tl.zeros(2, 4), tl.zeros(2, 4))
        (h, c), out = run(step, start, x) if run is tl.scan else run(start, x)
        want, (h_n, c_n) = layer(x)
        for got, w in ((out, want), (h, h_n[0]), (c, c_n[0])):
            np.testing.assert_allclose(got.detach().numpy(), w.detach().numpy(), rtol=1e-5, atol=1e-6)


COMPILE = """
import sys, time
import tinygrad_lite as tl
from tinygrad_lite import nn
layer = nn.LSTM(16, 32)
x = tl.randn(int(sys.argv[1]), 8, 16)
def step(x):
    layer.zero_grad()
    loss = (layer(x)[0][-1] ** 2).sum()
    loss.backward()
    return loss
compiled = tl.compile(step)
start = time.process_time()
compiled(x)
first = time.process_time() - start
start = time.process_time()
compiled(x)
print(first - (time.process_time() - start))
"""


@pytest.mark.slow
def test_compile_time_does_not_grow_with_the_steps(tmp_path):
    def seconds(steps, run):
        environment = {**os.environ, "TINYGRAD_LITE_CACHE_DIR": str(tmp_path / f"{steps}-{run}")}
        command = [sys.executable, "-c", COMPILE, str(steps)]
        return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    short, long = (min(seconds(steps, run) for run in range(3)) for steps in (10, 1000))
    assert long < 1.2 * short


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("run", [lambda f: f, tl.compile], ids=["eager", "compiled"])
def test_padded_batches_with_lengths(kind, run):
    """As the packed ones; lengths are values, so one capture serves all, and filler reaches nothing."""
    tl.manual_seed(0)
    layer = kind(3, 4, 2, batch_first=True, bidirectional=True).double()

    def trained(x, lengths):
        x = x.detach().requires_grad_()
        out, last = layer(x, lengths=lengths)
        last = last if isinstance(last, tuple) else (last,)
        return out, *last, tl.autograd.grad(out.pow(2).sum() + sum(s.sum() for s in last), x)[0]

    calls = run(trained)
    for lengths in ([5, 2, 3], [1, 5, 4]):
        x = tl.randn(3, 5, 3, dtype=tl.float64)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, last = layer(packed)
        last = last if isinstance(last, tuple) else (last,)
        want = (pad_packed_sequence(out, batch_first=True, total_length=5)[0], *last)
        for i, n in enumerate(lengths):
            x[i, n:] = float("nan")
        *got, slope = calls(x, tl.tensor(lengths))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-14)
        assert np.isfinite(slope.numpy()).all()
        assert all((slope[i, n:] == 0).all() and (slope[i, :n] != 0).all() for i, n in enumerate(lengths))


def test_lengths_are_checked():
    layer, x = nn.GRU(3, 4), tl.zeros(5, 2, 3)
    with pytest.raises(ValueError, match=r"GRU: lengths must lie in 0 … 5, not \[6, 1\]"):
        layer(x, lengths=[6, 1])
    with pytest.raises(ValueError, match=r"GRU: lengths need integers of shape \(2,\), got int64 of shape \(3,\)"):
        layer(x, lengths=tl.tensor([1, 2, 3]))
    with pytest.raises(ValueError, match="a packed input has its lengths with it"):
        layer(pack_padded_sequence(x, [5, 5]), lengths=[5, 5])
    assert (layer(x, lengths=[0, 5])[1][0, 0] == 0).all()
