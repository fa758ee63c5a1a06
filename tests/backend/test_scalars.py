"""Scalar functions against float64, edges included; jitted against plain."""

import ctypes
import re

import numpy as np
import pytest
import scipy.special

from tinygrad_lite.backends.numba import plain
from tinygrad_lite.backends.numba.compiler import inspect, load_kernels

SOURCE = """
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    x = {t}_at(w[0])
    y = {t}_at(w[1])
    z = {r}_at(w[2])
    for i in range(lo, hi):
        z[i] = {body}
"""
NUMPY = plain.NUMPY
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-45, 1.2e-38, 3.4e38, -3.4e38, 0.5, 89.0, -104.0]


def source(tag, body, result=None):
    return SOURCE.format(t=tag, r=result or tag, body=body)


def call(function, *arrays):
    args = np.array([a.ctypes.data for a in arrays], np.int64)
    function(args.ctypes.data, 0, arrays[-1].size, 0)


def native(text):
    kernels = load_kernels({"k": text})
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(kernels["k"])


def apply(text, x, y=None, result=None):
    x = np.ascontiguousarray(x)
    out = np.empty(x.size, NUMPY[result] if result else x.dtype)
    call(native(text), x, x if y is None else np.ascontiguousarray(y), out)
    return out


def ulps(got, true):
    """Errors in units in the last place of float32 (of float64, where `true` is long double), subnormal ones too."""
    kind = got.dtype.type
    finite = np.isfinite(true) & (np.abs(true) <= np.finfo(kind).max)
    return np.abs(got[finite].astype(true.dtype) - true[finite]) / np.spacing(np.abs(true[finite]).astype(kind))


wide = np.r_[np.linspace(-104, 88.7, 200001), np.geomspace(1e-30, 1, 20001), -np.geomspace(1e-30, 1, 20001)]
positive = np.r_[np.geomspace(1e-37, 3e38, 200001), np.linspace(0.5, 2, 100001)]
unit = np.r_[np.linspace(-1, 1, 100001), np.geomspace(1e-30, 1, 10001), 1 - np.geomspace(1e-7, 0.5, 10001)]
REFERENCE = {
    "exp": (np.exp, wide, 1.3),
    "expm1": (np.expm1, wide, 1.5),
    "sigmoid": (scipy.special.expit, wide, 2.4),
    "tanh": (np.tanh, np.r_[wide, np.linspace(-9.5, 9.5, 200001)], 3.2),
    "erf": (scipy.special.erf, np.r_[wide, np.linspace(-4.5, 4.5, 200001)], 3.4),
    "log": (np.log, positive, 1.5),
    "log1p": (np.log1p, np.r_[positive, -np.geomspace(1e-30, 0.9999, 50001)], 2.5),
    "sqrt": (np.sqrt, positive, 0.51),
    "rsqrt": (lambda x: 1 / np.sqrt(x), positive, 1.6),
    "sin": (np.sin, np.r_[np.linspace(-1e3, 1e3, 100001), np.geomspace(1e-30, 3e38, 100001)], 1.6),
    "cos": (np.cos, np.r_[np.linspace(-1e3, 1e3, 100001), -np.geomspace(1e-30, 3e38, 100001)], 1.6),
    "tan": (np.tan, np.r_[np.linspace(-1e3, 1e3, 100001), np.geomspace(1e-30, 3e38, 100001)], 3.8),
    "exp2": (np.exp2, np.r_[np.linspace(-126, 127.9, 100001), np.geomspace(1e-30, 1, 10001)], 0.51),
    "log2": (np.log2, positive, 0.51),
    "log10": (np.log10, positive, 0.51),
    "sinh": (np.sinh, wide, 0.51),
    "cosh": (np.cosh, wide, 0.51),
    "asinh": (np.arcsinh, np.r_[positive, -positive, wide], 0.51),
    "acosh": (np.arccosh, np.r_[positive[positive > 1], 1 + np.geomspace(1e-7, 1, 10001)], 0.51),
    "atanh": (np.arctanh, np.r_[unit, -np.geomspace(1e-30, 1, 10001)], 0.51),
    "asin": (np.arcsin, np.r_[unit, -np.geomspace(1e-30, 1, 10001)], 0.51),
    "acos": (np.arccos, np.r_[unit, -np.geomspace(1e-30, 1, 10001)], 0.51),
    "atan": (np.arctan, np.r_[positive, -positive, wide], 0.51),
    "erfc": (scipy.special.erfc, np.linspace(-10, 9, 50001), 0.51),
    "erfinv": (scipy.special.erfinv, unit, 0.51),
    "lgamma": (scipy.special.gammaln, np.r_[positive, np.linspace(-20.3, -1, 3001)], 0.51),
    "digamma": (scipy.special.digamma, np.r_[positive, np.linspace(-20.3, -1, 3001)], 0.51),
}
VECTOR = [op for op in REFERENCE if op not in ("erfc", "erfinv", "lgamma", "digamma", "sqrt")]


