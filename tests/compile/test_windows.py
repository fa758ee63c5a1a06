"""Small windows are reduced without a loop, whatever follows; what lies between neighbours is stored beside them."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.nn import functional as F


def windows(x):
    return x.reshape(6, 4, 2, 5, 2).permute(0, 1, 2, 4, 3)  # (…, 2, 2, 5): neighbours of both axes


CASES = {
    "sum": lambda x: windows(x).sum((2, 3)),
    "max and what follows": lambda x: F.gelu(windows(x).amax((2, 3))) * 2,
    "softmax of a window": lambda x: windows(x).flatten(2, 3).softmax(2),
    "variance": lambda x: windows(x).var((2, 3)),
    "two reductions": lambda x: (windows(x) - windows(x).mean((2, 3), keepdim=True)).abs().sum((2, 3)),
    "any": lambda x: (windows(x) > 1).any(3).any(2),
    "a window of values of another rank": lambda x: (x.sum(0)[:4, :4].reshape(4, 2, 2) * 2).sum((1,)) + x[0, 0, 0],
    "argmax": lambda x: windows(x).flatten(2, 3).argmax(2),
    "channels side by side": lambda x: tl.stack([x.sin(), x.cos(), x], -1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("workers", [1, 2])
def test_as_eager(name, workers, monkeypatch):
    monkeypatch.setattr("tinygrad_lite.program.SMALL_STEP", 0 if workers == 2 else 2**60)
    monkeypatch.setattr("tinygrad_lite.program.SMALL_CALL", 0)
    x = tl.from_numpy(np.random.default_rng(0).standard_normal((6, 8, 10)).astype(np.float32))
    got, want = tl.compile(CASES[name])(x), CASES[name](x)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-6, atol=1e-6)


def test_pooling_is_one_kernel_without_a_loop_over_the_window():
    x = tl.randn(3, 4, 8, 10, requires_grad=True)

    @tl.compile
    def step(x):
        y = F.max_pool2d(x, 2)
        (y * y).sum().backward()
        return y

    step(x)
    forward = step._latest().program.calls[0]
    assert {"max", "min"} <= {n.op.name for n in forward.group.nodes}
    assert forward.source.count("for ") == 2  # rows, and columns of the result


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_batch_is_not_part_of_a_kernel(size):
    """Gradients of what all rows share are sums over the batch, however small it is."""
    layer = nn.LayerNorm((4, 8))

    @tl.compile
    def step(x):
        layer.zero_grad()
        (layer(x) ** 2).sum().backward()

    sources = []
    for batch in (size, 7):
        step(tl.randn(batch, 4, 8))
        sources.append({c.source for c in step._latest().program.calls})
    assert sources[0] == sources[1]
