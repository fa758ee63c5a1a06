"""Recurrent layers and packed sequences beside PyTorch's: outputs, states, gradients, names. Needs torch."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.nn.utils import rnn as ours_utils

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
theirs_utils = torch.nn.utils.rnn if hasattr(torch, "nn") else None

CASES = {
    "rnn": ("RNN", {}),
    "relu": ("RNN", {"nonlinearity": "relu", "num_layers": 2}),
    "rnn deep": ("RNN", {"num_layers": 3, "bidirectional": True, "bias": False}),
    "lstm": ("LSTM", {}),
    "lstm batch first": ("LSTM", {"batch_first": True, "bias": False}),
    "lstm deep": ("LSTM", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "lstm projected": ("LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": True}),
    "gru": ("GRU", {}),
    "gru deep": ("GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "gru without bias": ("GRU", {"bias": False}),
}


def pair(kind, options, sizes=(3, 5)):
    """The same layer in both libraries."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(*sizes, **options).double()
    ours = getattr(nn, kind)(*sizes, **options).double()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [tuple(v.shape) for v in ours.state_dict().values()] == [
        tuple(v.shape) for v in theirs.state_dict().values()
    ]
    ours.load_state_dict({k: tl.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return theirs, ours


def flat(out):
    """Tensors of a nested result, in order."""
    if isinstance(out, tuple | list):
        return [t for part in out for t in flat(part)]
    return [] if out is None else [out]


def results(lib, layer, *inputs):
    """Outputs and gradients of a weighted sum of them, by one library."""
    given = [
        tuple(lib.tensor(v, requires_grad=True) for v in x)
        if isinstance(x, tuple)
        else lib.tensor(x, requires_grad=True)
        for x in inputs
    ]
    if len(given) == 2 and isinstance(given[1], tuple) and len(given[1]) == 1:
        given[1] = given[1][0]
    outs = flat(layer(*given))
    total = sum(
        (o * lib.tensor(np.cos(np.arange(o.numel(), dtype=np.float64)).reshape(tuple(o.shape)))).sum() for o in outs
    )
    leaves = [*flat(given), *layer.parameters()]
    return [o.detach().numpy() for o in outs], [g.numpy() for g in lib.autograd.grad(total, leaves)]


def assert_agree(theirs, ours):
    for a, b in zip(theirs[0] + theirs[1], ours[0] + ours[1], strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-10)


def arrays(layer, options, steps=6, batch=4):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(batch, steps, 3) if options.get("batch_first") else (steps, batch, 3))
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    h = rng.normal(size=(count, batch, layer.proj_size or 5))
    c = rng.normal(size=(count, batch, 5))
    return x, (h, c) if layer.mode == "LSTM" else (h,)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("with_state", [False, True])
def test_layers(name, with_state):
    theirs, ours = pair(*CASES[name])
    x, state = arrays(ours, CASES[name][1])
    inputs = (x, state) if with_state else (x,)
    assert_agree(results(torch, theirs, *inputs), results(tl, ours, *inputs))


@pytest.mark.parametrize("name", ["rnn", "lstm deep", "gru"])
def test_unbatched(name):
    theirs, ours = pair(*CASES[name])
    x, state = arrays(ours, {}, batch=1)
    inputs = (x[:, 0], tuple(s[:, 0] for s in state))
    assert_agree(results(torch, theirs, *inputs), results(tl, ours, *inputs))


@pytest.mark.parametrize("steps", [1, 200])
def test_short_and_long(steps):
    theirs, ours = pair("LSTM", {})
    x, _ = arrays(ours, {}, steps=steps)
    assert_agree(results(torch, theirs, x), results(tl, ours, x))


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("batched", [True, False])
def test_cells(kind, batched):
    theirs, ours = pair(kind, {})
    rng = np.random.default_rng(2)
    lead = (4,) if batched else ()
    state = tuple(rng.normal(size=(*lead, 5)) for _ in range(2 if kind == "LSTMCell" else 1))
    x = rng.normal(size=(*lead, 3))
    assert_agree(results(torch, theirs, x), results(tl, ours, x))
    assert_agree(results(torch, theirs, x, state), results(tl, ours, x, state))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_sorted", [True, False])
def test_packed_sequences(name, is_sorted):
    theirs, ours = pair(*CASES[name])
    options = CASES[name][1]
    x, state = arrays(ours, options, steps=7)
    lengths = [7, 4, 4, 1] if is_sorted else [3, 7, 1, 5]

    def packed(utils, layer):
        def run(x, h=None):
            first = bool(options.get("batch_first"))
            given = utils.pack_padded_sequence(
                x, torch.tensor(lengths) if utils is theirs_utils else lengths, first, is_sorted
            )
            out, last = layer(given, h)
            padded, sizes = utils.pad_packed_sequence(out, first, total_length=8)
            assert sizes.tolist() == lengths
            return padded, last

        run.parameters = layer.parameters
        return run

    for inputs in ((x,), (x, state)):
        assert_agree(
            results(torch, packed(theirs_utils, theirs), *inputs), results(tl, packed(ours_utils, ours), *inputs)
        )


def test_packing_functions():
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=(n, 2)).astype(np.float32) for n in (2, 5, 3)]
    both = [(lib, utils, [lib.tensor(p) for p in parts]) for lib, utils in ((torch, theirs_utils), (tl, ours_utils))]
    for options in ({}, {"batch_first": True, "padding_value": 2.0}, {"padding_side": "left"}):
        a, b = (utils.pad_sequence(p, **options).numpy() for _, utils, p in both)
        np.testing.assert_array_equal(a, b)
    a, b = (utils.pack_sequence(p, enforce_sorted=False) for _, utils, p in both)
    for theirs, ours in zip(a, b, strict=True):
        np.testing.assert_array_equal(theirs.numpy(), ours.numpy())
    for theirs, ours in zip(theirs_utils.unpack_sequence(a), ours_utils.unpack_sequence(b), strict=True):
        np.testing.assert_array_equal(theirs.numpy(), ours.numpy())


