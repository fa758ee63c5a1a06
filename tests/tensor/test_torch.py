"""The same expressions under PyTorch and here: values, dtypes, shapes, gradients and kinds of error. Needs torch."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.tensor.expressions import FLOATING, TIES, X, Y
from tinygrad_lite.nn import functional

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


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


SIZES = np.array([[1, 0, 2, 3], [3, 3, 0, 1]])
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
        lambda t: t.ones(3, 200),
        lambda t: t.arange(12000).reshape(20, 6, 100),
        lambda t: t.zeros(2, 2, 2, 2, 3),
        lambda t: t.tensor([1.0, 2000.0]),
        lambda t: t.ones(20, dtype=t.float64, requires_grad=True),
        lambda t: t.ones(15, requires_grad=True) * 2,
    ]


@pytest.mark.parametrize("index", range(len(_texts())))
def test_repr(index):
    f = _texts()[index]
    assert repr(f(tl)).replace("tinygrad_lite.", "torch.") == repr(f(torch))