@pytest.mark.parametrize("op", REFERENCE)
def test_float32_functions_are_accurate(op):
    reference, points, bound = REFERENCE[op]
    x = points.astype(np.float32)
    got = apply(source("f32", f"{op}_f32(x[i])"), x)
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64))
    assert ulps(got, expected).max() <= bound


@pytest.mark.parametrize("tag", ["f32", "f64"])
@pytest.mark.parametrize("op", [*REFERENCE, "floor", "ceil", "trunc", "round", "abs", "sign"])
def test_edges_are_numpys(op, tag):
    x = np.array(EDGES, NUMPY[tag])
    reference = {"abs": np.abs, "sign": lambda x: np.nan_to_num(np.sign(x))}.get(op) or plain.FUNCTIONS[op]
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64)).astype(x.dtype)
    got = apply(source(tag, f"{op}_{tag}(x[i])"), x)
    np.testing.assert_allclose(got, expected, rtol=4e-7 if tag == "f32" else 1e-15, atol=2e-38, equal_nan=True)


def test_exp_of_minus_infinity_is_exactly_zero():
    assert apply(source("f32", "exp_f32(x[i])"), np.array([-np.inf, -1e30, -200], np.float32)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("tag", ["f32", "f64"])
def test_nan_with_any_payload_stays_nan(tag):
    bits = {"f32": (np.uint32, [0x7FC00001, 0xFFC001FF, 0x7FFFFFFF]), "f64": (np.uint64, [0x7FF8000000000001])}[tag]
    x = np.array(bits[1], bits[0]).view(NUMPY[tag])
    for op in REFERENCE:
        assert np.isnan(apply(source(tag, f"{op}_{tag}(x[i])"), x)).all(), op


@pytest.mark.parametrize("tag", ["f32", "f64"])
def test_pow_follows_numpy(tag):
    values = np.array([0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, np.inf, -np.inf, np.nan, 1.7], NUMPY[tag])
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    np.testing.assert_allclose(apply(source(tag, f"pow_{tag}(x[i], y[i])"), x, y), expected, rtol=2e-7, equal_nan=True)


@pytest.mark.parametrize("op", ["floordiv", "mod"])
@pytest.mark.parametrize("tag", ["i64", "i32", "i16", "i8", "u8", "f32", "f64"])
def test_floored_division_follows_numpy(op, tag):
    kind = NUMPY[tag]
    if tag[0] == "f":
        values = np.array([0, 1, -1, 2.5, -2.5, 7, -7, np.inf, -np.inf, np.nan], kind)
    else:
        info = np.iinfo(kind)
        values = np.array([0, 1, 2, 3, 7, info.max, info.min, info.min + 1, info.max - 5], kind)
        values = np.unique(np.r_[values, (-values.astype(np.int64)).astype(kind)])
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = (np.floor_divide if op == "floordiv" else np.remainder)(x, y)
    np.testing.assert_array_equal(apply(source(tag, f"{op}(x[i], y[i])"), x, y), expected)
    np.testing.assert_array_equal(plain_apply(source(tag, f"{op}(x[i], y[i])"), x, y), expected)


def plain_apply(text, x, y):
    out = np.empty_like(x)
    call(plain.plain_kernel(text), x, y, out)
    return out


BINARY = {
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "truncmod": np.fmod,
    "nextafter": np.nextafter,
}


@pytest.mark.parametrize("tag", ["f32", "f64"])
@pytest.mark.parametrize("op", BINARY)
def test_functions_of_two_numbers_follow_numpy(op, tag):
    values = np.r_[np.array([*EDGES, 3.7, -2.2]), np.random.default_rng(0).normal(size=20)].astype(NUMPY[tag])
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(values, values))
    name = op if op in ("copysign", "truncmod") else f"{op}_{tag}"
    with np.errstate(all="ignore"):
        expected = BINARY[op](x, y)
    exact = {"rtol": 0, "atol": 0} if op != "atan2" and op != "hypot" else {}
    loose = {"rtol": 2e-7 if tag == "f32" else 1e-15, "atol": 2e-45 if tag == "f32" else 0} | exact
    text = source(tag, f"{name}(x[i], y[i])")
    with np.errstate(all="ignore"):
        plainly = plain_apply(text, x, y)
    for got in (apply(text, x, y), plainly):
        np.testing.assert_allclose(got, expected, **loose)
        np.testing.assert_array_equal(np.signbit(got) | np.isnan(got), np.signbit(expected) | np.isnan(expected))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_polygamma(order):
    x = np.r_[np.geomspace(1e-3, 1e6, 301), np.linspace(-7.3, -0.1, 41), 0.0, -2.0, np.inf]
    expected = plain.FUNCTIONS["polygamma"](float(order), x)
    for tag in ("f32", "f64"):
        got = apply(source(tag, f"polygamma_{tag}({tag}({order}), x[i])"), x.astype(NUMPY[tag]))
        near = x.astype(NUMPY[tag]).astype(np.float64)
        expected = plain.FUNCTIONS["polygamma"](float(order), near)
        np.testing.assert_allclose(got, expected.astype(NUMPY[tag]), rtol=1e-6 if tag == "f32" else 1e-13)


