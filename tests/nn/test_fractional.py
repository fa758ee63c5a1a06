"""Fractional pooling and the adaptive softmax: by hand, eager against compiled, and as PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.nn import functional as F

RNG = np.random.default_rng(0)


def draw(*shape: int) -> tl.Tensor:
    return tl.tensor(RNG.standard_normal(shape))


def test_windows_of_fractional_pooling():
    x = tl.arange(49, dtype=tl.float32).reshape(1, 1, 7, 7)
    samples = tl.tensor([[[0.5, 0.0]]])  # the width's, the height's: steps of 2.5 from there
    y, at = F.fractional_max_pool2d(x, 2, output_size=3, return_indices=True, _random_samples=samples)
    rows, columns = [0, 2, 5], [0, 2, 5]  # int((i + u) 2.5) - int(u 2.5), the last at the end
    want = [[7 * (r + 1) + c + 1 for c in columns] for r in rows]
    assert y[0, 0].tolist() == want == at[0, 0].tolist()
    layer = nn.FractionalMaxPool2d(2, output_ratio=0.5)
    assert layer(x).shape == (1, 1, 3, 3) and layer(x[0]).shape == (1, 3, 3)
    tl.manual_seed(0)
    first = layer(x)
    tl.manual_seed(0)
    assert (tl.compile(layer)(x) == first).all()


def test_sizes_of_fractional_pooling():
    x = tl.zeros(1, 1, 5, 5)
    with pytest.raises(ValueError, match="either"):
        nn.FractionalMaxPool2d(2)
    with pytest.raises(RuntimeError, match=r"kernel_size \[3, 3\] and output \[4, 4\] do not fit \[5, 5\]"):
        F.fractional_max_pool2d(x, 3, output_size=4)
    with pytest.raises(ValueError, match="output_ratio must lie between 0 and 1"):
        F.fractional_max_pool2d(x, 2, output_ratio=1.5)
    with pytest.raises(RuntimeError, match="expected an input of 4 or 5 axes"):
        F.fractional_max_pool3d(tl.zeros(2, 2), 2, output_size=1)


def test_adaptive_softmax_is_a_distribution():
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 9], div_value=2.0).double()
    assert list(layer.state_dict()) == [
        "head.weight", "tail.0.0.weight", "tail.0.1.weight", "tail.1.0.weight", "tail.1.1.weight",
    ]  # fmt: skip
    x, target = draw(6, 8), tl.tensor([0, 3, 4, 8, 9, 11])
    np.testing.assert_allclose(layer.log_prob(x).exp().sum(1).detach().numpy(), 1.0, rtol=1e-12)
    output, loss = layer(x, target)
    np.testing.assert_allclose(tl.compile(layer)(x, target)[0].detach().numpy(), output.detach().numpy(), rtol=1e-12)
    assert loss.item() == pytest.approx(-output.mean().item()) and layer.predict(x).shape == (6,)
    assert layer(x[0], target[0])[0].item() == pytest.approx(output[0].item())
    with pytest.raises(ValueError, match="unique, positive integers sorted"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 12])
    with pytest.raises(RuntimeError, match="same size in the batch dimension"):
        layer(x, target[:2])


@pytest.mark.torch
@pytest.mark.parametrize("dims", [2, 3])
def test_fractional_pooling_as_pytorch(dims):
    torch = pytest.importorskip("torch")
    size = (7, 9, 8)[:dims]
    name, out = f"fractional_max_pool{dims}d", (3, 4, 1)[:dims]
    x, samples = draw(2, 3, *size), tl.rand(2, 3, dims, dtype=tl.float64)
    ours, theirs = x.requires_grad_(), torch.tensor(x.numpy(force=True)).requires_grad_()
    given = {"output_size": out, "return_indices": True}
    y, at = getattr(F, name)(ours, 2, _random_samples=samples, **given)
    z, there = getattr(torch.nn.functional, name)(theirs, 2, _random_samples=torch.tensor(samples.numpy()), **given)
    assert (y.numpy(force=True) == z.detach().numpy()).all() and (at.numpy() == there.numpy()).all()
    y.pow(2).sum().backward()
    z.pow(2).sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-12)


@pytest.mark.torch
@pytest.mark.parametrize("head_bias", [False, True])
def test_adaptive_softmax_as_pytorch(head_bias):
    torch = pytest.importorskip("torch")
    ours = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 11], 2.0, head_bias).double()
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 11], 2.0, head_bias).double()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: tl.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x, target = draw(9, 8), tl.tensor(RNG.integers(0, 20, 9))
    a, b = ours(x, target), theirs(torch.tensor(x.numpy()), torch.tensor(target.numpy()))
    np.testing.assert_allclose(a.output.detach().numpy(), b.output.detach().numpy(), rtol=1e-12)
    a.loss.backward()
    b.loss.backward()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-10, atol=1e-14)
    assert (ours.predict(x).numpy() == theirs.predict(torch.tensor(x.numpy())).numpy()).all()
