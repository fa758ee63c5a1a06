"""The functions against NumPy; test_torch.py holds the comparison with PyTorch, gradients included."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite.nn import functional as F

RNG = np.random.default_rng(1)
X = RNG.standard_normal((3, 4))
Y = RNG.standard_normal((3, 4))
A = np.abs(X) + 0.1
E = np.exp(X)

# ours(x, y, a) and the expected array; a is positive
CASES = {
    "add": (lambda x, y, a: tl.add(x, y, alpha=2), X + 2 * Y),
    "sub": (lambda x, y, a: tl.sub(x, y, alpha=2) - 1, X - 2 * Y - 1),
    "rsub": (lambda x, y, a: 1 - x, 1 - X),
    "mul div": (lambda x, y, a: x * y / a, X * Y / A),
    "rdiv": (lambda x, y, a: 2 / a, 2 / A),
    "floor": (lambda x, y, a: (x * 3) // a, X * 3 // A),
    "trunc": (lambda x, y, a: tl.div(x * 3, a, rounding_mode="trunc"), np.trunc(X * 3 / A)),
    "remainder": (lambda x, y, a: (x * 3) % y, np.mod(X * 3, Y)),
    "pow": (lambda x, y, a: a**y + x**2 + x**3 + 2**x, A**Y + X**2 + X**3 + 2**X),
    "exp": (lambda x, y, a: x.exp() + x.exp2(), E + np.exp2(X)),
    "expm1": (lambda x, y, a: (x * 1e-9).expm1(), np.expm1(X * 1e-9)),
    "log1p": (lambda x, y, a: (x * 1e-9).log1p(), np.log1p(X * 1e-9)),
    "log": (lambda x, y, a: a.log() + a.log2() + a.log10(), np.log(A) + np.log2(A) + np.log10(A)),
    "sqrt": (lambda x, y, a: a.sqrt() + a.rsqrt() + a.reciprocal(), np.sqrt(A) + 1 / np.sqrt(A) + 1 / A),
    "trig": (lambda x, y, a: x.sin() + x.cos() * x.tan() + x.tanh(), np.sin(X) + np.cos(X) * np.tan(X) + np.tanh(X)),
    "sigmoid": (lambda x, y, a: x.sigmoid(), 1 / (1 + np.exp(-X))),
    "round": (
        lambda x, y, a: tl.round(x * 2) + (x * 3).floor() + x.ceil() + x.trunc(),
        np.round(X * 2) + np.floor(X * 3) + np.ceil(X) + np.trunc(X),
    ),
    "sign": (lambda x, y, a: x.sign() * x.abs(), X),
    "minmax": (lambda x, y, a: tl.maximum(x, y) - tl.minimum(x, x * 0), np.maximum(X, Y) - np.minimum(X, 0)),
    "clamp": (lambda x, y, a: x.clamp(-0.5, 0.5), np.clip(X, -0.5, 0.5)),
    "where": (lambda x, y, a: tl.where(x > 0, y, -1.0), np.where(X > 0, Y, -1.0)),
    "lerp": (lambda x, y, a: tl.lerp(x, y, 0.25), X + 0.25 * (Y - X)),
    "sum": (lambda x, y, a: x.sum((0, 1)) + x.sum(0), X.sum() + X.sum(0)),
    "mean": (lambda x, y, a: x.mean(1, keepdim=True), X.mean(1, keepdims=True)),
    "var": (lambda x, y, a: x.var(1) + x.std(1, correction=0), X.var(1, ddof=1) + X.std(1)),
    "prod": (lambda x, y, a: x.prod(0), X.prod(0)),
    "amax": (lambda x, y, a: x.amax(1) - x.amin(1), X.max(1) - X.min(1)),
    "max": (lambda x, y, a: x.max(0).values + x.min(0).indices, X.max(0) + X.argmin(0)),
    "logsumexp": (lambda x, y, a: x.logsumexp(0), np.log(E.sum(0))),
    "norm": (lambda x, y, a: x.norm() + x.norm(1, 0), np.linalg.norm(X) + np.abs(X).sum(0)),
    "cumsum": (lambda x, y, a: x.cumsum(1) + x.cumprod(0), X.cumsum(1) + X.cumprod(0)),
    "softmax": (lambda x, y, a: x.softmax(1), E / E.sum(1, keepdims=True)),
    "log_softmax": (lambda x, y, a: x.log_softmax(0), X - np.log(E.sum(0))),
    "matmul": (lambda x, y, a: x @ y.T, X @ Y.T),
    "linear": (lambda x, y, a: F.linear(x, y, y[:, 0]), X @ Y.T + Y[:, 0]),
    "outer": (lambda x, y, a: tl.outer(x[0], y[:, 0]), np.outer(X[0], Y[:, 0])),
    "cat": (lambda x, y, a: tl.cat([x, y], 1), np.concatenate([X, Y], 1)),
    "stack": (lambda x, y, a: tl.stack([x, y], -1), np.stack([X, Y], -1)),
    "flip": (lambda x, y, a: x.flip(1), X[:, ::-1]),
    "roll": (lambda x, y, a: x.roll(1, 1), np.roll(X, 1, 1)),
    "tile": (lambda x, y, a: x.tile(2, 1, 2), np.tile(X, (2, 1, 2))),
    "pad": (lambda x, y, a: F.pad(x, (1, 2, 0, 1), value=3.0), np.pad(X, ((0, 1), (1, 2)), constant_values=3.0)),
    "tril": (lambda x, y, a: x.tril(-1) + x.triu(1), np.tril(X, -1) + np.triu(X, 1)),
    "diag": (lambda x, y, a: tl.diag(x[0], 1), np.diag(X[0], 1)),
    "diagonal": (lambda x, y, a: x.diagonal(-1), np.diagonal(X, -1)),
    "repeat_interleave": (lambda x, y, a: x.repeat_interleave(2, 0), np.repeat(X, 2, 0)),
    "sort": (lambda x, y, a: x.sort(1, descending=True).values, -np.sort(-X, 1)),
    "topk": (lambda x, y, a: x.topk(2).values, -np.sort(-X, 1)[:, :2]),
    "gather": (lambda x, y, a: x.gather(1, x.argsort(1)), np.sort(X, 1)),
    "relu": (lambda x, y, a: F.relu(x) + F.leaky_relu(x, 0.5), np.maximum(X, 0) + np.where(X > 0, X, X / 2)),
    "silu": (lambda x, y, a: F.silu(x), X / (1 + np.exp(-X))),
    "softplus": (lambda x, y, a: F.softplus(x) + F.logsigmoid(x), np.log1p(E) - np.log1p(np.exp(-X))),
    "gelu": (lambda x, y, a: F.gelu(x), X * np.vectorize(lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))))(X)),
    "layer_norm": (
        lambda x, y, a: F.layer_norm(x, (4,), eps=0.0),
        (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True),
    ),
    "mse": (lambda x, y, a: F.mse_loss(x, y), ((X - Y) ** 2).mean()),
    "cross_entropy": (
        lambda x, y, a: F.cross_entropy(x, tl.tensor([0, 3, 1])),
        -(X - np.log(E.sum(1, keepdims=True)))[[0, 1, 2], [0, 3, 1]].mean(),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_numpy(name):
    f, expected = CASES[name]
    x, y, a = (tl.tensor(v) for v in (X, Y, A))
    out = f(x, y, a)
    assert out.shape == expected.shape and out.dtype is tl.float64
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12, atol=1e-14)


def test_methods_and_functions_are_the_same():
    for name in ("exp", "sum", "softmax", "reshape", "gather", "clamp", "topk", "maximum", "transpose"):
        assert getattr(tl.Tensor, name) is getattr(tl, name)
    assert F.softmax is tl.softmax and F.gelu is tl.gelu


# rows and columns: bool uint8 int8 int16 int32 int64 float32 float64, as PyTorch promotes tensors with axes
NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")
TABLE = """
    bool    uint8   int8    int16   int32   int64   float32 float64
    uint8   uint8   int16   int16   int32   int64   float32 float64
    int8    int16   int8    int16   int32   int64   float32 float64
    int16   int16   int16   int16   int32   int64   float32 float64
    int32   int32   int32   int32   int32   int64   float32 float64
    int64   int64   int64   int64   int64   int64   float32 float64
    float32 float32 float32 float32 float32 float32 float32 float64
    float64 float64 float64 float64 float64 float64 float64 float64
