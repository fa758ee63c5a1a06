"""The same expressions under PyTorch and here: values, dtypes, shapes, gradients and kinds of error. Needs torch."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite.nn import functional

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4)).astype(np.float32)
Y = RNG.standard_normal((3, 4)).astype(np.float32)
CUBE = RNG.standard_normal((2, 3, 4)).astype(np.float32)
TIES = np.array([[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0], [-1.0, -1.0, 5.0, 5.0]], np.float32)
LABELS = RNG.integers(0, 4, 3)
SIZES = np.array([[1, 0, 2, 3], [3, 3, 0, 1]])

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
    "pow": lambda t, F, x, y: x**2 + x**3 + x.abs() ** 0.5 + x.abs() ** 1.7 + 2**x + x.abs() ** y,
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


def _pair(name, f, x=X, y=Y):
    found = []
    for lib, F in ((torch, torch.nn.functional), (tl, functional)):
        a, b = (lib.tensor(v, requires_grad=True) for v in (x, y))
        out = f(lib, F, a, b)
        weights = lib.tensor(np.cos(np.arange(out.numel(), dtype=np.float32)).reshape(tuple(out.shape)))
        (out * weights).sum().backward()
        grads = [np.zeros_like(x) if p.grad is None else p.grad.numpy() for p in (a, b)]
        found.append((str(out.dtype).split(".")[1], out.detach().numpy(), *grads))
    return found


@pytest.mark.parametrize("name", FLOATING)
def test_values_and_gradients(name):
    theirs, ours = _pair(name, FLOATING[name])
    assert ours[0] == theirs[0]
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    "name", ["extrema", "extrema along", "maximum ties", "relu", "clamp", "abs neg", "hard", "prod"]
)
def test_gradients_at_ties(name):
    theirs, ours = _pair(name, FLOATING[name], TIES, TIES.copy())
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


INTEGERS = {
    "arithmetic": lambda t, n, b: n + 1,
    "true division": lambda t, n, b: n / 2,
    "floor division": lambda t, n, b: (n - 2) // 2,
    "trunc division": lambda t, n, b: t.div(n - 2, 2, rounding_mode="trunc"),
    "modulo": lambda t, n, b: (n - 2) % 3,
    "float scalar": lambda t, n, b: n * 0.5,
    "bool plus": lambda t, n, b: b + 1,
    "bool times": lambda t, n, b: b * n,
    "bools": lambda t, n, b: (b & ~b) | (b ^ True),
    "sum of bools": lambda t, n, b: b.sum(),
    "sum of int32": lambda t, n, b: n.int().sum(0),
    "prod": lambda t, n, b: n.prod(1),
    "max": lambda t, n, b: n.max(1).indices,
    "argmax": lambda t, n, b: n.argmax() + n.argmin(),
    "argmax along": lambda t, n, b: n.argmax(1, keepdim=True),
    "any": lambda t, n, b: b.any(1),
    "all": lambda t, n, b: n.all(),
    "comparison": lambda t, n, b: (n > 1) == b,
    "pow": lambda t, n, b: n**3 + 2**n,
    "sqrt": lambda t, n, b: n.sqrt(),
    "floor": lambda t, n, b: n.floor(),
    "int8 add int16": lambda t, n, b: n.to(t.int8) + n.to(t.int16),
    "uint8 add int8": lambda t, n, b: n.to(t.uint8) + n.to(t.int8),
    "float32 0-d": lambda t, n, b: n + t.tensor(1.5),
    "float64 0-d": lambda t, n, b: n.float() + t.tensor(1.5, dtype=t.float64),
    "int64 0-d": lambda t, n, b: n.to(t.int8) + t.tensor(300)[None][0],
    "cumsum": lambda t, n, b: n.cumsum(1) + b.cumsum(0),
    "one_hot": lambda t, n, b: (functional if t is tl else torch.nn.functional).one_hot(n, 5),
    "nonzero": lambda t, n, b: n.nonzero(),
    "unique": lambda t, n, b: n.unique(),
    "bincount": lambda t, n, b: n.flatten().bincount(),
    "where": lambda t, n, b: t.where(b, n, 1.5),
    "arange": lambda t, n, b: t.arange(2, 11, 3),
    "arange float": lambda t, n, b: t.arange(0, 1, 0.25),
    "full": lambda t, n, b: t.full((2,), 3),
    "full like": lambda t, n, b: t.full_like(n, 3.7),
    "linspace": lambda t, n, b: t.linspace(-1, 2, 7),
    "eye": lambda t, n, b: t.eye(2, 3),
    "tensor of floats": lambda t, n, b: t.tensor([[1.5, 2], [3, 4]]),
    "tensor of mixed": lambda t, n, b: t.tensor([True, 2]),
    "tril_indices": lambda t, n, b: t.tril_indices(3, 4),
    "repeat": lambda t, n, b: n.repeat(1, 2),
    "median": lambda t, n, b: n.median(),
    "cast": lambda t, n, b: (n.float() / 2).long(),
    "new": lambda t, n, b: n.new_zeros(2, 3) + n.new_full((3,), 2),
    "isnan": lambda t, n, b: t.tensor([1.0, float("nan"), float("inf")]).isnan(),
    "isfinite": lambda t, n, b: t.tensor([1.0, float("nan"), -float("inf")]).isfinite(),
    "searchsorted": lambda t, n, b: t.searchsorted(t.tensor([1, 2, 3]), n),
    "stride": lambda t, n, b: t.tensor(t.zeros(4, 6)[1:, ::2].t().stride()),
    "contiguous": lambda t, n, b: t.tensor([n.t().is_contiguous(), n[:1].is_contiguous(), n[:, :1].is_contiguous()]),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_and_dtypes(name):
    found = []
    for lib in (torch, tl):
        n = lib.tensor(SIZES)
        out = INTEGERS[name](lib, n, n > 1)
        found.append((str(out.dtype).split(".")[1], out.numpy()))
    (their_type, theirs), (our_type, ours) = found
    assert our_type == their_type
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"]


@pytest.mark.parametrize("a", DTYPES)
@pytest.mark.parametrize("b", DTYPES)
@pytest.mark.parametrize("shapes", [((2,), (2,)), ((2,), ()), ((), ())])
def test_promotion_table(a, b, shapes):
    results = []
    for lib in (torch, tl):
        x, y = lib.ones(shapes[0], dtype=getattr(lib, a)), lib.ones(shapes[1], dtype=getattr(lib, b))
        results.append([str((x * y).dtype).split(".")[1]] + [str((x * s).dtype).split(".")[1] for s in (True, 2, 2.5)])
    assert results[0] == results[1]


# name: f(lib); raises the same class of exception in both
ERRORS = {
    "broadcast": lambda t: t.zeros(2, 3) + t.zeros(4),
    "matmul": lambda t: t.zeros(2, 3) @ t.zeros(4, 3),
    "matmul dtypes": lambda t: t.zeros(2, 2) @ t.zeros(2, 2, dtype=t.float64),
    "view of transpose": lambda t: t.zeros(2, 3).t().view(6),
    "reshape": lambda t: t.zeros(2, 3).reshape(4),
    "index out of range": lambda t: t.zeros(3)[3],
    "list index out of range": lambda t: t.zeros(3)[[0, 3]],
    "too many indices": lambda t: t.zeros(3)[0, 0],
    "negative step": lambda t: t.zeros(3)[::-1],
    "float index": lambda t: t.zeros(3)[t.tensor([0.5])],
    "mask shape": lambda t: t.zeros(3)[t.tensor([True, False])],
    "write to expanded": lambda t: t.zeros(1).expand(3).add_(1),
    "in-place on a leaf": lambda t: t.zeros(3, requires_grad=True).add_(1),
    "in-place on a view of a leaf": lambda t: t.zeros(3, requires_grad=True)[:1].add_(1),
    "in-place shape": lambda t: t.zeros(3).add_(t.zeros(2, 3)),
    "in-place dtype": lambda t: t.zeros(3, dtype=t.int64).add_(0.5),
    "div_ of integers": lambda t: t.ones(3, dtype=t.int64).div_(2),
    "copy_ shape": lambda t: t.zeros(3).copy_(t.zeros(4)),
    "assign shape": lambda t: t.zeros(3).__setitem__(slice(0, 2), t.zeros(3)),
    "backward of a vector": lambda t: (t.zeros(3, requires_grad=True) * 2).backward(),
    "backward without grad": lambda t: t.zeros(()).backward(),
    "gradient shape": lambda t: (t.zeros(3, requires_grad=True) * 2).backward(t.zeros(2)),
    "grad of unused": lambda t: t.autograd.grad(t.ones(1, requires_grad=True).sum(), t.ones(1, requires_grad=True)),
    "requires_grad of integers": lambda t: t.tensor([1], requires_grad=True),
    "numpy of a tensor that requires grad": lambda t: t.zeros(3, requires_grad=True).numpy(),
    "requires_grad_ of a non-leaf": lambda t: (t.zeros(3, requires_grad=True) * 2).requires_grad_(False),
    "bool of many": lambda t: bool(t.zeros(3)),
    "item of many": lambda t: t.zeros(3).item(),
    "len of a scalar": lambda t: len(t.tensor(1)),
    "iterate a scalar": lambda t: list(t.tensor(1)),
    "mean of integers": lambda t: t.tensor([1, 2]).mean(),
    "max of nothing": lambda t: t.zeros(0).max(),
    "sub of bools": lambda t: t.tensor([True]) - t.tensor([True]),
    "neg of bools": lambda t: -t.tensor([True]),
    "invert of floats": lambda t: ~t.tensor([1.0]),
    "integer negative power": lambda t: t.tensor([2]) ** -1,
    "unknown keyword": lambda t: t.zeros(3).sum(axes=0),
    "dim as a string": lambda t: t.zeros(3).sum("a"),
    "dim out of range": lambda t: t.zeros(3).sum(1),
    "cat of nothing": lambda t: t.cat([]),
    "cat shapes": lambda t: t.cat([t.zeros(2, 2), t.zeros(3, 3)]),
    "stack shapes": lambda t: t.stack([t.zeros(2), t.zeros(3)]),
    "topk": lambda t: t.zeros(3).topk(4),
    "split sections": lambda t: t.zeros(3).split([1, 1]),
    "narrow": lambda t: t.zeros(3).narrow(0, 2, 2),
    "ragged data": lambda t: t.tensor([[1, 2], [3]]),
    "tensor of strings": lambda t: t.tensor("abc"),
    "add a string": lambda t: t.zeros(3) + "a",
    "gather rank": lambda t: t.zeros(3).gather(0, t.tensor([[0]])),
    "class out of range": lambda t: t.nn.functional.cross_entropy(t.zeros(2, 3), t.tensor([0, 3])),
    "target size": lambda t: t.nn.functional.cross_entropy(t.zeros(2, 3), t.tensor([0, 1, 2])),
    "dropout p": lambda t: t.nn.functional.dropout(t.zeros(3), 1.5),
    "embedding range": lambda t: t.nn.functional.embedding(t.tensor([5]), t.zeros(3, 2)),
    "normalized shape": lambda t: t.nn.functional.layer_norm(t.zeros(2, 3), (4,)),
    "detach_ of a view": lambda t: (t.zeros(3, requires_grad=True) * 2)[:1].detach_(),
    "hook without grad": lambda t: t.zeros(3).register_hook(print),
    "grad of another shape": lambda t: setattr(t.zeros(3, requires_grad=True), "grad", t.zeros(2)),
    "unsqueeze range": lambda t: t.zeros(3).unsqueeze(3),
    "multinomial": lambda t: t.multinomial(t.tensor([0.0, 0.0]), 1),
    "arange step": lambda t: t.arange(0, 3, -1),
}


def _error(f, lib):
    try:
        f(lib)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_of_the_same_class(name):
    theirs, ours = _error(ERRORS[name], torch), _error(ERRORS[name], tl)
    assert theirs is not None, "not an error in PyTorch"
    assert ours is not None, f"PyTorch raises {theirs!r}"
    assert isinstance(ours, type(theirs)), f"{ours!r} against {theirs!r}"
    assert len(str(ours)) > 10


def _texts():
    return [
        lambda t: t.tensor([[1.0, 2.0], [3.0, 4.0]]),
        lambda t: t.tensor([1.5, -2.25, float("nan")]),
        lambda t: t.tensor([1e-5, 1.0]),
        lambda t: t.tensor([1e10, 1.0]),
        lambda t: t.tensor(3),
        lambda t: t.tensor(3.5, requires_grad=True),
        lambda t: t.tensor([True, False]),
        lambda t: t.zeros(2, 0),
        lambda t: t.tensor([]),
        lambda t: t.zeros(2, dtype=t.float64),
        lambda t: t.arange(12).reshape(2, 2, 3),
        lambda t: t.arange(2000).reshape(20, 100),
        lambda t: t.tensor([1.0, float("inf")]),
        lambda t: t.arange(40) * 0.5,
        lambda t: t.tensor([[100.5, 2.0], [-3.0, 4.0]]),
    ]


@pytest.mark.parametrize("index", range(len(_texts())))
def test_repr(index):
    f = _texts()[index]
    assert repr(f(tl)).replace("tinygrad_lite.", "torch.") == repr(f(torch))
