"""The names of kernel source for plain Python: the same text runs un-jitted, with readable errors and coverage.

Pointers read and write raw memory through ctypes; numbers are NumPy scalars, so float32 arithmetic rounds as native
code does. Scalar functions are computed in float64 and rounded: they share nothing with the polynomials of `scalars`.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import scipy.special

from tinygrad_lite.ops import extremum

from .cpu import lanes
from .packed import grain

NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u8": np.uint8,
    "b1": np.uint8,
}
CTYPES = {
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "i64": ctypes.c_int64,
    "i32": ctypes.c_int32,
    "i16": ctypes.c_int16,
    "i8": ctypes.c_int8,
    "u8": ctypes.c_uint8,
    "b1": ctypes.c_uint8,
}
LIBRARY_ARITIES = (5, 6, 8, 9, 11, 14)
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
MASK = 0xFFFFFFFF


class Pointer:
    """`p[i]` at a raw address."""

    __slots__ = ("address", "kind", "size", "stored")

    def __init__(self, tag: str, address: int) -> None:
        self.stored, self.kind, self.address = CTYPES[tag], NUMPY[tag], int(address)
        self.size = ctypes.sizeof(self.stored)

    def _at(self, i: int) -> Any:
        return self.stored.from_address(self.address + self.size * int(i))

    def __getitem__(self, i: int) -> Any:
        value = self._at(i).value
        return int(value) if self.kind is np.int64 else self.kind(value)  # int64 words are addresses and sizes

    def __setitem__(self, i: int, value: Any) -> None:
        place = self._at(i)
        place.value = value.item() if isinstance(value, np.generic) else value


def _cast(tag: str) -> Callable[[Any], Any]:
    kind = NUMPY[tag]
    if tag == "b1":
        return lambda x: np.uint8(x != 0)
    if tag == "i64":
        return lambda x: int(np.asarray(x).astype(np.int64))
    return lambda x: np.asarray(x).astype(kind)[()]


HALVES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


class HalfPointer:
    """Words of 16 bits at a raw address, read and written as float32."""

    def __init__(self, tag: str, address: int) -> None:
        self.kind, self.address = HALVES[tag], int(address)

    def _at(self, i: int) -> Any:
        return ctypes.c_uint16.from_address(self.address + 2 * int(i))

    def load(self, i: int) -> Any:
        return np.uint16(self._at(i).value).view(self.kind).astype(np.float32)

    def store(self, i: int, value: Any) -> None:
        self._at(i).value = int(_half(self.kind, value).view(np.uint16))


def _half(kind: Any, value: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(np.float32).astype(kind)[()]


def where(c: Any, a: Any, b: Any) -> Any:
    return a if c else b


def sum_add(total: Any, x: Any) -> Any:
    return type(total)(total + x)


def maximum(a: Any, b: Any) -> Any:
    return extremum.MAXIMUM.of(a, b)[()]


def minimum(a: Any, b: Any) -> Any:
    return extremum.MINIMUM.of(a, b)[()]


def _is_float(x: Any) -> bool:
    return isinstance(x, (float, np.floating))


def _wrap(exact: int, like: Any) -> Any:
    """An exact integer in the type of `like`, wrapped around."""
    if not isinstance(like, np.integer):
        return (exact + (1 << 63)) % (1 << 64) - (1 << 63)
    return np.asarray(exact % (1 << 8 * like.itemsize), np.uint64).astype(type(like))[()]


def floordiv(n: Any, d: Any) -> Any:
    if _is_float(n) or _is_float(d):
        return np.floor_divide(n, d)
    return _wrap(int(n) // int(d), n) if d else _wrap(0, n)


def mod(n: Any, d: Any) -> Any:
    if _is_float(n) or _is_float(d):
        return np.remainder(n, d)
    return _wrap(int(n) % int(d), n) if d else _wrap(0, n)


def truncdiv(n: Any, d: Any) -> Any:
    if _is_float(n) or _is_float(d):
        return np.trunc(n / d)
    if not d:
        return _wrap(0, n)
    size = abs(int(n)) // abs(int(d))
    return _wrap(size if (n < 0) == (d < 0) else -size, n)


def truncmod(n: Any, d: Any) -> Any:
    if _is_float(n) or _is_float(d):
        return np.fmod(n, d)
    if not d:
        return _wrap(0, n)
    size = abs(int(n)) % abs(int(d))
    return _wrap(-size if n < 0 else size, n)


def _width(n: Any) -> int:
    return 8 * n.itemsize if isinstance(n, np.integer) else 64


def shift_left(n: Any, count: Any) -> Any:
    return _wrap(int(n) << int(count) if 0 <= count < _width(n) else 0, n)


def shift_right(n: Any, count: Any) -> Any:
    return _wrap(int(n) >> (int(count) if 0 <= count < _width(n) else 64), n)


def copysign(a: Any, b: Any) -> Any:
    return np.copysign(a, b)


def nonzero(d: Any, status_address: int, code: int) -> Any:
    if not d:
        Pointer("i64", status_address)[0] = code
    return d


def int_pow(n: Any, exponent: Any, status_address: int, code: int) -> Any:
    if exponent < 0:
        Pointer("i64", status_address)[0] = code
        return _wrap(1, n)
    return _wrap(pow(int(n), int(exponent), 1 << 64), n)


def check_index(i: Any, size: int, wrap: Any, status_address: int, code: int) -> int:
    index = int(i) + int(size) if wrap and i < 0 else int(i)
    if 0 <= index < size:
        return index
    Pointer("i64", status_address)[0] = code
    return 0


# ---- scalar functions -----------------------------------------------------------------------------
def _rounded(function: Callable[..., Any], tag: str) -> Callable[..., Any]:
    kind = NUMPY[tag]

    def scalar(*operands: Any) -> Any:
        with np.errstate(all="ignore"):
            return kind(function(*map(np.float64, operands)))

    return scalar


def _expit(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _polygamma(order: Any, x: Any) -> Any:
    return (-1) ** (order + 1) * scipy.special.gamma(order + 1) * scipy.special.zeta(order + 1, x)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "erf": scipy.special.erf,
    "sigmoid": _expit,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "pow": np.power,
    "exp2": np.exp2,
    "log2": np.log2,
    "log10": np.log10,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erfc": scipy.special.erfc,
    "erfinv": scipy.special.erfinv,
    "lgamma": lambda x: scipy.special.gammaln(np.where(np.isinf(x), np.inf, x)),
    "digamma": scipy.special.digamma,
    "hypot": np.hypot,
    "polygamma": _polygamma,
}


def threefry(seed: int, counter: int) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds."""
    seed, counter = int(seed), int(counter)
    key = [seed & MASK, seed >> 32 & MASK]
    key.append(key[0] ^ key[1] ^ 0x1BD11BDA)
    a, b = (counter + key[0]) & MASK, ((counter >> 32 & MASK) + key[1]) & MASK
    for i in range(20):
        a = (a + b) & MASK
        turn = ROTATIONS[i % 8]
        b = ((b << turn | b >> (32 - turn)) & MASK) ^ a
        if i % 4 == 3:
            n = i // 4 + 1
            a, b = (a + key[n % 3]) & MASK, (b + key[(n + 1) % 3] + n) & MASK
    return a, b