"""


def test_promotion_of_tensors():
    rows = [line.split() for line in TABLE.strip().splitlines()]
    for a, row in zip(NAMES, rows, strict=True):
        for b, expected in zip(NAMES, row, strict=True):
            x, y = (tl.ones(2, dtype=tl.bool if n == "bool" else getattr(tl, n)) for n in (a, b))
            assert (x * y).dtype.name == expected, (a, b)
            assert tl.promote_types(x.dtype, y.dtype).name == expected
            assert tl.result_type(x, y).name == expected


@pytest.mark.parametrize(
    ("dtype", "other", "expected"),
    [
        ("int8", 300.0, "float32"),
        ("int8", 3, "int8"),
        ("int8", True, "int8"),
        ("bool", 1, "int64"),
        ("bool", 1.5, "float32"),
        ("float32", 1.5, "float32"),
        ("float64", 1, "float64"),
        ("int8", tl.tensor(3), "int8"),
        ("int8", tl.tensor(1.5, dtype=tl.float64), "float64"),
        ("float32", tl.tensor(1.5, dtype=tl.float64), "float32"),
        ("bool", tl.tensor(3, dtype=tl.int16), "int16"),
    ],
)
def test_promotion_of_scalars(dtype, other, expected):
    x = tl.ones(2, dtype=tl.bool if dtype == "bool" else getattr(tl, dtype))
    assert (x * other).dtype.name == expected and (other * x).dtype.name == expected


def test_true_division_and_means_are_floating():
    n = tl.tensor([1, 2])
    assert (n / 2).dtype is tl.float32 and (n / n).dtype is tl.float32 and n.exp().dtype is tl.float32
    assert n.sum().dtype is tl.int64 and n.bool().sum().dtype is tl.int64 and n.int().sum().dtype is tl.int64
    assert n.sum(dtype=tl.float32).dtype is tl.float32 and n.float().mean(dtype=tl.float64).dtype is tl.float64


def test_special_values():
    nan, inf = float("nan"), float("inf")
    x = tl.tensor([nan, inf, -inf, 0.0])
    assert x.isnan().tolist() == [True, False, False, False] and x.isinf().tolist() == [False, True, True, False]
    assert x.isfinite().tolist() == [False, False, False, True]
    assert math.isnan(x.max().item()) and math.isnan(tl.maximum(x, x * 0)[0].item()) and math.isnan(F.relu(x)[0].item())
    assert math.isnan(x.clamp(0, 1)[0].item()) and x.clamp(0, 1)[1:].tolist() == [1, 0, 0]
    assert tl.zeros(0).sum().item() == 0 and tl.ones(0).prod().item() == 1 and math.isnan(tl.zeros(0).mean().item())
    assert tl.tensor([0.0]).log().item() == -inf and (tl.tensor([1.0]) / 0).item() == inf
    assert tl.tensor([-1.5, -0.5, 0.5, 1.5, 2.5]).round().tolist() == [-2, 0, 0, 2, 2]
    assert tl.finfo(tl.float32).max > 3e38 and tl.iinfo(tl.int8).min == -128


def test_comparisons_of_tensors():
    x = tl.tensor([1.0, 2.0])
    assert tl.equal(x, x.clone()) and not tl.equal(x, x[:1]) and tl.allclose(x, x + 1e-7) and not tl.allclose(x, x + 1)
    assert tl.isclose(tl.tensor([float("nan")]), tl.tensor([float("nan")]), equal_nan=True).item()
    assert (x == 1).tolist() == [True, False] and (x > 1).tolist() == [False, True] and (x >= x).all()


def test_results_of_several_parts():
    x = tl.tensor([[3.0, 1.0, 2.0]])
    values, indices = x.max(dim=1)
    assert values.tolist() == [3] and indices.tolist() == [0] and x.min(1).indices.tolist() == [1]
    assert x.sort().indices.tolist() == [[1, 2, 0]] and x.median(1).values.tolist() == [2]
    first, *rest = x.unbind(1)
    assert first.tolist() == [3] and len(rest) == 2
    assert [p.shape for p in tl.arange(7).split(3)] == [(3,), (3,), (1,)]
    assert [p.shape for p in tl.arange(7).chunk(3)] == [(3,), (3,), (1,)]
    var, mean = tl.var_mean(x, 1)
    assert var.item() == 1 and mean.item() == 2
    values, inverse, counts = tl.tensor([2, 1, 2]).unique(return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2] and inverse.tolist() == [1, 0, 1] and counts.tolist() == [1, 2]


def test_errors_name_op_shapes_and_line():
    with pytest.raises(RuntimeError, match=r"add: .*\[2, 3\] and \[4\]"):
        tl.zeros(2, 3) + tl.zeros(4)
    with pytest.raises(RuntimeError, match=r"matmul: shapes \[2, 3\] and \[4, 5\]"):
        tl.zeros(2, 3) @ tl.zeros(4, 5)
    with pytest.raises(RuntimeError, match=r"f32.* f64"):
        tl.zeros(2, 2) @ tl.zeros(2, 2, dtype=tl.float64)
    with pytest.raises(TypeError, match="mask must be a Tensor"):
        tl.zeros(2).masked_fill([True, False], 0)


def test_texts():
    assert repr(tl.tensor([[1.0, 2.5], [3.0, 4.0]])) == "tensor([[1.0000, 2.5000],\n        [3.0000, 4.0000]])"
    assert repr(tl.ones(2, dtype=tl.float64, requires_grad=True)) == (
        "tensor([1., 1.], dtype=tinygrad_lite.float64, requires_grad=True)"
    )
    assert repr(tl.ones(1, requires_grad=True) * 2) == "tensor([2.], grad_fn=<MulBackward0>)"
    assert repr(tl.zeros(2, 0)) == "tensor([], size=(2, 0))" and f"{tl.tensor(1.5)}" == "1.5"
    assert str(tl.zeros(2, 3).shape) == "tinygrad_lite.Size([2, 3])" and str(tl.device("cpu")) == "cpu"


def test_answers_to_questions_about_devices_and_layouts():
    x = tl.zeros(2, 4, 5, 3).permute(0, 3, 1, 2)
    assert x.is_contiguous(memory_format=tl.channels_last) and not x.is_contiguous(memory_format=tl.contiguous_format)
    assert x.is_cpu and not (x.is_mps or x.is_meta or x.is_conj() or x.is_pinned()) and x.get_device() == -1
    assert x.layout is tl.strided and x.clone(memory_format=tl.preserve_format).real.shape == (2, 3, 4, 5)
    assert not (tl.backends.mps.is_available() or tl.backends.cudnn.is_available() or tl.mps.is_available())
    tl.backends.cuda.matmul.allow_tf32 = tl.backends.cudnn.benchmark = True
    tl.set_float32_matmul_precision("high")
    tl.set_default_device("cpu")
    assert tl.get_float32_matmul_precision() == "highest" and tl.get_default_device() == tl.device("cpu")


def test_tensors_under_their_old_names():
    made = tl.LongTensor([1, 2]), tl.FloatTensor(2, 3), tl.BoolTensor([1, 0])
    assert [t.type() for t in made] == [f"tinygrad_lite.{kind}Tensor" for kind in ("Long", "Float", "Bool")]
    assert isinstance(made[0], tl.LongTensor) and not isinstance(made[0], tl.FloatTensor)
    assert made[0].type(tl.DoubleTensor).dtype is tl.float64 and made[0].type("torch.HalfTensor").dtype is tl.float16


def test_sizes_are_tuples():
    shape = tl.zeros(2, 3).shape
    made = shape + (1,), (1,) + shape, shape * 2, 2 * shape, shape[:1]  # noqa: RUF005
    assert [tuple(m) for m in made] == [(2, 3, 1), (1, 2, 3), (2, 3, 2, 3), (2, 3, 2, 3), (2,)]
    assert all(isinstance(m, tl.Size) for m in made) and shape.numel() == 6


def test_matmul_in_place_makes_a_new_tensor():
    x = y = tl.ones(2, 3)
    x @= tl.ones(3, 4)
    assert x.shape == (2, 4) and y.shape == (2, 3)
