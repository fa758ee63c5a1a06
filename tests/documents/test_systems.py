"""Devices and experiments of part 1 that no figure holds: diagnostics, data, schedules, comparisons."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.documents.helpers import close, count_parameters, same_bits, seeded, t
from tinygrad_lite import diagnostics, nn, optim
from tinygrad_lite.data import augmentation
from tinygrad_lite.data.loading import pad_collate
from tinygrad_lite.models import build
from tinygrad_lite.models.gpt import GPTConfig
from tinygrad_lite.nn import functional as F
from tinygrad_lite.utils.training import EarlyStopping, accumulate

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "documents"


def test_tensors_have_shapes_and_errors_have_places():
    assert [x.shape for x in (tl.tensor(3.0), tl.zeros(512), tl.zeros(32, 512))] == [(), (512,), (32, 512)]
    with pytest.raises(RuntimeError):
        tl.trace(lambda a, b: a @ b, tl.zeros(2, 3), tl.zeros(2, 3))


def test_one_derivative_at_a_time_costs_the_number_of_parameters():
    """Differences need a forward pass a parameter; one pass backward costs two."""
    layer, x = nn.Linear(6, 6, bias=False).double(), seeded(4, 6)
    passes = []

    def loss():
        passes.append(1)
        return layer(x).square().sum()

    (g,) = tl.autograd.grad(loss(), layer.weight)
    passes.clear()
    numeric = np.zeros((6, 6))
    with tl.no_grad():
        for i in range(6):
            for j in range(6):
                for sign in (1, -1):
                    layer.weight[i, j] += sign * 1e-5
                    numeric[i, j] += sign * loss().item() / 2e-5
                    layer.weight[i, j] -= sign * 1e-5
    close(numeric, g, 1e-6)
    assert len(passes) == 2 * count_parameters(layer)


def test_gradient_norms_by_layer():
    """The product of Jacobians, seen on a model of one's own: plain depth starves its first layers."""
    from tinygrad_lite.models.mlp import plain_stack, residual_stack

    x, shares = tl.randn(32, 16), []
    for make in (plain_stack, residual_stack):
        tl.manual_seed(0)
        stack = make(20, 16)
        curves = diagnostics.activation_gradients(stack, lambda s=stack: s(x).square().mean(), stack.layers)
        norms = next(iter(curves.y.values()))
        shares.append(norms[0] / norms[-1])
    assert shares[0] < 1e-4 < 1 < shares[1]


def test_not_a_number_is_located():
    x = tl.tensor([1.0, 0.0], requires_grad=True)
    found = diagnostics.first_not_finite((x * 0 / x + 1).sum() * 2)
    assert found.op == "div" and found.kind == "NaN" and Path(found.location.file).name == "test_systems.py"
    rnn = nn.RNN(1, 1, nonlinearity="relu")
    with tl.no_grad():
        for p in rnn.parameters():
            p.fill_(30.0)
    assert diagnostics.first_not_finite(rnn(tl.ones(100, 1, 1))[1]) is not None


def test_histogram_counts_the_dead(run):
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    with tl.no_grad():
        net[0].bias.copy_(tl.tensor([0.0, -100.0, 0.0, -100.0]))
    x = tl.randn(256, 3)
    share = next(iter(diagnostics.dead_units(net, [x]).values()))
    assert (share == 1).tolist() == [False, True, False, True]
    zeros = int((run(net)(x) == 0).sum().item())
    assert next(iter(diagnostics.activation_histograms(net, x).zeros.values())) == zeros
    assert zeros == round(share.sum() * 256)


def test_warmup(run):
    p = nn.Parameter(tl.zeros(1))
    optimizer = optim.SGD([p], lr=0.3)
    schedule = optim.lr_scheduler.WarmupCosineLR(optimizer, 5, 100, decay=False)
    rates = []
    for _ in range(7):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    close(rates, [0.06, 0.12, 0.18, 0.24, 0.3, 0.3, 0.3], 1e-12)


def test_early_stopping_keeps_the_best():
    net = nn.Linear(1, 1)
    stopping, stopped = EarlyStopping(patience=2, model=net), None
    for epoch, loss in enumerate([3.0, 2.0, 2.5, 1.5, 1.6, 1.7, 0.1]):
        nn.init.constant_(net.weight, float(epoch))
        if stopping.step(loss):
            stopped = epoch
            break
    stopping.restore()
    assert (stopped, net.weight.item()) == (5, 3.0)


def test_accumulation_device():
    net, x, y = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 1)).double(), seeded(6, 4), seeded(6, 1)
    grads = []
    for pieces in (1, 3):
        net.zero_grad()
        accumulate(lambda x, y: F.mse_loss(net(x), y), (x, y), pieces)
        grads.append([p.grad.clone() for p in net.parameters()])
    for a, b in zip(*grads, strict=True):
        close(a, b, 1e-12)


def test_padded_batches():
    ids, filler = pad_collate([[3, 1, 4], [1]])
    assert ids.tolist() == [[3, 1, 4], [1, 0, 0]]
    assert filler.tolist() == [[False] * 3, [False, True, True]]


def test_augmentations_undo_themselves():
    image = np.random.default_rng(0).standard_normal((3, 6, 6))
    same_bits(augmentation.flip(augmentation.flip(image)), image)
    turned = image
    for _ in range(4):
        turned = augmentation.rot90(turned)
    same_bits(turned, image)
    moved = augmentation.shift(image, 1, 2)
    same_bits(moved[..., 1:, 2:], image[..., :-1, :-2])
    assert augmentation.scale(image, 2).shape == (3, 12, 12)