def uniform_f32(seed: int, counter: int) -> Any:
    return np.float32((threefry(seed, counter)[0] >> 8) * 2.0**-24)


def uniform_f64(seed: int, counter: int) -> Any:
    a, b = threefry(seed, counter)
    return np.float64(((a << 21) + (b >> 11)) * 2.0**-53)


def _box_muller(u1: float, u2: float) -> float:
    return math.sqrt(-2 * math.log(u1)) * math.cos(2 * math.pi * u2)


def normal_f32(seed: int, counter: int) -> Any:
    a, b = threefry(seed, counter)
    return np.float32(_box_muller(((a >> 8) + 1) * 2.0**-24, (b >> 8) * 2.0**-24))


def normal_f64(seed: int, counter: int) -> Any:
    a, b = threefry(seed, counter)
    return np.float64(_box_muller((a + 1) * 2.0**-32, b * 2.0**-32))


# ---- calls ------------------------------------------------------------------------------------------
def _matrix(address: int, tag: str, rows: int, columns: int, leading: int) -> np.ndarray:
    """A column-major matrix at an address."""
    stored = CTYPES[tag]
    count = (columns - 1) * leading + rows if rows and columns else 0
    flat = np.ctypeslib.as_array((stored * count).from_address(int(address)))
    size = ctypes.sizeof(stored)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (size, leading * size))


def _gemm(tag: str) -> Callable[..., None]:
    def gemm(
        fn: int,
        ta: int,
        tb: int,
        m: int,
        n: int,
        k: int,
        alpha: Any,
        a: int,
        lda: int,
        b: int,
        ldb: int,
        beta: Any,
        c: int,
        ldc: int,
    ) -> None:
        trans_a, trans_b = ta == ord("T"), tb == ord("T")
        left = _matrix(a, tag, k, m, lda).T if trans_a else _matrix(a, tag, m, k, lda)
        right = _matrix(b, tag, n, k, ldb).T if trans_b else _matrix(b, tag, k, n, ldb)
        out = _matrix(c, tag, m, n, ldc)
        out[...] = alpha * (left @ right) + (beta * out if beta else 0)

    return gemm


def _strided(address: int, shape: tuple[int, int], strides: tuple[int, int]) -> np.ndarray:
    """A float32 matrix at a raw address, strides in elements."""
    count = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if all(shape) else 0
    flat = np.ctypeslib.as_array((ctypes.c_float * count).from_address(int(address)))
    return np.lib.stride_tricks.as_strided(flat, shape, (4 * strides[0], 4 * strides[1]))


def tile_matmul(
    m: int, n: int, k: int, alpha: Any, a: int, ai: int, ak: int, b: int, bk: int, c: int, ci: int, add: int
) -> None:
    out = _strided(c, (m, n), (ci, 1))
    product = alpha * (_strided(a, (m, k), (ai, ak)) @ _strided(b, (k, n), (bk, 1)))
    out[...] = out + product if add else product


