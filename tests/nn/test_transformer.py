"""Transformer layers, residual branches, feed-forwards, adaptive norms, bags: against torch and by their properties."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn

RNG = np.random.default_rng(0)


def draw(*shape: int) -> tl.Tensor:
    return tl.tensor(RNG.standard_normal(shape).astype(np.float32))


def close(a: tl.Tensor, b: tl.Tensor | np.ndarray, tol: float = 1e-5) -> None:
    b = b.detach().numpy() if isinstance(b, tl.Tensor) else b
    np.testing.assert_allclose(a.detach().numpy(), b, rtol=tol, atol=tol)


def zeroed(module: nn.Module) -> nn.Module:
    for p in module.parameters():
        nn.init.zeros_(p)
    return module


def test_pre_norm_branches_of_zero_are_the_identity():
    x = draw(2, 3, 4)
    for norm in ("pre", "none"):
        close(nn.Residual(zeroed(nn.Linear(4, 4)), 4, norm)(x), x, 0)
    after = nn.Residual(nn.Linear(4, 4), 4, "sandwich")
    zeroed(after.norm_after)
    close(after(x), x, 0)


def test_post_norm_normalises_the_stream():
    y = nn.Residual(nn.Linear(16, 16), 16, "post")(draw(2, 3, 16)).detach().numpy()
    np.testing.assert_allclose(y.mean(-1), 0, atol=1e-6)
    np.testing.assert_allclose(y.var(-1), 1, atol=1e-4)


def test_scaled_branch():
    layer, x = nn.Linear(4, 4), draw(3, 4)
    close(nn.Residual(layer, 4, "none", scale=0.25)(x), x + layer(x) * 0.25)


def test_drop_path():
    tl.manual_seed(0)
    layer = nn.DropPath(0.25)
    y = layer(tl.ones(4000, 2, 2)).numpy()
    rows = y.reshape(4000, -1)
    assert np.all(rows == rows[:, :1]) and set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert (rows[:, 0] == 0).mean() == pytest.approx(0.25, abs=0.02)
    close(layer.eval()(tl.ones(3)), np.ones(3))
    assert nn.Residual(nn.Linear(2, 2), 2, drop_path=0.5)(draw(3, 2)).shape == (3, 2)


@pytest.mark.parametrize(("dim", "multiple", "expected"), [(4096, 256, 11008), (768, 256, 2048), (100, 8, 272)])
def test_gated_width(dim, multiple, expected):
    assert nn.feedforward.gated_width(dim, multiple) == expected


def test_feed_forwards_by_hand():
    x = draw(2, 3, 6)

    def array(p: tl.Tensor) -> np.ndarray:
        return p.detach().numpy()

    plain = nn.FeedForward(6, 10, "relu")
    hidden = np.maximum(x.numpy() @ array(plain.up_proj.weight).T + array(plain.up_proj.bias), 0)
    close(plain(x), hidden @ array(plain.down_proj.weight).T + array(plain.down_proj.bias))
    gated = nn.SwiGLU(6, 10)
    gate, up = (x.numpy() @ array(w.weight).T for w in (gated.gate_proj, gated.up_proj))
    close(gated(x), (gate / (1 + np.exp(-gate)) * up) @ array(gated.down_proj.weight).T)
    assert sum(p.numel() for p in nn.GeGLU(96, multiple=32).parameters()) == 3 * 96 * 256
    assert sum(p.numel() for p in nn.FeedForward(96, bias=False).parameters()) == 8 * 96 * 96
    with pytest.raises(ValueError, match="silu"):
        nn.FeedForward(4, activation="swish")(draw(1, 4))


@pytest.mark.parametrize("kind", ["layer", "group"])
def test_adaptive_norms(kind):
    if kind == "layer":
        layer, plain, x = nn.AdaLN(6, 3), nn.LayerNorm(6), draw(2, 5, 6)
    else:
        layer, plain, x = nn.AdaGN(2, 6, 3), nn.GroupNorm(2, 6), draw(2, 6, 5, 4)
    cond = draw(2, 3).requires_grad_()
    close(layer(x, cond), plain(x), 1e-6)
    nn.init.normal_(layer.proj.weight)
    out = layer(x, cond)
    shift, scale = (layer.proj(cond).chunk(2, -1)[i] for i in (1, 0))
    shape = (2, 1, 6) if kind == "layer" else (2, 6, 1, 1)
    close(out, plain(x) * (1 + scale.reshape(shape)) + shift.reshape(shape), 1e-4)
    out.sum().backward()
    assert np.any(cond.grad.numpy() != 0)
    with pytest.raises(ValueError, match=r"\(3, 3\), expected \(2, 3\)"):
        layer(x, draw(3, 3))


def test_initial_schemes():
    tl.manual_seed(0)
    w = tl.empty(400, 300)
    assert nn.init.lecun_normal_(w).numpy().std() == pytest.approx(1 / math.sqrt(300), rel=0.02)
    assert nn.init.lecun_uniform_(w).numpy().std() == pytest.approx(1 / math.sqrt(300), rel=0.02)
    block = nn.init.gpt2_(nn.Sequential(nn.Attention(64, 4, bias=True), nn.FeedForward(64)), layers=8)
    small = [n for n, p in block.named_parameters() if p.dim() > 1 and p.detach().numpy().std() < 0.01]
    assert small == ["0.o_proj.weight", "1.down_proj.weight"]
    assert block[0].o_proj.weight.detach().numpy().std() == pytest.approx(0.02 / 4, rel=0.1)
    assert np.all(block[1].up_proj.bias.detach().numpy() == 0)
    model = nn.init.apply_(nn.Linear(50, 40), nn.init.orthogonal_)
    np.testing.assert_allclose(model.weight.detach().numpy() @ model.weight.detach().numpy().T, np.eye(40), atol=1e-5)


def test_bilinear():
    layer, a, b = nn.Bilinear(3, 4, 2), draw(5, 3), draw(5, 4)
    expected = np.einsum("ni,oij,nj->no", a.numpy(), layer.weight.detach().numpy(), b.numpy())
    close(layer(a, b), expected + layer.bias.detach().numpy())
    with pytest.raises(ValueError, match="in1_features"):
        nn.Bilinear(0, 1, 1)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode):
    layer = nn.EmbeddingBag(7, 3, mode=mode, padding_idx=2)
    table = layer.weight.detach().numpy()
    index, starts = np.array([1, 2, 6, 5, 5, 2, 0, 3]), np.array([0, 3, 3, 5, 6])
    how = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    bags = [[i for i in bag if i != 2] for bag in np.split(index, starts[1:])]
    expected = np.array([how(table[bag], 0) if bag else np.zeros(3) for bag in bags])
    close(layer(tl.tensor(index), tl.tensor(starts)), expected)
    even = np.array([[1, 2], [2, 2], [4, 6]])
    expected = np.array([how(table[[i for i in row if i != 2]], 0) if set(row) != {2} else np.zeros(3) for row in even])
    close(layer(tl.tensor(even)), expected)
    close(
        tl.compile(lambda i, o: layer(i, o))(tl.tensor(index), tl.tensor(starts)),
        layer(tl.tensor(index), tl.tensor(starts)),
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.EmbeddingBag(4, 2, mode="min"), ValueError, "min"),
        (lambda: nn.EmbeddingBag(4, 2)(tl.tensor([1, 2])), ValueError, "offsets"),
        (lambda: nn.DropPath(1.0), ValueError, r"DropPath: p must lie in \[0, 1\)"),
        (lambda: nn.Residual(nn.Identity(), 2, "both"), ValueError, "both"),
        (lambda: nn.TransformerEncoderLayer(4, 3), ValueError, "num_heads 3 does not divide embed_dim 4"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="selu"), RuntimeError, "selu"),
        (lambda: nn.TransformerEncoderLayer(4, 2, sandwich=True), ValueError, "norm_first"),
        (lambda: nn.Transformer(4, 2, 1, 1, 8)(draw(3, 2, 4), draw(3, 1, 4)), RuntimeError, "batch number"),
        (lambda: nn.Transformer(4, 2, 1, 1, 8)(draw(3, 2, 5), draw(3, 2, 4)), RuntimeError, "d_model 4"),
        (lambda: nn.AdaGN(3, 4, 2), ValueError, "num_groups 3 does not divide channels 4"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("sandwich", [False, True])
def test_encoder_step_compiled(sandwich):
    def build() -> nn.Module:
        tl.manual_seed(3)
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, norm_first=True, batch_first=True, sandwich=sandwich)
        return nn.TransformerEncoder(layer, 2, nn.LayerNorm(8))

    eager, native = build(), build()
    x, mask = draw(2, 5, 8), nn.Transformer.generate_square_subsequent_mask(5)
    losses = []
    for model, wrap in ((eager, lambda f: f), (native, tl.compile)):
        optimizer = tl.optim.SGD(model.parameters(), lr=0.1)

        def step(x: tl.Tensor, model: nn.Module = model, optimizer: tl.optim.SGD = optimizer) -> tl.Tensor:
            loss = (model(x, mask, is_causal=True) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        run = wrap(step)
        losses.append([run(x).item() for _ in range(3)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    for (name, a), b in zip(eager.named_parameters(), native.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-6, err_msg=name)
