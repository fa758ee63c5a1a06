"""Differentiable expressions as a table, written for any library with PyTorch's names: compared with PyTorch by
test_torch.py, and compiled against eager by test_compiled.py."""

from __future__ import annotations

import numpy as np

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4)).astype(np.float32)
Y = RNG.standard_normal((3, 4)).astype(np.float32)
TIES = np.array([[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0], [-1.0, -1.0, 5.0, 5.0]], np.float32)
LABELS = RNG.integers(0, 4, 3)

# What reads values, and so cannot be captured.
EAGER_ONLY = {"masks"}

# name: f(lib, F, x, y); x and y are (3, 4) leaves that require grad
FLOATING = {
    "add": lambda t, F, x, y: x + y * 2 - 1 + (3 - x),
    "add alpha": lambda t, F, x, y: t.add(x, y, alpha=0.5) + t.sub(x, y, alpha=2),
    "div": lambda t, F, x, y: x / y + 1 / y + x / 3,
    "div rounding": lambda t, F, x, y: (
        t.div(x * 10, y, rounding_mode="floor") + t.div(x * 10, y, rounding_mode="trunc")
    ),
    "floordiv mod": lambda t, F, x, y: (x.detach() * 5 // 2) + (x * 5) % 3 + (x * 7) % y,
    "rfloordiv": lambda t, F, x, y: 7 // (x + 4).detach() + 7 % (x + 4).detach() + x,
    "pow": lambda t, F, x, y: x**2 + x**3 + x.abs() ** 0.5 + x.abs() ** 1.7 + x.abs() ** y,
    "pow of a constant": lambda t, F, x, y: 2**x + 3.5**y,
    "pow negative": lambda t, F, x, y: x**-1 + x.abs() ** -0.5 + x**1 + x**0,
    "exp family": lambda t, F, x, y: x.exp() + x.exp2() + x.expm1() + (x * 1e-4).expm1(),
    "log family": lambda t, F, x, y: sum(f(x.abs() + 0.1) for f in (t.log, t.log2, t.log10, t.log1p)),
    "roots": lambda t, F, x, y: x.abs().sqrt() + x.abs().rsqrt() + x.square() + x.reciprocal(),
    "trigonometry": lambda t, F, x, y: x.sin() + x.cos() + x.tan() + x.tanh() + x.erf() + x.sigmoid(),
    "rounding": lambda t, F, x, y: (x * 3).floor() + (x * 3).ceil() + (x * 3).trunc() + (x * 3).round() + x.sign(),
    "round half": lambda t, F, x, y: t.round(t.floor(x * 4) / 2) + x.round(decimals=1),
    "abs neg": lambda t, F, x, y: abs(x) + (-x) + (+x),
    "minmax": lambda t, F, x, y: t.maximum(x, y) + t.minimum(x, y) * 2 + t.max(x, y) + t.min(x, y),
    "maximum ties": lambda t, F, x, y: t.maximum(x, x * 1) + t.minimum(x.detach(), x),
    "clamp": lambda t, F, x, y: x.clamp(-0.5, 0.5) + x.clamp(min=0) + x.clamp(max=0.3) + x.clip(0, 1),
    "clamp tensors": lambda t, F, x, y: x.clamp(y - 0.5, y + 0.1),
    "where": lambda t, F, x, y: t.where(x > 0, x, y) + t.where(x > y, x, 0.0) + x.where(y > 0, y),
    "masked_fill": lambda t, F, x, y: x.masked_fill(y > 0, -1.5) + y.masked_fill(x > 0, 2),
    "lerp": lambda t, F, x, y: t.lerp(x, y, 0.3) + t.addcmul(x, x, y, value=2) + t.addcdiv(x, y, y + 9, value=0.1),
    "sum": lambda t, F, x, y: x.sum() + x.sum(0) + x.sum(1, keepdim=True) + x.sum((0, 1)) + x.sum(-1).sum(),
    "mean": lambda t, F, x, y: x.mean() + x.mean(0) + x.mean(dim=1, keepdim=True) + y.mean((0, 1), True),
    "prod": lambda t, F, x, y: x.prod() + x.prod(1, keepdim=True) + x.prod(0),
    "var std": lambda t, F, x, y: x.var() + x.std() + x.var(0) + x.std(1, keepdim=True) + x.var(1, unbiased=False)[0],
    "var correction": lambda t, F, x, y: (
        x.var(0, correction=0) + x.std(dim=1, correction=2, keepdim=True) + x.var(False)
    ),
    "extrema": lambda t, F, x, y: x.max() + x.min() + x.amax(0) + x.amin(1, keepdim=True) + x.amax(),
    "extrema along": lambda t, F, x, y: x.max(0).values + x.min(1, keepdim=True)[0] + t.max(x, dim=0)[0],
    "logsumexp": lambda t, F, x, y: x.logsumexp(1, keepdim=True) + t.logsumexp(x, (0, 1)) + x.logsumexp(0),
    "norm": lambda t, F, x, y: x.norm() + x.norm(dim=1, keepdim=True) + x.norm(1) + x.norm(3, 0) + x.norm(float("inf")),
    "cumulative": lambda t, F, x, y: x.cumsum(0) + x.cumsum(1) + t.cumprod(x, 1),
    "softmax": lambda t, F, x, y: x.softmax(1) + t.softmax(x, 0) * y + x.log_softmax(-1) * y + F.softmin(x, dim=1),
    "matmul": lambda t, F, x, y: x @ y.t() + t.mm(x, y.T) + (x @ y[0])[:, None] + (y[:, 0] @ x).sum() + x[0].dot(y[0]),
    "linear": lambda t, F, x, y: F.linear(x, y, y[:, 0]) + F.linear(x, y) + t.outer(x[:, 0], y[:, 1]),
    "addmm": lambda t, F, x, y: t.addmm(x[:, :3], x, y.mT, beta=0.5, alpha=2) + t.mv(x, y[0])[:, None],
    "shapes": lambda t, F, x, y: x.reshape(4, 3).t() + x.view(2, 6).view(-1, 4) + x.flatten().unflatten(0, (3, 4)),
    "permute": lambda t, F, x, y: x[None].permute(2, 0, 1).reshape(4, 3).transpose(0, 1) + x.movedim(0, 1).mT,
    "squeeze": lambda t, F, x, y: x.unsqueeze(0).unsqueeze(-1).squeeze() + x[None].squeeze(0) + x[:, None].squeeze(1),
    "expand": lambda t, F, x, y: (
        x[:, :1].expand(3, 4) + x[0].expand(3, -1) + x.expand_as(y) + y[0].broadcast_to((3, 4))
    ),
    "split": lambda t, F, x, y: t.cat([p * i for i, p in enumerate(x.split(3, 1))], 1) + t.cat(x.chunk(2, 1)[::-1], 1),
    "split sections": lambda t, F, x, y: x.split([1, 3], dim=1)[1].sum() + t.stack(x.unbind(1), 1) + x.narrow(1, -2, 1),
    "stack": lambda t, F, x, y: t.stack([x, y], 1).sum(1) + t.vstack([x, y])[:3] + t.hstack([x, y])[:, 2:6],
    "flip roll": lambda t, F, x, y: x.flip(0, 1) * y + x.roll(1, 0) * y + x.roll((1, 2), (0, 1)) + x.roll(5) * y,
    "repeat": lambda t, F, x, y: x.repeat(2, 1)[:3] * y + x.tile(2)[:, 2:6] + x.repeat_interleave(2, 1)[:, :4] * y,
    "pad": lambda t, F, x, y: F.pad(x, (1, 2))[:, :4] + F.pad(x, (0, 0, 1, 1), value=2.5)[1:4] + F.pad(y, (-1, 1)),
    "triangles": lambda t, F, x, y: x.tril() + x.triu(1) * 2 + t.tril(y, -1) + x.diag().sum() + x.diagonal(1).sum(),
    "diag": lambda t, F, x, y: t.diag(x[:, 0], 1)[:3] + x,
    "indexing": lambda t, F, x, y: (
        x[1] + x[-1, 2] + x[1:, ::2].sum() + x[..., -1:].sum() + x[None, :, 1].sum() + x[:, :]
    ),
    "advanced": lambda t, F, x, y: x[[0, 2, 0]] + x[:, [3, 3, 1, 0]] * y + x[t.tensor([0, 1]), t.tensor([1, -1])].sum(),
    "masks": lambda t, F, x, y: (
        x[x > 0].sum() + x[t.tensor([True, False, True])].sum() + t.masked_select(x, y > 0).sum() + y
    ),
    "gather": lambda t, F, x, y: (
        x.gather(1, t.tensor([[0, 1], [3, 3], [2, 0]])).sum() + t.take_along_dim(x, t.argsort(y, 1), 1)
    ),
    "index_select": lambda t, F, x, y: (
        x.index_select(0, t.tensor([2, 2, 0])) + x.index_add(0, t.tensor([1, 1, 0]), y, alpha=3)
    ),
    "scatter": lambda t, F, x, y: (
        x.scatter(1, t.tensor([[1], [0], [3]]), y[:, :1]) + x.scatter(0, t.tensor([[1, 1]]), 2.0)
    ),
    "scatter_add": lambda t, F, x, y: x.scatter_add(1, t.tensor([[1, 1], [0, 3], [3, 3]]), y[:, 1:3]),
    "sort": lambda t, F, x, y: (
        x.sort(1).values + x.sort(0, descending=True)[0] + x.topk(2, 1)[0].sum() + x.sort()[0] * y
    ),
    "relu": lambda t, F, x, y: F.relu(x) + x.relu() * y + F.relu6(x * 5) + F.leaky_relu(x, 0.2) + F.hardtanh(x),
    "activations": lambda t, F, x, y: (
        F.elu(x, 0.5) + F.silu(x) + F.mish(x) + F.softplus(x) + F.logsigmoid(x) + F.softsign(x)
    ),
    "hard": lambda t, F, x, y: F.hardsigmoid(x * 3) + F.hardswish(x * 3) + F.glu(x, 1).sum(),
    "gelu": lambda t, F, x, y: F.gelu(x) + F.gelu(y, approximate="tanh"),
    "layer_norm": lambda t, F, x, y: (
        F.layer_norm(x, (4,), y[0], y[1]) + F.layer_norm(x, (3, 4)) + F.rms_norm(x, (4,), y[2])
    ),
    "normalize": lambda t, F, x, y: F.normalize(x) + F.cosine_similarity(x, y)[:, None],
    "cross_entropy": lambda t, F, x, y: F.cross_entropy(x, t.tensor(LABELS)) + F.cross_entropy(y, x.softmax(1)),
    "cross_entropy smoothing": lambda t, F, x, y: F.cross_entropy(x, t.tensor([1, -100, 3]), label_smoothing=0.1),
    "cross_entropy weights": lambda t, F, x, y: F.cross_entropy(x, t.tensor(LABELS), weight=t.tensor(Y[0]).abs()),
    "nll": lambda t, F, x, y: F.nll_loss(x.log_softmax(1), t.tensor(LABELS), reduction="sum"),
    "regression": lambda t, F, x, y: (
        F.mse_loss(x, y) + F.l1_loss(x, y, reduction="sum") + F.mse_loss(x, y, reduction="none")
    ),
    "huber": lambda t, F, x, y: (
        F.huber_loss(x, y, delta=0.7) + F.smooth_l1_loss(x, y, beta=0.5) + F.smooth_l1_loss(y, x)
    ),
    "bce": lambda t, F, x, y: (
        F.binary_cross_entropy(x.sigmoid(), y.sigmoid()) + F.binary_cross_entropy_with_logits(x, y.sigmoid())
    ),
    "kl": lambda t, F, x, y: (
        F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean")
        + F.kl_div(x, y, log_target=True, reduction="sum")
    ),
    "attention": lambda t, F, x, y: F.scaled_dot_product_attention(x[None], y[None], x[None], is_causal=True)[0],
    "attention mask": lambda t, F, x, y: F.scaled_dot_product_attention(x, y, x, attn_mask=t.tensor(X[:, :3] > -1)),
    "attention bias": lambda t, F, x, y: F.scaled_dot_product_attention(
        x[None], y[None], x[None], y[None, :, :3], scale=0.3
    ),
    "embedding": lambda t, F, x, y: F.embedding(t.tensor([[0, 2], [2, 1]]), x, padding_idx=1).sum(0),
    "dropout off": lambda t, F, x, y: F.dropout(x, 0.5, training=False) + F.dropout(y, 0.0),
    "meshgrid": lambda t, F, x, y: sum(g * i for i, g in enumerate(t.meshgrid(x[:, 0], y[0], indexing="ij"), 1)),
    "chain": lambda t, F, x, y: ((x.t() @ y).relu().softmax(-1).mean(0) * y).transpose(0, 1).reshape(2, 6),
}
