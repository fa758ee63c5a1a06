"""Layers against NumPy, and what they print."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erf, log_softmax, softmax

import tinygrad_lite as tl
from tinygrad_lite import nn

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32) * 2


def run(layer: nn.Module, *inputs: np.ndarray) -> np.ndarray:
    return layer(*(tl.tensor(x) for x in inputs)).detach().numpy()


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    nn.ReLU(): lambda x: np.maximum(x, 0),
    nn.ReLU6(): lambda x: x.clip(0, 6),
    nn.SiLU(): lambda x: x * sigmoid(x),
    nn.Mish(): lambda x: x * np.tanh(np.log1p(np.exp(x))),
    nn.Hardtanh(-0.5, 2.0): lambda x: x.clip(-0.5, 2),
    nn.LeakyReLU(0.2): lambda x: np.where(x > 0, x, 0.2 * x),
    nn.ELU(0.5): lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)),
    nn.GELU(): lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    nn.GELU("tanh"): lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    nn.Sigmoid(): sigmoid,
    nn.Tanh(): np.tanh,
    nn.LogSigmoid(): lambda x: np.log(sigmoid(x)),
    nn.Softplus(2.0): lambda x: np.log1p(np.exp(2 * x)) / 2,
    nn.Softmax(dim=1): lambda x: softmax(x, 1),
    nn.LogSoftmax(dim=0): lambda x: log_softmax(x, 0),
    nn.Identity(54, unused=True): lambda x: x,
    nn.Flatten(0): lambda x: x.ravel(),
    nn.Unflatten(1, (2, 3)): lambda x: x.reshape(4, 2, 3),
}


@pytest.mark.parametrize("layer", ACTIVATIONS, ids=repr)
def test_activations(layer):
    expected = ACTIVATIONS[layer](X.astype(np.float64))
    np.testing.assert_allclose(run(layer, X), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias):
    layer = nn.Linear(6, 3, bias=bias)
    expected = X @ layer.weight.detach().numpy().T
    if bias:
        expected = expected + layer.bias.detach().numpy()
    np.testing.assert_allclose(run(layer, X), expected, rtol=1e-5, atol=1e-6)
    assert repr(layer) == f"Linear(in_features=6, out_features=3, bias={bias})"


def test_embedding():
    layer = nn.Embedding(5, 3, padding_idx=-1)
    table, index = layer.weight.detach().numpy(), np.array([[0, 4], [4, 2]])
    assert np.all(table[4] == 0) and layer.padding_idx == 4
    np.testing.assert_array_equal(run(layer, index), table[index])
    layer(tl.tensor(index)).sum().backward()
    np.testing.assert_array_equal(layer.weight.grad.numpy(), np.array([1, 0, 1, 0, 0])[:, None] * np.ones(3))
    assert repr(layer) == "Embedding(5, 3, padding_idx=4)"
    with pytest.raises(ValueError, match="padding_idx 5"):
        nn.Embedding(5, 3, padding_idx=5)


def test_embedding_from_a_table():
    layer = nn.Embedding.from_pretrained(tl.ones(4, 2))
    assert not layer.weight.requires_grad
    assert nn.Embedding.from_pretrained(tl.ones(4, 2), freeze=False).weight.requires_grad
    with pytest.raises(ValueError, match="2 axes"):
        nn.Embedding.from_pretrained(tl.ones(4))


def test_layer_norm():
    layer = nn.LayerNorm(6)
    expected = (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run(layer, X), expected, rtol=1e-5, atol=1e-6)
    assert [n for n, _ in nn.LayerNorm(6, bias=False).named_parameters()] == ["weight"]
    assert not list(nn.LayerNorm((4, 6), elementwise_affine=False).parameters())
    assert nn.LayerNorm((4, 6)).weight.shape == (4, 6)
    assert repr(layer) == "LayerNorm((6,), eps=1e-05, elementwise_affine=True, bias=True)"


def test_rms_norm():
    expected = X / np.sqrt((X**2).mean(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(run(nn.RMSNorm(6, eps=1e-6), X), expected, rtol=1e-5, atol=1e-6)


def test_dropout():
    tl.manual_seed(0)
    layer, ones = nn.Dropout(0.25), np.ones((100, 100), np.float32)
    out = run(layer, ones)
    assert set(np.unique(out)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((out == 0).mean() - 0.25) < 0.02
    np.testing.assert_array_equal(run(layer.eval(), ones), ones)
    with pytest.raises(ValueError, match=r"1\.5"):
        nn.Dropout(1.5)


LOGITS = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)
CLASSES = np.array([0, 2, 1, -100, 2])
OTHER = np.random.default_rng(2).standard_normal((5, 3)).astype(np.float32)
BINARY = np.random.default_rng(3).random((5, 3)).astype(np.float32)
TARGET = sigmoid(OTHER)
LOGP = log_softmax(LOGITS.astype(np.float64), 1)
PICKED = -LOGP[[0, 1, 2, 4], [0, 2, 1, 2]]
GAP = np.abs(LOGITS - OTHER)
WEIGHT = np.array([0.5, 1.0, 2.0], np.float32)
LOSSES = {
    "cross entropy": (nn.CrossEntropyLoss(), LOGITS, CLASSES, PICKED.mean()),
    "cross entropy, sum": (nn.CrossEntropyLoss(reduction="sum"), LOGITS, CLASSES, PICKED.sum()),
    "cross entropy, weight": (
        nn.CrossEntropyLoss(tl.tensor(WEIGHT)),
        LOGITS,
        CLASSES,
        (PICKED * WEIGHT[[0, 2, 1, 2]]).sum() / WEIGHT[[0, 2, 1, 2]].sum(),
    ),
    "cross entropy, smooth": (
        nn.CrossEntropyLoss(label_smoothing=0.3),
        LOGITS,
        CLASSES,
        0.7 * PICKED.mean() - 0.3 * LOGP[[0, 1, 2, 4]].mean(),
    ),
    "nll": (
        nn.NLLLoss(ignore_index=2),
        LOGP.astype(np.float32),
        np.array([0, 2, 1, 0, 2]),
        -LOGP[[0, 2, 3], [0, 1, 0]].mean(),
    ),
    "mse": (nn.MSELoss(), LOGITS, OTHER, (GAP**2).mean()),
    "l1": (nn.L1Loss(reduction="none"), LOGITS, OTHER, GAP),
    "smooth l1": (nn.SmoothL1Loss(beta=0.5), LOGITS, OTHER, np.where(GAP < 0.5, GAP**2, GAP - 0.25).mean()),
    "huber": (nn.HuberLoss(delta=0.5), LOGITS, OTHER, np.where(GAP < 0.5, GAP**2 / 2, 0.5 * GAP - 0.125).mean()),
    "bce": (nn.BCELoss(), BINARY, TARGET, -(TARGET * np.log(BINARY) + (1 - TARGET) * np.log1p(-BINARY)).mean()),
    "bce, logits": (
        nn.BCEWithLogitsLoss(pos_weight=tl.tensor(WEIGHT)),
        LOGITS,
        BINARY,
        -(WEIGHT * BINARY * np.log(sigmoid(LOGITS)) + (1 - BINARY) * np.log(sigmoid(-LOGITS))).mean(),
    ),
    "kl": (nn.KLDivLoss(reduction="batchmean"), LOGITS, BINARY, (BINARY * (np.log(BINARY) - LOGITS)).sum() / 5),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    loss, x, y, expected = LOSSES[name]
    np.testing.assert_allclose(run(loss, x, y), expected, rtol=1e-5, atol=1e-6)


def test_unknown_reduction():
    with pytest.raises(ValueError, match="average"):
        nn.MSELoss(reduction="average")


@pytest.mark.torch
@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.Linear(2, 3),
        lambda nn: nn.LayerNorm(4, bias=False),
        lambda nn: nn.RMSNorm(4),
        lambda nn: nn.Embedding(3, 4, padding_idx=0),
        lambda nn: nn.Dropout(),
        lambda nn: nn.Flatten(),
        lambda nn: nn.GELU(),
        lambda nn: nn.ReLU(inplace=True),
        lambda nn: nn.LeakyReLU(),
        lambda nn: nn.ELU(),
        lambda nn: nn.Hardtanh(),
        lambda nn: nn.Softplus(),
        lambda nn: nn.Softmax(dim=-1),
        lambda nn: nn.CrossEntropyLoss(),
        lambda nn: nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.Tanh()]),
        lambda nn: nn.Sequential(nn.Linear(2, 2), nn.ModuleDict({"a": nn.SiLU()})),
    ],
)
def test_repr_is_torchs(make):
    torch = pytest.importorskip("torch")
    assert repr(make(nn)) == repr(make(torch.nn))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.Conv2d(1, 1, 5)(tl.zeros(1, 1, 3, 3)), r"conv2d: .* \[3, 3\]. Kernel size: \[5, 5\]"),
        (lambda: nn.Conv1d(1, 1, 5, dilation=2)(tl.zeros(1, 1, 8)), r"conv1d: .* \[8\]. Kernel size: \[9\]"),
        (
            lambda: nn.ConvTranspose2d(1, 1, 1, padding=3)(tl.zeros(1, 1, 3, 3)),
            r"conv_transpose2d: padding \[\(3, 3\), \(3, 3\)\] leaves nothing of an output of \[3, 3\]",
        ),
        (lambda: nn.MaxPool2d(5)(tl.zeros(1, 1, 3, 3)), r"max_pool2d: output size \[0, 0\] of input size \[3, 3\]"),
        (lambda: nn.BatchNorm1d(3)(tl.zeros(1, 3)), r"batch_norm: Expected more than 1 value .* \[1, 3\]"),
        (lambda: nn.LayerCache(1, 2, 8, 4).update(*[tl.zeros(1, 2, 9, 4)] * 2, tl.arange(9)), "9 positions .* 8"),
        (
            lambda: tl.models.build("gpt-tiny")(tl.zeros(1, 17, dtype=tl.int64)),
            "GPT: a sequence of 17 .* block_size 16",
        ),
        (lambda: tl.models.build("llama-tiny")(tl.zeros(1, 17, dtype=tl.int64)), "Llama: a sequence of 17"),
    ],
)
def test_errors_name_layer_argument_and_values(call, message):
    with pytest.raises((ValueError, RuntimeError), match=message):
        call()