@pytest.mark.parametrize("op", ["shift_left", "shift_right"])
@pytest.mark.parametrize("tag", ["i64", "i32", "i16", "i8", "u8"])
def test_shifts_outside_the_width(op, tag):
    info = np.iinfo(NUMPY[tag])
    values = np.array([0, 1, 3, 7, 8, 31, 100, info.max, info.min], NUMPY[tag])
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(values, values))
    text = source(tag, f"{tag}({op}(x[i], y[i]))")
    exact = [int(a) << int(b) if op == "shift_left" and 0 <= b < info.bits else 0 for a, b in zip(x, y, strict=True)]
    if op == "shift_right":
        exact = [int(a) >> (int(b) if 0 <= b < info.bits else 64) for a, b in zip(x, y, strict=True)]
    expected = np.array([(e - info.min) % (1 << info.bits) + int(info.min) for e in exact], NUMPY[tag])
    np.testing.assert_array_equal(apply(text, x, y), expected)
    np.testing.assert_array_equal(plain_apply(text, x, y), expected)


def test_truncated_division():
    x, y = np.array([7, -7, 7, -7, 5, -128], np.int8), np.array([2, 2, -2, -2, 0, -1], np.int8)
    text = source("i8", "truncdiv(x[i], y[i])")
    assert apply(text, x, y).tolist() == plain_apply(text, x, y).tolist() == [3, -3, -3, 3, 0, -128]


@pytest.mark.parametrize("tag", ["f32", "f64", "i32", "u8"])
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_extremes_propagate_nan(op, tag):
    values = np.array([0, 1, 250, 3] if tag[0] != "f" else [0, -np.inf, np.nan, 3, np.inf], NUMPY[tag])
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(values, values))
    np.testing.assert_array_equal(apply(source(tag, f"{op}(x[i], y[i])"), x, y), getattr(np, op)(x, y))


@pytest.mark.parametrize("target", NUMPY)
@pytest.mark.parametrize("origin", NUMPY)
def test_casts_follow_numpy(origin, target):
    low = 0 if origin in ("u8", "b1") else -3
    x = np.array([low, 0, 1, 2, 100, low / 2, 0.5, 1.5], NUMPY[origin])
    x = (x != 0).astype(np.uint8) if origin == "b1" else x
    with np.errstate(all="ignore"):
        expected = (x != 0).astype(np.uint8) if target == "b1" else x.astype(NUMPY[target])
    assert apply(source(origin, f"{target}(x[i])", target), x, result=target).tolist() == expected.tolist()


