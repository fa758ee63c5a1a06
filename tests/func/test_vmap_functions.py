"""vmap of functions and their gradients equals the loop: one call a family of the public functions."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import func
from tinygrad_lite.nn import functional as F

SIZE = 3
X = tl.tensor(np.random.default_rng(0).normal(size=(SIZE, 4, 4)))


def assigned(x, index, value):
    y = x.clone()
    y[index] = value
    return y


FUNCTIONS = {
    "unfold": lambda x: x.unfold(0, 2, 1),
    "roll": lambda x: x.roll(1, 0),
    "tril": lambda x: tl.tril(x),
    "quantile": lambda x: tl.quantile(x, 0.3, dim=1),
    "median": lambda x: x.median(dim=0)[0],
    "mode": lambda x: x.round().mode(1)[0],
    "kthvalue": lambda x: x.kthvalue(2, dim=1)[0],
    "std_mean": lambda x: tl.std_mean(x)[0],
    "nansum": lambda x: x.nansum(),
    "logsumexp": lambda x: x.logsumexp(0),
    "cumprod": lambda x: x.cumprod(0),
    "histc": lambda x: tl.histc(x, 4, -2, 2),
    "searchsorted": lambda x: tl.searchsorted(x.sort(1)[0], x),
    "bucketize": lambda x: tl.bucketize(x, tl.tensor([-1.0, 0.0, 1.0]).double()),
    "one_hot": lambda x: F.one_hot(x.argmax(1), 4),
    "cdist": lambda x: tl.cdist(x, x + 1),
    "renorm": lambda x: x.renorm(2, 0, 1.0),
    "norm": lambda x: tl.linalg.norm(x),
    "cross": lambda x: tl.linalg.cross(x[:, :3], x[:, 1:]),
    "qr": lambda x: tl.linalg.qr(x)[1].abs(),
    "eigh": lambda x: tl.linalg.eigh(x + x.T)[0],
    "pinv": lambda x: tl.linalg.pinv(x),
    "slogdet": lambda x: tl.linalg.slogdet(x)[1],
    "cholesky": lambda x: tl.linalg.cholesky(x @ x.T + 4 * tl.eye(4).double()),
    "matrix_exp": lambda x: tl.linalg.matrix_exp(x),
    "matrix_power": lambda x: tl.linalg.matrix_power(x, 3),
    "where": lambda x: tl.where(x > 0, x, 0.0),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "assignment by slices": lambda x: assigned(x, (slice(None), 1), 5.0),
    "assignment by a mask": lambda x: assigned(x, x > 0, 0.0),
    "index_put": lambda x: x.index_put((tl.tensor([0, 1]), tl.tensor([1, 1])), x[0, :2]),
    "two indices": lambda x: x[tl.triu_indices(4, 4)[0], tl.triu_indices(4, 4)[1]],
    "scatter_reduce": lambda x: x.scatter_reduce(0, (x > 0).long(), x, "amax"),
    "fill_diagonal_": lambda x: x.clone().fill_diagonal_(2.0),
    "embedding": lambda x: F.embedding(tl.tensor([0, 2, 1]), x),
    "interpolate": lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
    "grid_sample": lambda x: F.grid_sample(x[None, None], tl.tanh(x).reshape(1, 2, 4, 2), align_corners=False),
    "max_pool2d indices": lambda x: F.max_pool2d(x[None], 2, return_indices=True)[1],
    "lp_pool2d": lambda x: F.lp_pool2d(x[None].abs(), 2, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x[None], (2, 3)),
    "conv1d": lambda x: F.conv1d(x[None], tl.ones(2, 4, 2).double()),
    "conv2d": lambda x: F.conv2d(x[None, None].float(), x[None, None, :2, :2].float(), padding=1),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x[None, None].float(), tl.ones(1, 2, 2, 2)),
    "group_norm": lambda x: F.group_norm(x[None], 2),
    "softmax": lambda x: F.softmax(x, 1),
    "glu": lambda x: F.glu(x, 0),
    "attention": lambda x: F.scaled_dot_product_attention(x.float(), x.float() + 1, x.float() * 2),
    "ctc_loss": lambda x: F.ctc_loss(
        x.log_softmax(1)[:, None].float(), tl.tensor([[1, 2]]), tl.tensor([4]), tl.tensor([2])
    ),
    "cross_entropy": lambda x: F.cross_entropy(x, x.softmax(1)),
    "kl_div": lambda x: F.kl_div(x, x.softmax(1), reduction="sum"),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x, tl.tensor([0, 1, 2, 3])),
    "triplet_margin_loss": lambda x: F.triplet_margin_loss(x, x.flip(0), x + 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    f = FUNCTIONS[name]
    expected = tl.stack([f(x) for x in X])
    found = func.vmap(f)(X)
    assert found.dtype is expected.dtype
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    if expected.is_floating_point():
        gradient = func.grad(lambda x: f(x).sum())
        expected = tl.stack([gradient(x) for x in X])
        np.testing.assert_allclose(func.vmap(gradient)(X).numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