def test_pretraining_has_no_dropout_and_fine_tuning_may():
    assert GPTConfig().dropout == 0.0
    assert build("gpt-tiny", dropout=0.1).drop.p == 0.1


def test_number_formats():
    assert [tl.zeros(1, dtype=d).element_size() for d in (tl.float32, tl.float16, tl.bfloat16, tl.int8)] == [4, 2, 2, 1]
    assert tl.finfo(tl.float16).max == 65_504
    large = tl.tensor(1e38)
    assert math.isinf(large.to(tl.float16).item()) and math.isfinite(large.to(tl.bfloat16).item())
    assert tl.tensor(1.0 + 2**-9).to(tl.bfloat16).item() == 1.0 != tl.tensor(1.0 + 2**-9).to(tl.float16).item()


def test_outlier_widens_every_step():
    x = np.random.default_rng(0).standard_normal((256, 16))
    large = x.copy()
    large[:, 0] *= 100
    assert diagnostics.quantisation_error(large) > 30 * diagnostics.quantisation_error(x)
    assert diagnostics.outlier_ratio(large) > 30


PARTS = {"attention": ("attn",), "feedforward": ("mlp",), "norms": ("ln_",), "embeddings": ("wte", "wpe")}


def test_ledger_of_a_model(capsys):
    """The summary's parameters are the formula's, and so is every part of the ledger."""
    from tinygrad_lite.models import arithmetic

    model = build("gpt-tiny").eval()
    summary = tl.summary(model, tl.zeros(1, 4, dtype=tl.int64))
    ledger = arithmetic.gpt_parameters(model.config)
    assert f"{ledger['total']:,}" in str(summary) + capsys.readouterr().out
    found = dict.fromkeys(ledger, 0)
    for name, p in model.named_parameters():
        part = next(part for part, names in PARTS.items() if any(n in name for n in names))
        found[part] += p.numel()
    found["total"] = sum(found.values())
    assert found == ledger


def test_row_updates_are_counted():
    ids = tl.tensor([1, 4, 1, 1, 0, 4])
    assert diagnostics.update_counts(ids, 6).tolist() == [1, 3, 0, 0, 2, 0]


def test_attention_report():
    """Entropy of alike tokens is that of an even share of what each sees: ln(i + 1) at position i."""
    model = build("gpt-tiny").eval()
    nn.init.zeros_(model.wpe.weight)
    report = diagnostics.attention_report(model, tl.zeros(1, 8, dtype=tl.int64))
    assert len(report.x) == 2
    close(report["entropy"], [np.log(np.arange(1, 9)).mean()] * 2, 1e-5)
    close(report["saturated"], [1 / 8] * 2, 1e-12)  # the first token sees itself alone


def test_path_shares():
    """Most of the gradient on short paths: the mean length is L a / (1 + a)."""
    share = diagnostics.path_shares(50, 0.1)
    close(share.sum(), 1.0, 1e-12)
    close((np.arange(51) * share).sum(), 50 * 0.1 / 1.1, 1e-9)


def test_identity_is_learned_faster_through_a_residual(run):
    losses = []
    for residual in (False, True):
        tl.manual_seed(0)
        branch = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        net = nn.Residual(branch, 8, "none") if residual else branch
        optimizer, x = optim.Adam(net.parameters(), lr=3e-3), tl.randn(64, 8)

        def step(x, net=net, optimizer=optimizer):
            loss = F.mse_loss(net(x), x)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        step = run(step)
        losses.append([step(x).item() for _ in range(60)][-1])
    assert losses[1] < losses[0] / 5


@pytest.fixture
def trees(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import trees

    yield trees
    for name in ("show", "trees"):
        sys.modules.pop(name, None)


def test_boosted_trees(trees):
    """The residual never grows; on a table of unlike columns they beat a dense net."""
    errors = trees.boosted()[1]
    assert all(b <= a for a, b in itertools.pairwise(errors))
    boosted, dense = (error for _, error in trees.grown())
    assert boosted < dense


def test_a_fitting_prior_replaces_data(run):
    """A pattern anywhere: from 64 examples a convolution generalises to new places, a dense net does not."""
    pattern = t([1.0, -1, 1, 1, -1]).float()

    def examples(seed, n):
        rng = np.random.default_rng(seed)
        x, y = 0.5 * rng.standard_normal((n, 1, 24)), rng.integers(0, 2, n)
        for i, start in enumerate(rng.integers(0, 20, n)):
            x[i, 0, start : start + 5] += 2.0 * y[i] * pattern.numpy()
        return tl.tensor(x).float(), tl.tensor(y)

    (x, y), (new, truth) = examples(0, 64), examples(1, 256)
    tl.manual_seed(0)
    conv = nn.Sequential(nn.Conv1d(1, 8, 5), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(8, 2))
    dense = nn.Sequential(nn.Flatten(), nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 2))
    right = []
    for net in (conv, dense):
        optimizer = optim.AdamW(net.parameters(), lr=1e-2)

        def step(x, y, net=net, optimizer=optimizer):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        step = run(step)
        for _ in range(150):
            step(x, y)
        right.append((net(new).argmax(1) == truth).float().mean().item())
    assert right[0] > 0.97 > 0.9 > right[1]
