"""Attention's op against the composite formula: value, first and second derivatives, and both in a compiled program."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
import tinygrad_lite.nn.functional as F


def composite(q: tl.Tensor, k: tl.Tensor, v: tl.Tensor, causal: bool) -> tl.Tensor:
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(~tl.ones(q.shape[-2], k.shape[-2]).tril().bool(), float("-inf"))
    return tl.softmax(scores, -1) @ v


def operands(seed: int = 0) -> list[tl.Tensor]:
    rng = np.random.default_rng(seed)
    shapes = ((2, 3, 37, 8), (2, 3, 37, 8), (2, 3, 37, 5))
    return [tl.tensor(rng.standard_normal(s).astype(np.float32), requires_grad=True) for s in shapes]


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_first_and_second_order_agree_with_the_composite(causal: bool) -> None:
    found = []
    for attend in (lambda *x: F.scaled_dot_product_attention(*x, is_causal=causal), lambda *x: composite(*x, causal)):
        inputs = operands()
        loss = (attend(*inputs) ** 2).sum()
        first = tl.autograd.grad(loss, inputs, create_graph=True)
        second = tl.autograd.grad(sum((g**2).sum() for g in first), inputs)
        found.append([loss, *first, *second])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("causal", [False, True])
def test_a_compiled_step_runs_one_kernel_a_pass_and_agrees_with_eager(causal: bool) -> None:
    def step(q: tl.Tensor, k: tl.Tensor, v: tl.Tensor) -> tl.Tensor:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        (out**2).sum().backward()
        return out.detach()

    eager, native = operands(), operands()
    expected, compiled = step(*eager), tl.compile(step)
    np.testing.assert_allclose(compiled(*native).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    for a, b in zip(native, eager, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-5)
    labels = [name.split("#")[0] for name in compiled.kernels]
    assert labels.count("attention_forward") == labels.count("attention_backward") == 1


def test_a_transposed_view_of_one_product_is_read_where_it_lies() -> None:
    """Heads split off a fused projection cost no copy, forward."""

    def attend(x: tl.Tensor) -> tl.Tensor:
        q, k, v = (t.view(2, 16, 2, 8).transpose(1, 2) for t in (x * 2).split(16, 2))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 16, 16)

    compiled = tl.compile(attend)
    x = tl.tensor(np.random.default_rng(0).standard_normal((2, 16, 48)).astype(np.float32))
    np.testing.assert_allclose(compiled(x).numpy(), attend(x).numpy(), rtol=1e-5, atol=1e-6)
    assert "contiguous" not in str(list(compiled.kernels))


@pytest.mark.parametrize("length", [260, 520])
@pytest.mark.parametrize("causal", [False, True])
def test_keys_and_values_that_lie_far_apart_are_gathered(length: int, causal: bool) -> None:
    """Forward and backward start doing so at other lengths."""

    def step(x: tl.Tensor) -> tl.Tensor:
        q, k, v = (t.view(2, length, 2, 8).transpose(1, 2) for t in (x * 0.5).split(16, 2))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        (out**2).sum().backward()
        return out.detach()

    rng = np.random.default_rng(0)
    native, eager = (tl.tensor(np.zeros((2, length, 48), np.float32), requires_grad=True) for _ in range(2))
    with tl.no_grad():
        native += tl.tensor(rng.standard_normal(native.shape).astype(np.float32))
        eager += native
    compiled = tl.compile(step)
    np.testing.assert_allclose(compiled(native).numpy(), step(eager).numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(native.grad.numpy(), eager.grad.numpy(), rtol=1e-3, atol=1e-5)
    sources = [c.source for c in compiled._latest().program.calls if c.group.kind == "attention"]
    assert ["k_rows" in source for source in sources] == [length > 500, True]


def test_batch_axes_may_lie_apart_however_many() -> None:
    def attend(*operands: tl.Tensor) -> tl.Tensor:
        q, k, v = (x.permute(4, 3, 1, 0, 2, 5) for x in operands)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    rng = np.random.default_rng(0)
    inputs = [tl.tensor(rng.standard_normal((2, 3, 5, 2, 2, 4)).astype(np.float32)) for _ in range(3)]
    np.testing.assert_allclose(tl.compile(attend)(*inputs).numpy(), attend(*inputs).numpy(), rtol=1e-5, atol=1e-6)