def tile_taps(
    m: int,
    n: int,
    k: int,
    a: int,
    ai: int,
    ak: int,
    b: int,
    bk: int,
    c: int,
    ci: int,
    add: int,
    taps: int,
    table: int,
    skip: int,
) -> None:
    offsets = Pointer("i64", table)
    if skip and n > lanes():
        tile_taps(m, n - lanes(), k, a, ai, ak, b + 4 * (lanes() + skip), bk, c + 4 * lanes(), ci, add, taps, table, 0)
        n = lanes()
    if not taps and not add:
        _strided(c, (m, n), (ci, 1))[...] = 0
    for t in range(taps):
        tile_matmul(m, n, k, 1, a + 4 * offsets[2 * t], ai, ak, b + 4 * offsets[2 * t + 1], bk, c, ci, add or t)


def tile_transpose(m: int, n: int, source: int, ls: int, target: int, lt: int) -> None:
    _strided(target, (n, m), (lt, 1))[...] = _strided(source, (m, n), (ls, 1)).T


def tile_copy(m: int, n: int, source: int, ls: int, target: int, lt: int) -> None:
    _strided(target, (m, n), (lt, 1))[...] = _strided(source, (m, n), (ls, 1))


def tile_panels(m: int, n: int, source: int, ls: int, target: int) -> None:
    high = grain("rows")
    for c in range(0, n, high):
        tile_copy(m, min(high, n - c), source + 4 * c, ls, target + 4 * m * c, high)


def call_kernel(fn: int, args: int, lo: int, hi: int, worker: int) -> None:
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(fn)(args, lo, hi, worker)


def call_plain(fn: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int32)(fn)()


def call_two(fn: int, a: int, b: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)(fn)(a, b)


def _library(count: int) -> Callable[..., None]:
    def call(fn: int, *addresses: int) -> None:
        ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * count)(fn)(*addresses)

    return call


def atomic_add(address: int, x: int) -> int:
    """Atomic among Python threads only as far as the GIL goes: plain kernels run on one."""
    word = Pointer("i64", address)
    before = word[0]
    word[0] = before + x
    return before


def atomic_load(address: int) -> int:
    return Pointer("i64", address)[0]


def atomic_store(address: int, x: int) -> None:
    Pointer("i64", address)[0] = x


def prefetch(address: int) -> None:
    pass


def pause() -> None:
    time.sleep(0)


def kernel_names() -> dict[str, Any]:
    """The globals of kernel source, by the same names as `frontend.kernel_names`."""
    names: dict[str, Any] = {
        f.__name__: f
        for f in (
            where,
            sum_add,
            tile_matmul,
            tile_taps,
            tile_transpose,
            tile_copy,
            tile_panels,
            maximum,
            minimum,
            floordiv,
            mod,
            truncdiv,
            truncmod,
            nonzero,
            shift_left,
            shift_right,
            copysign,
            int_pow,
            check_index,
            uniform_f32,
            uniform_f64,
            normal_f32,
            normal_f64,
            atomic_add,
            atomic_load,
            atomic_store,
            call_kernel,
            call_plain,
            call_two,
            pause,
            prefetch,
        )
    }
    for tag, kind in NUMPY.items():
        names[f"{tag}_at"] = lambda address, tag=tag: Pointer(tag, address)
        names[tag] = _cast(tag)
        names[f"abs_{tag}"] = lambda x, kind=kind: np.abs(kind(x))
        names[f"sign_{tag}"] = lambda x, kind=kind: kind(np.sign(kind(x)) if x == x else 0)
    names.update({f"call_library{count}": _library(count) for count in LIBRARY_ARITIES})
    for tag, half in HALVES.items():
        names[f"{tag}_at"] = lambda address, tag=tag: HalfPointer(tag, address)
        names[f"load_{tag}"], names[f"store_{tag}"] = HalfPointer.load, HalfPointer.store
        names[tag] = lambda x, half=half: _half(half, x).astype(np.float32)
    for op, function in FUNCTIONS.items():
        names[f"{op}_f32"], names[f"{op}_f64"] = _rounded(function, "f32"), _rounded(function, "f64")
    for tag, kind in (("f32", np.float32), ("f64", np.float64)):
        names[f"nextafter_{tag}"] = lambda x, y, kind=kind: np.nextafter(kind(x), kind(y))
    names.update(
        random_bits_hi=lambda s, c: np.uint32(threefry(s, c)[0]),
        random_bits_lo=lambda s, c: np.uint32(threefry(s, c)[1]),
        sgemm=_gemm("f32"),
        dgemm=_gemm("f64"),
        ticks=time.perf_counter_ns,
        inf=math.inf,
        nan=math.nan,
    )
    return names


def plain_kernel(source: str) -> Callable[[int, int, int, int], None]:
    """The kernel as a Python function; overflow, division by zero and NaN pass silently, as in native code."""
    scope = kernel_names()
    exec(compile(source, "<kernel>", "exec"), scope)
    function = scope["kernel"]

    def kernel(args: int, lo: int, hi: int, worker: int) -> None:
        with np.errstate(all="ignore"):
            function(args, lo, hi, worker)

    return kernel
