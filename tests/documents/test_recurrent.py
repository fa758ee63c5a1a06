"""Recurrence and gates: A §5 and §6. The span factors of A §5 take tanh' at 1 for its maximum, which is 1, at 0."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.documents.helpers import close, count_parameters, gradient, jacobian, seeded, t, value
from tinygrad_lite import diagnostics, nn
from tinygrad_lite.models import arithmetic as ar

SPANS = (10, 25, 50, 100)


def filled(module, **values):
    """In float64, all parameters zero but those given."""
    module = module.double()
    for name, p in module.named_parameters():
        nn.init.zeros_(p)
        if name in values:
            with tl.no_grad():
                p.copy_(t(values[name]).expand(*p.shape))
    return module


def span_gradient(rnn, steps, run, h=0.0, drive=0.0):
    """dh_n / dh_0 of a scalar recurrence."""
    x = t(np.full((steps, 1, 1), drive))

    def of(h):
        h = h.detach().requires_grad_(True)
        return tl.autograd.grad(rnn(x, h)[1].sum(), h)[0]

    return run(of)(t([[[h]]])).item()


def test_RNN_01_slope_of_tanh(run):
    close(run(gradient(tl.tanh))(t([0.0, 1.0])), [1.0, 0.4199743], 1e-7)


def test_RNN_02_factor_a_step():
    close(0.42 * 2, 0.84, 1e-12)
    close(2 * (1 - math.tanh(1) ** 2), 0.8399487, 1e-7)


def test_RNN_03_spans():
    close([0.84**n for n in SPANS], [0.1749012, 0.01279329, 1.636682e-4, 2.678728e-8], rtol=1e-6)


def test_RNN_04_vanishing(run):
    rnn = filled(nn.RNN(1, 1), weight_hh_l0=0.84)
    close([span_gradient(rnn, n, run) for n in SPANS], [0.84**n for n in SPANS], rtol=1e-9)


def test_RNN_05_vanishing_at_unit_pre_activations(run):
    rnn, drive = filled(nn.RNN(1, 1), weight_hh_l0=2.0, weight_ih_l0=1.0), 1 - 2 * math.tanh(1)
    got = [span_gradient(rnn, n, run, h=math.tanh(1), drive=drive) for n in SPANS]
    close(got, [0.1747944, 0.01277376, 1.631690e-4, 2.662413e-8], rtol=1e-6)


def test_RNN_06_exploding(run):
    close(1.2**100, 8.281797e7, rtol=1e-6)
    close(span_gradient(filled(nn.RNN(1, 1), weight_hh_l0=1.2), 100, run), 1.2**100, rtol=1e-6)


def test_RNN_08_norm_bound(run):
    """With the factor of the last state's gradient, which the document leaves out."""
    rnn = nn.RNN(8, 8).double()
    x = seeded(20, 1, 8)

    def both(h):
        h = h.detach().requires_grad_(True)
        states, last = rnn(x, h)
        loss = last.pow(3).sum()
        return states, *tl.autograd.grad(loss, [h, last])

    states, first, last = run(both)(seeded(1, 1, 8, seed=1))
    slope = (1 - states.square()).amax().item()
    stretch = np.linalg.norm(rnn.weight_hh_l0.detach().numpy(), 2)
    assert first.norm().item() <= (slope * stretch) ** 20 * last.norm().item() + 1e-12


def test_RNN_09_small_is_not_zero_in_float32():
    """2.7e-8 beside 1e-2 is 29 units in the last place: negligible, and not nothing, as the document has it."""
    large, small = tl.tensor(0.01), tl.tensor(2.7e-8)
    assert (large + small).item() != large.item()
    spacing = np.spacing(np.float32(0.01))
    close(float(spacing), 9.313e-10, rtol=1e-3)
    assert round(2.7e-8 / float(spacing)) == 29


# What part 1 asks of recurrence


def test_a_step_by_hand(run):
    cell = nn.RNNCell(3, 2).double()
    x, h = seeded(4, 3), seeded(4, 2, seed=1)
    want = (x @ cell.weight_ih.T + cell.bias_ih + h @ cell.weight_hh.T + cell.bias_hh).tanh()
    close(run(cell)(x, h), want, 1e-14)


def test_one_bias_form_of_the_documents():
    """d_h² + d_in·d_h + d_h, and so for each gate."""
    for kind, gates in ((nn.RNN, 1), (nn.LSTM, 4), (nn.GRU, 3)):
        assert count_parameters(kind(3, 5, one_bias=True)) == gates * (25 + 15 + 5)
        assert count_parameters(kind(3, 5)) == gates * (25 + 15 + 2 * 5)


def test_jacobian_of_a_step(run):
    cell = nn.RNNCell(2, 4).double()
    x, h = seeded(2), seeded(4, seed=1)
    got = run(lambda h: jacobian(lambda h: cell(x, h), h))(h)
    new = cell(x, h)
    close(got, (1 - new.square()).reshape(4, 1) * cell.weight_hh, 1e-12)


