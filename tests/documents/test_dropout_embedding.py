"""Dropout and embeddings: A §11 and §12, B §7."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.documents.helpers import close, same_bits, seeded
from tinygrad_lite import nn
from tinygrad_lite.nn import functional as F


def test_DRP_01_survivors_are_scaled_up(run):
    y = run(nn.Dropout(0.1).double())(tl.full((10_000,), 2.0, dtype=tl.float64))
    kept = y != 0
    close(y[kept], np.full(kept.sum().item(), 2.222222), 1e-6)
    assert abs(kept.double().mean().item() - 0.9) < 5 * math.sqrt(0.9 * 0.1 / 10_000)


def test_DRP_02_expectation():
    close(0.9 * (2.0 / 0.9) + 0.1 * 0, 2.0, 1e-12)


def test_DRP_03_mean_and_variance(run):
    y = run(lambda x: F.dropout(x, 0.1))(tl.full((1_000_000,), 2.0, dtype=tl.float64))
    assert abs(y.mean().item() - 2.0) < 0.0034
    assert abs(y.var().item() - 0.1 / 0.9 * 4) < 0.01


def test_DRP_04_evaluation_leaves_the_input(run):
    layer, x = nn.Dropout(0.5).eval(), tl.randn(100)
    same_bits(run(layer)(x), x)


def test_DRP_05_classic_form(run):
    """Unscaled in training, times 1 - p at test: both expect 1.8 of an input of 2."""
    p, x = 0.1, 2.0
    close((1 - p) * x + p * 0, 1.8, 1e-12)
    layer = nn.ClassicDropout(p).eval()
    close(run(layer)(tl.full((3,), x, dtype=tl.float64)), [1.8] * 3, 1e-12)


def test_classic_form_sampled(run):
    layer = nn.ClassicDropout(0.1)
    y = run(layer)(tl.full((100_000,), 2.0, dtype=tl.float64))
    assert set(y.unique().tolist()) == {0.0, 2.0}, "survivors are left as they are"
    assert abs(y.mean().item() - 1.8) < 5 * math.sqrt(0.09 * 4 / 100_000)


def test_DRP_06_subnetworks():
    close(float(2**512), 1.3408e154, rtol=1e-4)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_DRP_07_dropout_and_batch_norm(run, before):
    """Dropout first: the running variance is of the dropped-out signal, twice the true one."""
    norm = nn.BatchNorm1d(1, momentum=1.0, affine=False).double()
    layers = [nn.Dropout(0.5), norm] if before else [norm, nn.Dropout(0.5)]
    net = nn.Sequential(*layers)
    x = seeded(100_000, 1)
    run(net)(x)
    close(norm.running_var, [2.0 if before else 1.0], 0.05 if before else 0.02)
    net.eval()
    close(run(net)(x).std(), 0.7071 if before else 1.0, 0.02)


def test_mode_switch_is_recursive(run):
    net = nn.Sequential(nn.Sequential(nn.Dropout(0.5)), nn.Dropout(0.5))
    x = tl.ones(64)
    assert (run(net)(x) == 0).any().item()
    net.eval()
    assert not any(m.training for m in net.modules())
    same_bits(run(net)(x), run(net)(x))


# Embeddings


def test_EMB_04_gather_is_a_one_hot_product(run):
    table, ids = seeded(10, 4), tl.tensor([[3, 0, 3], [9, 1, 2]])
    rows = run(F.embedding)(ids, table)
    same_bits(rows, run(lambda ids, table: F.one_hot(ids, 10).double() @ table)(ids, table))


def test_EMB_05_rows_are_updated_as_often_as_seen(run):
    """The gradient of a row is the sum over its token's occurrences; absent tokens get none."""
    ids = tl.tensor([1, 4, 1, 1, 0, 4])
    table = seeded(6, 3).requires_grad_(True)

    def grad(ids):
        return tl.autograd.grad(F.embedding(ids, table).sum(), table)[0]

    counts = np.bincount(ids.numpy(), minlength=6)
    same_bits(run(grad)(ids), np.repeat(counts[:, None], 3, 1).astype(float))
    updates = np.zeros(6, int)
    single = run(grad)
    for token in [2] * 50 + [5]:
        updates += (single(tl.tensor([token])).numpy() != 0).any(1)
    assert updates[2] == 50 and updates[5] == 1 and updates.sum() == 51


def test_tied_table_gathers_both_gradients(run):
    """One matrix in both roles: its gradient is the sum of the two uses'."""
    ids, targets = tl.tensor([0, 2, 1]), tl.tensor([2, 1, 3])
    tied = seeded(4, 5)

    def grads(ids, targets):
        once = tied.detach().requires_grad_(True)
        loss = F.cross_entropy(F.embedding(ids, once) @ once.T, targets)
        (both,) = tl.autograd.grad(loss, once)
        a, b = tied.detach().requires_grad_(True), tied.detach().requires_grad_(True)
        apart = tl.autograd.grad(F.cross_entropy(F.embedding(ids, a) @ b.T, targets), [a, b])
        return both, *apart

    both, inward, outward = run(grads)(ids, targets)
    close(both, inward + outward, 1e-14)
    assert (inward[3] == 0).all().item() and (outward[3] != 0).any().item()


def test_neighbouring_ids_are_strangers_at_the_start():
    """Cosine of adjacent rows at initialisation: 0 within sampling error 1/√(d·V)."""
    table = nn.Embedding(1000, 64).weight.detach()
    cosines = F.cosine_similarity(table[:-1], table[1:])
    assert abs(cosines.mean().item()) < 5 / math.sqrt(64 * 1000)