ERRORS = {
    "rank": lambda lib, n: n(lib.zeros(2, 2, 2, 3)),
    "features": lambda lib, n: n(lib.zeros(2, 2, 4)),
    "no steps": lambda lib, n: n(lib.zeros(0, 2, 3)),
    "state size": lambda lib, n: n(lib.zeros(2, 2, 3), lib.zeros(1, 3, 5)),
    "state rank": lambda lib, n: n(lib.zeros(2, 3), lib.zeros(1, 2, 5)),
    "lengths": lambda lib, n: lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(3, 2, 1), [1, 3]),
    "zero length": lambda lib, n: lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(3, 2, 1), [3, 0]),
    "count": lambda lib, n: lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(3, 2, 1), [3]),
    "total": lambda lib, n: lib.nn.utils.rnn.pad_packed_sequence(
        lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(3, 2, 1), [3, 1]), total_length=2
    ),
    "hidden": lambda lib, n: lib.nn.GRU(2, 0),
    "hidden type": lambda lib, n: lib.nn.GRU(2, 1.5),
    "layers": lambda lib, n: lib.nn.GRU(2, 2, 0),
    "dropout": lambda lib, n: lib.nn.GRU(2, 2, dropout=2),
    "projection": lambda lib, n: lib.nn.GRU(2, 2, proj_size=1),
    "wide projection": lambda lib, n: lib.nn.LSTM(2, 2, proj_size=2),
    "nonlinearity": lambda lib, n: lib.nn.RNN(2, 2, nonlinearity="sine"),
    "cell": lambda lib, n: lib.nn.LSTMCell(3, 5)(lib.zeros(2, 4)),
    "cell rank": lambda lib, n: lib.nn.GRUCell(3, 5)(lib.zeros(2, 2, 3)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_of_the_same_kind(name):
    with pytest.raises((RuntimeError, ValueError, TypeError)) as theirs:
        ERRORS[name](torch, torch.nn.RNN(3, 5))
    with pytest.raises(theirs.type):
        ERRORS[name](tl, nn.RNN(3, 5))