def test_backpropagation_through_time(run):
    """Against central differences; shared weights collect from every step."""
    rnn, x = nn.RNN(2, 3).double(), seeded(6, 1, 2)

    def grads(x):
        return tl.autograd.grad(rnn(x)[0].square().sum(), list(rnn.parameters()))

    for p, g in zip(rnn.parameters(), run(grads)(x), strict=True):
        direction = seeded(*p.shape, seed=3)
        ends = []
        for sign in (1e-6, -1e-6):
            with tl.no_grad():
                p.add_(direction * sign)
                ends.append(rnn(x)[0].square().sum().item())
                p.sub_(direction * sign)
        close((g * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


# Gates


def forget_bias(f):
    return math.log(f / (1 - f))


def cell_gradient(lstm, steps, run, h=0.0, c=0.0):
    """dc_n / dc_0."""
    x = t(np.zeros((steps, 1, lstm.input_size)))

    def of(c):
        c = c.detach().requires_grad_(True)
        return tl.autograd.grad(lstm(x, (t([[[h]]]), c))[1][1].sum(), c)[0]

    return run(of)(t([[[c]]])).item()


def gates(f=0.0, weight=0.0):
    """A scalar LSTM with a forget bias and one recurrent weight; gates stand in the order i, f, g, o."""
    return filled(nn.LSTM(1, 1), bias_ih_l0=[0.0, f, 0.0, 0.0], weight_hh_l0=[[weight]] * 4)


def test_LSTM_01_forget_gate_at_99_percent(run):
    close(0.99**100, 0.3660323, 1e-7)
    close(cell_gradient(gates(forget_bias(0.99)), 100, run), 0.3660323, 1e-7)


def test_LSTM_02_forget_gate_at_95_percent(run):
    close(0.95**100, 0.005920529, 1e-9)
    close(cell_gradient(gates(forget_bias(0.95)), 100, run), 0.005920529, 1e-9)


def test_LSTM_03_forget_gate_at_half(run):
    close([0.5**100, 0.5**10], [7.888609e-31, 9.765625e-4], rtol=1e-6)
    close(cell_gradient(gates(0.0), 100, run), 7.888609e-31, rtol=1e-6)


def test_LSTM_04_gates_at_the_start(run):
    close(run(tl.sigmoid)(t([0.0, 1.0, 2.0])), [0.5, 0.7310586, 0.8807971], 1e-7)


@pytest.mark.parametrize("bias, short, long", [(1.0, 0.0436, 2.484e-14), (2.0, 0.2810, 3.073e-6)])
def test_LSTM_05_biases_of_one_and_two(run, bias, short, long):
    """Better than none over ten steps; over a hundred neither survives, though the document places them there."""
    close(cell_gradient(gates(bias), 10, run), short, rtol=1e-3)
    close(cell_gradient(gates(bias), 100, run), long, rtol=1e-3)


def test_LSTM_06_biases_that_survive(run):
    close([forget_bias(0.99), forget_bias(0.95)], [4.595120, 2.944439], 1e-6)
    close(run(tl.sigmoid)(t([4.595120, 2.944439])), [0.99, 0.95], 1e-6)


def test_LSTM_07_the_direct_path_and_the_whole(run):
    """The product of forget gates is the path through the cell alone; the gates read h, which reads the cell."""
    close(cell_gradient(gates(math.log(99)), 100, run), 0.3660323, 1e-7)
    close(cell_gradient(gates(1.0, weight=0.5), 5, run, h=0.1, c=0.3), 0.449344, 1e-5)
    cell = filled(nn.LSTMCell(1, 1), bias_ih=[0.0, 1, 0, 0], weight_hh=[[0.5]] * 4)
    h, c, product = t([[0.1]]), t([[0.3]]), 1.0
    for _ in range(5):
        product *= (0.5 * h + 1.0).sigmoid().item()
        h, c = cell(t([[0.0]]), (h, c))
    close(product, 0.223442, 1e-5)
    close(cell_gradient(gates(1.0), 5, run, h=0.1, c=0.3), 0.208815, 1e-5)


def test_LSTM_08_one_gate():
    assert count_parameters(nn.RNN(512, 512, one_bias=True)) == 524_800 == 262_144 + 262_144 + 512


def test_LSTM_09_four_and_three_gates():
    lstm, gru = (count_parameters(kind(512, 512, one_bias=True)) for kind in (nn.LSTM, nn.GRU))
    assert (lstm, gru) == (2_099_200, 1_574_400) and 1 - gru / lstm == 0.25


def test_LSTM_10_two_biases_a_gate():
    assert count_parameters(nn.LSTM(512, 512)) == 2_101_248
    assert count_parameters(nn.GRU(512, 512)) == 1_575_936


@pytest.mark.parametrize("z, want", [(0.0, 2.0), (1.0, -1.0), (0.25, 1.25)])
def test_LSTM_11_update_gate(run, z, want):
    """h = (1 - z) h' + z g; PyTorch's z, and so the cell's, is the document's 1 - z."""
    close(run(lambda h, g, z: (1 - z) * h + z * g)(t(2.0), t(-1.0), t(z)), want, 1e-12)
    cell = filled(nn.GRUCell(1, 1))
    own = 1 - z
    bias = forget_bias(own) if 0 < own < 1 else 1e3 * (1 if own else -1)
    with tl.no_grad():
        cell.bias_ih.copy_(t([0.0, bias, math.atanh(-0.9)]))
    new = run(cell)(t([[0.0]]), t([[2.0]])).item()
    close(new, (1 - z) * 2.0 + z * -0.9, 1e-12)


def longest_path(graph):
    """Ops on the longest chain; a scan counts its body once a step."""
    depth = {}
    for node in graph.nodes:
        own = longest_path(node.attrs["body"]) * node.attrs["length"] if node.op.name == "scan" else 1
        depth[node] = own + max((depth[i] for i in node.inputs), default=0)
    return max(depth.values())


def test_LSTM_12_sequential_steps():
    """A recurrence's critical path grows with its length, attention's does not."""
    lstm, attention = nn.LSTM(4, 4), nn.MultiheadAttention(4, 2, batch_first=True)

    def path(layer, n):
        return longest_path(tl.trace(layer, tl.zeros(n, 1, 4)))

    def attend(x):
        x = x.transpose(0, 1)
        return attention(x, x, x, need_weights=False)[0]

    assert path(lambda x: lstm(x)[0], 1000) - path(lambda x: lstm(x)[0], 10) >= 990
    assert path(attend, 1000) == path(attend, 10)


def test_LSTM_13_memory_of_a_stream(run):
    """Two vectors a layer, whatever the length; a cache grows by a token's keys and values."""
    lstm = nn.LSTM(4, 16)
    sizes = [sum(s.numel() * 4 for s in run(lstm)(tl.zeros(n, 1, 4))[1]) for n in (10, 1000)]
    assert sizes == [2 * 16 * 4] * 2
    small, large = (nn.KVCache(2, 1, 4, n, 8).nbytes() for n in (10, 1000))
    assert large == 100 * small
    token = ar.kv_bytes_per_token(32, 32, 128)
    assert token == 512 * 2**10 and token * 8192 == 4 * 2**30
    assert ar.recurrent_state_bytes("lstm", 16) == sizes[0]


def test_gates_by_hand(run):
    """One step of both cells from the formulae; the fused weights are the gates' own, stacked."""
    x, h, c = seeded(3, 2), seeded(3, 4, seed=1), seeded(3, 4, seed=2)
    lstm = nn.LSTMCell(2, 4).double()
    both = x @ lstm.weight_ih.T + lstm.bias_ih + h @ lstm.weight_hh.T + lstm.bias_hh
    i, f, g, o = (both[:, k * 4 : (k + 1) * 4] for k in range(4))
    i, f, o = i.sigmoid(), f.sigmoid(), o.sigmoid()
    new_c = f * c + i * g.tanh()
    got = run(lstm)(x, (h, c))
    close(got[0], o * new_c.tanh(), 1e-14)
    close(got[1], new_c, 1e-14)
    assert all((gate.amin().item() > 0) and (gate.amax().item() < 1) for gate in (i, f, o))
    layer = nn.LSTM(2, 4, batch_first=True).double()
    layer.load_state_dict({f"{name}_l0": value for name, value in lstm.state_dict().items()})
    logged = diagnostics.recurrent_gates(layer, x.unsqueeze(1), (h.unsqueeze(0), c.unsqueeze(0))).gates
    for name, gate in (("input", i), ("forget", f), ("candidate", g.tanh()), ("output", o)):
        close(logged[name][0], gate, 1e-14)


def test_concatenated_weight_is_two_matrices(run):
    """[h, x] times one matrix is h and x times its halves."""
    cell, x, h = nn.RNNCell(3, 4).double(), seeded(2, 3), seeded(2, 4, seed=1)
    whole = t(value(tl.cat([cell.weight_hh, cell.weight_ih], 1)))
    joined = run(lambda x, h: (tl.cat([h, x], 1) @ whole.T + cell.bias_ih + cell.bias_hh).tanh())(x, h)
    close(joined, cell(x, h), 1e-12)


def test_forget_bias_option():
    lstm = nn.LSTM(3, 4, forget_bias=2.0)
    close((lstm.bias_ih_l0 + lstm.bias_hh_l0)[4:8], [2.0] * 4)


def test_reset_gate_hides_the_history_without_erasing_it(run):
    cell = nn.GRUCell(2, 3).double()
    with tl.no_grad():
        cell.bias_ih[:3] = -1e3  # reset closed
        cell.weight_hh[6:].mul_(5.0)
    x = seeded(1, 2)

    def new(h):
        return run(cell)(x, h)

    h, other = seeded(1, 3, seed=1), seeded(1, 3, seed=2)
    rows = x @ cell.weight_ih.T + cell.bias_ih + cell.bias_hh
    z = [(rows + s @ cell.weight_hh.T)[:, 3:6].sigmoid() for s in (h, other)]
    candidates = [(new(s) - gate * s) / (1 - gate) for s, gate in zip((h, other), z, strict=True)]
    close(candidates[0], candidates[1], 1e-9)
    assert (new(h) - new(other)).abs().amax().item() > 1e-3
