"""What forward keeps for backward, and where: no more, and no copies of it."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.nn import functional as F


def kept(compiled) -> list[str]:
    """The ops of the values of at least 4 kB that forward makes and another phase reads."""
    listing = compiled.memory().listing
    late = {name for step in listing.steps if step.phase != "forward" for name in step.reads}
    early = {name for step in listing.steps if step.phase == "forward" for name in step.writes}
    found = [b for b in listing.buffers.values() if b.name in late & early and b.nbytes >= 4096]
    return sorted(b.name.rpartition(".")[2].partition("#")[0] for b in found)


def labels(compiled) -> list[str]:
    return [call.label for call in compiled._latest().program.calls]


def train(model, x, loss=lambda y: (y * y).sum()):
    """A compiled step whose gradients are those of eager mode."""

    def step(x):
        model.zero_grad()
        found = loss(model(x))
        found.backward()
        return found

    compiled = tl.compile(step)
    compiled(x)
    got = [p.grad.clone() for p in model.parameters()]
    step(x)
    for a, b in zip(got, model.parameters(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.grad.numpy(), rtol=2e-4, atol=2e-4)
    return compiled


@pytest.mark.parametrize("norm", [nn.LayerNorm(32), nn.RMSNorm(32)])
def test_a_normalised_row_is_not_kept(norm):
    """Of layer norm the centred rows and what the product reads are, of RMS norm its input and the latter."""
    tl.manual_seed(0)
    compiled = train(nn.Sequential(nn.Linear(32, 32), norm, nn.Linear(32, 8)), tl.randn(64, 32))
    assert len(kept(compiled)) == 2


def test_of_batch_norm_and_relu_the_centred_values_are_kept():
    tl.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, padding=1))
    compiled = train(model, tl.randn(4, 3, 8, 8))
    assert kept(compiled) == ["add", "add", "backward:add"], "centred; what the second convolution reads; the loss's"


def test_the_copy_in_backward_follows_its_user():
    """A value that backward computes again is in the kernel that needs it: no kernel more, and none stores it."""
    tl.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 8))
    compiled = train(model, tl.randn(64, 32))
    groups = compiled._latest().program.schedule.groups
    assert any(n.follows for g in groups for n in g.nodes)
    assert not any(n.follows for g in groups for n in g.stored)


def test_what_backward_reads_in_a_product_is_kept():
    tl.manual_seed(0)
    x = tl.randn(64, 32)
    scale = nn.Parameter(tl.ones(64, 1) * 2)

    @tl.compile
    def step(w):
        scale.grad = w.grad = None
        (((x * scale) @ w) ** 2).sum().backward()

    w = nn.Parameter(tl.randn(32, 32))
    step(w)
    assert "mul" in kept(step)


class Heads(nn.Module):
    """Attention of two heads between linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (t.view(2, 32, 2, 16).transpose(1, 2) for t in self.qkv(x).split(32, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(2, 32, 32))


def test_attention_writes_its_rows_where_the_next_product_reads_them():
    tl.manual_seed(0)
    compiled = train(Heads(), tl.randn(2, 32, 32))
    assert "contiguous" not in labels(compiled)
    assert kept(compiled).count("attention") == 1


def test_a_transpose_that_only_a_product_reads_is_no_reason_to_write_columns():
    """Products take either axis dense."""

    @tl.compile
    def fn(x, y):
        return (x * 2).T @ y

    x, y = tl.randn(64, 48), tl.randn(64, 48)
    np.testing.assert_allclose(fn(x, y).numpy(), 2 * x.numpy().T @ y.numpy(), rtol=1e-4, atol=1e-4)
    made = fn._latest().program
    (double,) = [n for g in made.schedule.groups for n in g.stored if n.op.name == "mul"]
    assert made.schedule.placement[double].view.is_contiguous


@pytest.mark.parametrize("shape", [(40,), (5, 8), (3, 5, 7)])
def test_a_state_is_written_through_the_pointer_that_reads_it(shape):
    """Else LLVM would find two pointers to overlapping memory, and work an element at a time."""
    w, m = tl.ones(*shape), tl.zeros(*shape)

    @tl.compile
    def step(g):
        m.mul_(0.5).add_(g)
        w.sub_(0.1 * m)

    for _ in range(2):
        step(tl.full(shape, 2.0))
    assert m.flatten().tolist() == [3.0] * w.numel()
    np.testing.assert_allclose(w.numpy(), 1 - 0.1 * 2 - 0.1 * 3, rtol=1e-6)
    (call,) = step._latest().program.calls
    assert call.source.count("f32_at(") == 3