RANDOM = {
    "uniform_f32": "f32",
    "uniform_f64": "f64",
    "normal_f32": "f32",
    "normal_f64": "f64",
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_equal_plain(name):
    tag = RANDOM[name]
    text = source(tag, f"{name}(-123456789012345, i + 4294967290)")
    x = np.empty(300, NUMPY[tag])
    got, expected = apply(text, x), plain_apply(text, x, x)
    rtol, atol = (1e-5, 1e-6) if tag == "f32" else (1e-13, 1e-14)
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)
    if name.startswith("uniform"):
        np.testing.assert_array_equal(got, expected)


def test_threefry_gives_the_published_vectors():
    """Known answers of Random123: zero and all-ones key and counter."""
    assert plain.threefry(0, 0) == (0x6B200159, 0x99BA4EFE)
    assert plain.threefry(-1, -1) == (0x1CB996FC, 0xBB002BE7)
    text = source("i64", "i64(random_bits_hi(x[i], y[i])) * 4294967296 + i64(random_bits_lo(x[i], y[i]))")
    got = apply(text, np.array([0, -1]), np.array([0, -1])).view(np.uint64)
    assert [int(v) for v in got] == [0x6B20015999BA4EFE, 0x1CB996FCBB002BE7]


def test_normal_numbers_are_normal():
    x = apply(source("f32", "normal_f32(5, i)"), np.empty(100000, np.float32)).astype(np.float64)
    assert abs(x.mean()) < 0.01 and abs(x.std() - 1) < 0.01 and abs((x**4).mean() - 3) < 0.1


CHECK = """
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    x = i64_at(w[0])
    z = i64_at(w[1])
    for i in range(lo, hi):
        z[i] = check_index(x[i], 5, {wrap}, w[2], 7)
"""


@pytest.mark.parametrize("wrap", [0, 1])
@pytest.mark.parametrize("run", ["native", "plain"])
def test_check_index(wrap, run):
    text = CHECK.format(wrap=wrap)
    function = native(text) if run == "native" else plain.plain_kernel(text)
    for x, bad in ([[0, 4, 2], False], [[0, -1, -5], not wrap], [[5], True], [[-6], True]):
        index, out, status = np.array(x), np.full(len(x), 9), np.zeros(1, np.int64)
        args = np.array([a.ctypes.data for a in (index, out, status)])
        function(args.ctypes.data, 0, len(x), 0)
        assert status[0] == (7 if bad else 0)
        assert out.tolist() == [i % 5 if -5 * wrap <= i < 5 else 0 for i in x]


ROWS = """
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    n = w[2]
    for r in range(lo, hi):
        x = f32_at(w[0] + 4 * r * n); y = f32_at(w[1] + 4 * r * n)
        m = f32(-inf)
        s = f32(0)
        for j in range(n):
            m = maximum(m, x[j])
        for j in range(n):
            e = exp_f32(x[j] - m)
            s = sum_add(s, e)
            y[j] = e
        scale = f32(1) / s
        for j in range(n):
            y[j] = where(b1(y[j] > f32(0.001)), y[j] * scale, f32(0))
"""


def test_row_kernel_equals_plain_and_vectorises():
    x = np.random.default_rng(0).standard_normal((3, 37)).astype(np.float32)
    x[1, 5:] = -np.inf
    x[2, 3] = np.nan
    outs = []
    for function in (native(ROWS), plain.plain_kernel(ROWS)):
        y = np.zeros_like(x)
        args = np.array([x.ctypes.data, y.ctypes.data, 37])
        function(args.ctypes.data, 0, 3, 0)
        outs.append(y)
    np.testing.assert_allclose(*outs, rtol=2e-6)
    llvm, _ = inspect(ROWS)
    assert "llvm.vector.reduce.fmaximum" in llvm and "llvm.vector.reduce.fadd" in llvm


@pytest.mark.parametrize("op", VECTOR)
def test_float32_functions_vectorise(op):
    assert re.search("x (float|double)>", inspect(source("f32", f"{op}_f32(x[i])"))[0])


def test_names_are_the_same_jitted_and_plain():
    from tinygrad_lite.backends.numba import frontend

    assert set(frontend.kernel_names()) == set(plain.kernel_names())
