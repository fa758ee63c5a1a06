"""Scalar functions of kernels, `<op>_<tag>`: float32 ones are branch-free and vectorise, float64 ones call libm.

Edges follow NumPy: log(0) = -inf, log(-1) = nan, exp(-inf) = 0, exp(90) = inf, and NaN goes through. Errors below are
the greatest found against float64 over all float32 numbers (tests/backend/test_scalars.py), in units in the last place;
of subnormal results, units of 1.4e-45.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import alloca_once_value, for_range

from .intrinsics import NUMBA
from .values import F32, F64, I32, I64, Value, call_named, fixed, horner

INF, NAN = math.inf, math.nan
LOG2E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4  # n * LN2_HIGH is exact in float32 for |n| < 2^14
ROUND32 = 12582912.0  # 1.5 * 2^23: adding it leaves the integer in the low bits


# ---- exponential family -----------------------------------------------------------------------------
def _split_exp(x: Value) -> tuple[Value, Value]:
    """exp(x) = 2^n exp(r), |r| <= ln 2 / 2: r, and the bits that hold n at their low end."""
    t = x * LOG2E + ROUND32
    n = t - ROUND32
    return (x - n * LN2_HIGH) - n * LN2_LOW, t.bits()


def _exp_series(r: Value) -> Value:
    """(exp(r) - 1 - r) / r²; Estrin's order, half as long a chain as Horner's."""
    s = r * r
    high = r * 1.3981999507e-3 + 8.3334519073e-3 + s * 1.9875691500e-4
    return r * 1.6666665459e-1 + 5.0000001201e-1 + s * (r * high + 4.1665795894e-2)


def exp32(x: Value) -> Value:
    """1.3 ulp, subnormal results too. 2^n is added to the exponent's bits; n = 128 leaves room, since then y < 1. Where
    the exponent would leave the range below, 2^64 goes in, and out by a product that rounds once."""
    r, bits = _split_exp((x < -104).where(-104, x))
    y = (r + 1) + (r * r) * _exp_series(r)
    low = x < -87.336
    y = (y.bits() + (bits << 23) + low.where(bits.constant(64 << 23), 0)).bits()
    y = y * (x < -103.98).where(0, low.where(y.constant(2.0**-64), 1))
    y = (x > 88.72283).where(INF, y)
    return x.differs(x).where(x, y)  # the bits of a NaN may have been shifted about


def expm132(x: Value) -> Value:
    """1.5 ulp. 2^n (exp(r) - 1) + (2^n - 1), halved so that n = 128 fits."""
    x = (x < -30).where(-30, x)
    r, bits = _split_exp(x)
    half = ((bits << 23) + (126 << 23)).bits()
    part = r + (r * r) * _exp_series(r)
    y = (part * half + (half - 0.5)) * 2
    y = (x > 88.72283).where(INF, y)
    return x.equals(0).where(x, y)


def sigmoid32(x: Value) -> Value:
    """2.4 ulp, subnormal results too: exp(-|x|) does not overflow."""
    e = exp32(-x.llvm("fabs"))
    return (x < 0).where(e, 1) / (e + 1)


def sigmoid64(x: Value) -> Value:
    return 1 / ((-x).call("exp") + 1)


def log32(x: Value) -> Value:
    """0.8 ulp. x = 2^k m, m in [sqrt(1/2), sqrt(2)); a polynomial in f = m - 1."""
    tiny = x < 1.17549435e-38
    bits = tiny.where(x * 8388608.0, x).bits() + (0x3F800000 - 0x3F3504F3)
    k = ((bits >> 23) - 127).to(F32) + tiny.where(x.constant(-23), 0)
    f = ((bits & 0x7FFFFF) + 0x3F3504F3).bits() - 1
    z = f * f
    p = horner(
        f,
        3.3333331174e-1,
        -2.4999993993e-1,
        2.0000714765e-1,
        -1.6668057665e-1,
        1.4249322787e-1,
        -1.2420140846e-1,
        1.1676998740e-1,
        -1.1514610310e-1,
        7.0376836292e-2,
    )
    y = (f * z) * p + k * LN2_LOW
    y = (y - z * 0.5) + f + k * LN2_HIGH
    edge = x.equals(0).where(x.constant(-INF), NAN)
    return x.equals(INF).where(x, (x > 0).where(y, edge))


def log1p32(x: Value) -> Value:
    """1.5 ulp. What 1 + x rounds away is added back as a first-order term."""
    u = x + 1
    lost = (x - (u - 1)) / u
    y = log32(u)
    y = (y.llvm("fabs") < INF).where(y + lost, y)
    return x.equals(0).where(x, y)  # -0.0 stays


def tanh32(x: Value) -> Value:
    """3.2 ulp. x (c + p/q) in x², constant beyond 9.02 = 1 / c: p/q, whose rounding errors are most of the error,
    is 0 there and small before."""
    a = (x > 9.02).where(9.02, (x < -9.02).where(-9.02, x))
    z = a * a
    p = horner(z, 0.8891352415, 8.2008875906e-2, 6.2584329862e-4, -1.5814437575e-5, -7.273411029e-8)
    q = horner(z, 1.0, 0.467130303, 2.58710627e-2, 3.28308815e-4, 7.76199499e-7)
    return _within_one(a * (p / q + 0.11086473613977432))


def erf32(x: Value) -> Value:
    """3.4 ulp. As tanh, constant beyond 3.93."""
    a = (x > 3.93).where(3.93, (x < -3.93).where(-3.93, x))
    z = a * a
    p = horner(z, 0.8739261627, 6.2943920493e-2, 2.3717114702e-2, -3.6534926039e-5, -1.1683074263e-5, -7.6282804002e-6)
    q = horner(z, 1.0, 0.502410412, 0.114257477, 1.49974292e-2, 1.16521178e-3, 3.80040874e-5)
    return _within_one(a * (p / q + 0.25445297360420227))


def _within_one(y: Value) -> Value:
    return (y > 1).where(1, (y < -1).where(-1, y))


# ---- sine and cosine ----------------------------------------------------------------------------------
def _pi_bits(bits: int) -> int:
    """floor(π 2^bits), by Machin's formula."""
    guard = bits + 16

    def arctan_inverse(n: int) -> int:
        term, total, k = (1 << guard) // n, 0, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term, k = term // (n * n), k + 2
        return total

    return (16 * arctan_inverse(5) - 4 * arctan_inverse(239)) >> (guard - bits)


# 2/π in words of 32 bits, after one zero bit: enough for 2^104 2/π to 2^-96.
TWO_OVER_PI = tuple((((1 << 480) // _pi_bits(256)) >> (224 - 32 * i)) & 0xFFFFFFFF for i in range(1, 8))


def _pick(j: Value, words: tuple[int, ...]) -> Value:
    """words[j] by selects: a table would stop the loop from vectorising."""
    out = j.constant(words[0])
    for i, word in enumerate(words[1:], 1):
        out = j.equals(i).where(j.constant(word), out)
    return out


def _funnel(a: Value, b: Value, count: Value) -> Value:
    """The upper half of (a, b) shifted left."""
    return Value(a.builder, call_named(a.builder, "llvm.fshl.i32", I32, [a.value, b.value, count.value]), unsigned=True)


def _reduce_huge(bits: Value) -> tuple[Value, Value]:
    """|x| = m 2^e, e > 0, in quarter turns, by Payne and Hanek: m (2^e 2/π mod 4) in 96-bit fixed point."""
    offset = ((bits >> 23) & 0xFF) - 151
    j, count = (offset >> 5) & 3, offset & 31
    words = [_pick(j, TWO_OVER_PI[i : i + 4]) for i in range(4)]
    high, middle, low = (_funnel(words[i], words[i + 1], count).to(I64) for i in range(3))
    m = ((bits & 0x7FFFFF) | 0x800000).to(I64)
    turn = ((high << 32) | middle) * m + (low * m).logical_shift(32)
    q = (turn + (1 << 61)).logical_shift(62)
    return q.to(I32), ((turn - (q << 62)).to(F64) * (math.pi * 2.0**-63)).to(F32)


def _reduce_angle(x: Value) -> tuple[Value, Value]:
    """x = q π/2 + r with |r| <= π/4, as q (i32) and r (f32), for every finite float32; r is NaN for the others."""
    bits, wide = x.bits(), x.to(F64)
    shifted = wide * (2 / math.pi) + 6755399441055744.0
    n = -(shifted - 6755399441055744.0)
    r = n.llvm("fma", 6.123233995736766e-17, n.llvm("fma", math.pi / 2, wide)).to(F32)
    huge_q, huge_r = _reduce_huge(bits & 0x7FFFFFFF)
    huge_q, huge_r = (bits < 0).where(-huge_q, huge_q), (bits < 0).where(-huge_r, huge_r)
    huge = x.llvm("fabs") >= 2.0**24
    return huge.where(huge_q, shifted.bits().to(I32)), huge.where(huge_r, r) + (x - x)


def _sin_series(r: Value) -> Value:
    z = r * r
    return (r * z) * horner(z, -1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4) + r


def _cos_series(r: Value) -> Value:
    z = r * r
    return (z * z) * horner(z, 4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5) + (1 - z * 0.5)


def _quadrant(q: Value, r: Value) -> Value:
    """sin(q π/2 + r)."""
    y = (q & 1).differs(0).where(_cos_series(r), _sin_series(r))
    return (q & 2).differs(0).where(-y, y)


def sin32(x: Value) -> Value:
    """1.6 ulp at every finite argument."""
    q, r = _reduce_angle(x)
    return x.equals(0).where(x, _quadrant(q, r))  # -0.0 stays


def cos32(x: Value) -> Value:
    """1.6 ulp at every finite argument."""
    q, r = _reduce_angle(x)
    return _quadrant(q + 1, r)


# ---- through float64 ------------------------------------------------------------------------------------
# Formulas of float32 functions that are evaluated in float64 lanes, to about 1e-10, and rounded once. They vectorise.
ROUND64 = 6755399441055744.0  # 1.5 * 2^52, as ROUND32
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD


def wide(function: Callable[..., Value]) -> Callable[..., Value]:
    """A float32 function by one of float64."""

    def narrow(*operands: Value) -> Value:
        return function(*(x.to(F64) for x in operands)).to(F32)

    narrow.__doc__ = f"0.51 ulp: {function.__name__} in float64, rounded once."
    return narrow


def _within(x: Value, low: float, high: float) -> Value:
    return (x > high).where(high, (x < low).where(low, x))


def _power_of_two(n: Value) -> Value:
    """2^n from n + ROUND64."""
    return ((n.bits() + 1023) << 52).bits()


def _exp_of(shifted: Value, r: Value) -> Value:
    """2^n exp(r), |r| <= ln 2 / 2, n being in the low bits of `shifted`."""
    return horner(r, *(1 / math.factorial(k) for k in range(10))) * _power_of_two(shifted)


def wide_exp(x: Value) -> Value:
    x = _within(x, -300.0, 300.0)
    shifted = x * LOG2E + ROUND64
    return _exp_of(shifted, x - (shifted - ROUND64) * math.log(2))


def wide_exp2(x: Value) -> Value:
    x = _within(x, -400.0, 400.0)
    shifted = x + ROUND64
    return _exp_of(shifted, (x - (shifted - ROUND64)) * math.log(2))


def _scaled_log(x: Value, of_two: float, scale: float) -> Value:
    """k of_two + scale log m for x = 2^k m; a series in (m - 1) / (m + 1)."""
    offset = x.bits() - SQRT_HALF_BITS
    k = offset >> 52
    m = (x.bits() - (k << 52)).bits()
    s = (m - 1) / (m + 1)
    y = k.to(F64) * of_two + s * horner(s * s, *(2 * scale / n for n in range(1, 14, 2)))
    y = x.equals(INF).where(x, y)
    return (x > 0).where(y, x.equals(0).where(x.constant(-INF), NAN))


def wide_log(x: Value) -> Value:
    return _scaled_log(x, math.log(2), 1.0)


def wide_log2(x: Value) -> Value:
    return _scaled_log(x, 1.0, 1 / math.log(2))


def wide_log10(x: Value) -> Value:
    return _scaled_log(x, math.log10(2), 1 / math.log(10))


def _wide_log1p(x: Value) -> Value:
    """What 1 + x rounds away is put back by the factor x / ((1 + x) - 1)."""
    u = x + 1
    tiny = u.equals(1)
    y = wide_log(u) * (x / tiny.where(1, u - 1))
    return tiny.where(x, x.equals(INF).where(x, y))


def wide_sinh(x: Value) -> Value:
    e = wide_exp(x)
    z = x * x
    series = x * horner(z, *(1 / math.factorial(k) for k in range(1, 14, 2)))
    return (x.llvm("fabs") < 1).where(series, (e - 1 / e) * 0.5)


def wide_cosh(x: Value) -> Value:
    e = wide_exp(x)
    return (e + 1 / e) * 0.5


def wide_asinh(x: Value) -> Value:
    a = x.llvm("fabs")
    y = _wide_log1p(a + a * (a / ((a * a + 1).llvm("sqrt") + 1)))
    return a.equals(INF).where(a, y).llvm("copysign", x)


def wide_acosh(x: Value) -> Value:
    t = x - 1
    y = x.equals(INF).where(x, _wide_log1p(t + (t * (x + 1)).llvm("sqrt")))
    return (x < 1).where(NAN, y)


def wide_atanh(x: Value) -> Value:
    a = x.llvm("fabs")
    return (_wide_log1p(a * 2 / (1 - a)) * 0.5).llvm("copysign", x)


def wide_atan2(y: Value, x: Value) -> Value:
    """atan of the smaller by the larger, brought to |t| <= tan(π/8); then octants."""
    b, a = y.llvm("fabs"), x.llvm("fabs")
    steep = b > a
    low, high = steep.where(a, b), steep.where(b, a)
    t = high.equals(0).where(0, low.equals(INF).where(1, low / high))
    far = t > 0.41421356237309503
    t = far.where((t - 1) / (t + 1), t)
    z = t * t
    angle = t * horner(z, *((-1) ** k / (2 * k + 1) for k in range(12)))
    angle = far.where(angle + math.pi / 4, angle)
    angle = steep.where(math.pi / 2 - angle, angle)
    angle = (x.bits() < 0).where(math.pi - angle, angle)
    angle = angle.llvm("copysign", y)
    return (x.differs(x) | y.differs(y)).where(NAN, angle)


def wide_atan(x: Value) -> Value:
    return wide_atan2(x, x.constant(1.0))


def wide_asin(x: Value) -> Value:
    return wide_atan2(x, ((1 - x) * (x + 1)).llvm("sqrt"))


def wide_acos(x: Value) -> Value:
    return wide_atan2(((1 - x) * (x + 1)).llvm("sqrt"), x)


def wide_hypot(x: Value, y: Value) -> Value:
    r = (x * x + y * y).llvm("sqrt")
    return (x.llvm("fabs").equals(INF) | y.llvm("fabs").equals(INF)).where(INF, r)


# ---- error and gamma functions, in float64 by libm and series ------------------------------------------------
# Giles, "Approximating the erfinv function", GPU Computing Gems 2, 2011: single precision, where Halley's steps start.
ERFINV_NEAR = (
    1.50140941,
    0.246640727,
    -0.00417768164,
    -0.00125372503,
    0.00021858087,
    -4.39150654e-06,
    -3.5233877e-06,
    3.43273939e-07,
    2.81022636e-08,
)
ERFINV_FAR = (
    2.83297682,
    1.00167406,
    0.00943887047,
    -0.0076224613,
    0.00573950773,
    -0.00367342844,
    0.00134934322,
    0.000100950558,
    -0.000200214257,
)


def erfinv64(y: Value) -> Value:
    a = y.llvm("fabs")
    w = -((1 - a) * (a + 1)).call("log")
    near, far = horner(w - 2.5, *ERFINV_NEAR), horner(w.llvm("sqrt") - 3, *ERFINV_FAR)
    x = a * (w < 5).where(near, far)
    for _ in range(3):
        error = (a < 0.5).where(x.call("erf") - a, (1 - a) - x.call("erfc"))
        step = error / ((-x * x).call("exp") * 1.1283791670955126)
        x = x - step / (x * step + 1)
    x = a.equals(1).where(INF, a.equals(0).where(0, x))
    return (a > 1).where(NAN, x).llvm("copysign", y)


def lgamma64(x: Value) -> Value:
    return x.llvm("fabs").equals(INF).where(INF, x.call("lgamma"))


DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def digamma64(x: Value) -> Value:
    """Recurrence up to x + 10, the asymptotic series there, reflection for x < 0; NaN at negative integers."""
    negative = x < 0
    z = negative.where(1 - x, x)
    y, total = z, z.constant(0.0)
    for _ in range(10):
        total = total + 1 / y
        y = y + 1
    s = 1 / (y * y)
    value = y.call("log") - 0.5 / y - s * horner(s, *DIGAMMA_SERIES) - total
    value = z.equals(INF).where(z, value)
    r = x - x.llvm("rint")
    reflected = value - math.pi * (r * math.pi).call("cos") / (r * math.pi).call("sin")
    value = negative.where(r.equals(0).where(NAN, reflected), value)
    return x.equals(0).where(x.constant(-INF).llvm("copysign", -x), value)


def polygamma64(order: Value, x: Value) -> Value:
    """(-1)^(n+1) n! ζ(n + 1, x): terms until x + k >= 12, then Euler and Maclaurin's series; inf at 0, -1, …"""
    builder, s = x.builder, order + 1
    count = (12 - x).llvm("ceil")
    count = ((count > 0) & (count < 1e7)).where(count, 0)
    total = alloca_once_value(builder, ir.Constant(F64, 0.0))
    with for_range(builder, count.to(I64).value) as loop:
        term = (x + Value(builder, loop.index).to(F64)).call("pow", -s)
        builder.store((Value(builder, builder.load(total)) + term).value, total)
    y = x + count
    power = y.call("pow", -s)
    value = Value(builder, builder.load(total)) + y * power / order + power * 0.5
    term = power * s / y * 0.5
    for j, b in enumerate(BERNOULLI, 1):
        value = value + term * b
        term = term * (s + (2 * j - 1)) * (s + 2 * j) / (y * y) * (1 / ((2 * j + 1) * (2 * j + 2)))
    value = value * (order + 1).call("tgamma")
    value = y.equals(INF).where(0, value)
    odd = (order * 0.5).llvm("floor") * 2
    value = odd.equals(order).where(-value, value)
    pole = (x <= 0) & x.equals(x.llvm("floor"))
    return pole.where(odd.equals(order).where(value.constant(-INF), INF), value)


def tan32(x: Value) -> Value:
    """3.8 ulp at every finite argument."""
    q, r = _reduce_angle(x)
    sine, cosine = _sin_series(r), _cos_series(r)
    odd = (q & 1).differs(0)
    return x.equals(0).where(x, odd.where(-cosine, sine) / odd.where(sine, cosine))


# ---- random bits ----------------------------------------------------------------------------------------
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


def threefry(seed: Value, counter: Value) -> tuple[Value, Value]:
    """Threefry-2x32, 20 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011)."""
    key = [seed.to(I32), seed.logical_shift(32).to(I32)]
    key.append(key[0] ^ key[1] ^ 0x1BD11BDA)
    a, b = counter.to(I32) + key[0], counter.logical_shift(32).to(I32) + key[1]
    for round_number in range(20):
        a = a + b
        b = (
            Value(
                b.builder,
                call_named(
                    b.builder, "llvm.fshl.i32", I32, [b.value, b.value, ir.Constant(I32, ROTATIONS[round_number % 8])]
                ),
            )
            ^ a
        )
        if round_number % 4 == 3:
            turn = round_number // 4 + 1
            a, b = a + key[turn % 3], b + key[(turn + 1) % 3] + turn
    return a, b


def _upper24(word: Value) -> Value:
    return word.logical_shift(8).to(F32)  # below 2^24: a signed conversion will do


def uniform32(seed: Value, counter: Value) -> Value:
    """[0, 1) in steps of 2^-24."""
    return _upper24(threefry(seed, counter)[0]) * 2.0**-24


def uniform64(seed: Value, counter: Value) -> Value:
    """[0, 1) in steps of 2^-53."""
    a, b = threefry(seed, counter)
    high, low = Value(a.builder, a.value, unsigned=True).to(I64), b.logical_shift(11).to(I64)
    return ((high << 21) + low).to(F64) * 2.0**-53


def normal32(seed: Value, counter: Value) -> Value:
    """Box-Muller; the angle is reduced exactly, since it is a fraction of a turn."""
    a, b = threefry(seed, counter)
    u1, quarters = (_upper24(a) + 1) * 2.0**-24, _upper24(b) * 2.0**-22
    shifted = quarters + ROUND32
    r = (quarters - (shifted - ROUND32)) * (math.pi / 2)
    return (log32(u1) * -2).llvm("sqrt") * _quadrant(shifted.bits() + 1, r)


def normal64(seed: Value, counter: Value) -> Value:
    a, b = (Value(w.builder, w.value, unsigned=True).to(F64) for w in threefry(seed, counter))
    u1, u2 = (a + 1) * 2.0**-32, b * 2.0**-32
    return (u1.call("log") * -2).llvm("sqrt") * (u2 * (2 * math.pi)).call("cos")


# ---- the table of names -----------------------------------------------------------------------------------
def sign(x: Value) -> Value:
    if x.unsigned:
        return x.differs(0).where(x.constant(1), 0)
    return (x > 0).where(1, (x < 0).where(x.constant(-1), 0))


def absolute(x: Value) -> Value:
    if x.is_float:
        return x.llvm("fabs")
    return x if x.unsigned else (x < 0).where(-x, x)


def libm(name: str) -> Callable[..., Value]:
    return lambda x, *others: x.call(name, *others)


def overloaded(name: str) -> Callable[[Value], Value]:
    return lambda x: x.llvm(name)


UNARY_F32 = {
    "exp": exp32,
    "expm1": expm132,
    "log": log32,
    "log1p": log1p32,
    "tanh": tanh32,
    "sin": sin32,
    "cos": cos32,
    "erf": erf32,
    "sigmoid": sigmoid32,
    "tan": tan32,
    "exp2": wide(wide_exp2),
    "log2": wide(wide_log2),
    "log10": wide(wide_log10),
    "sinh": wide(wide_sinh),
    "cosh": wide(wide_cosh),
    "asinh": wide(wide_asinh),
    "acosh": wide(wide_acosh),
    "atanh": wide(wide_atanh),
    "asin": wide(wide_asin),
    "acos": wide(wide_acos),
    "atan": wide(wide_atan),
    "erfc": wide(libm("erfc")),
    "erfinv": wide(erfinv64),
    "lgamma": wide(lgamma64),
    "digamma": wide(digamma64),
}
UNARY_F64 = {name: libm(name) for name in UNARY_F32} | {
    "sigmoid": sigmoid64,
    "erfinv": erfinv64,
    "lgamma": lgamma64,
    "digamma": digamma64,
}
BINARY_F32 = {
    "pow": libm("powf"),
    "atan2": wide(wide_atan2),
    "hypot": wide(wide_hypot),
    "nextafter": libm("nextafterf"),
    "polygamma": wide(polygamma64),
}
BINARY_F64 = {name: libm(name) for name in BINARY_F32} | {"polygamma": polygamma64}
UNARY_BOTH = {
    "sqrt": overloaded("sqrt"),
    "rsqrt": lambda x: 1 / x.llvm("sqrt"),
    "floor": overloaded("floor"),
    "ceil": overloaded("ceil"),
    "trunc": overloaded("trunc"),
    "round": overloaded("rint"),
}
RANDOM = {
    "uniform_f32": (uniform32, "f32"),
    "uniform_f64": (uniform64, "f64"),
    "normal_f32": (normal32, "f32"),
    "normal_f64": (normal64, "f64"),
}


def scalar_names() -> dict[str, Any]:
    """Every `<op>_<tag>` of this module by name."""
    names: dict[str, Any] = {}
    for tag, unary, binary in (("f32", UNARY_F32, BINARY_F32), ("f64", UNARY_F64, BINARY_F64)):
        for op, emit in (unary | UNARY_BOTH).items():
            names[f"{op}_{tag}"] = fixed(emit, NUMBA[tag], NUMBA[tag])
        for op, emit in binary.items():
            names[f"{op}_{tag}"] = fixed(emit, NUMBA[tag], NUMBA[tag], NUMBA[tag])
    for tag, kind in NUMBA.items():
        names[f"abs_{tag}"], names[f"sign_{tag}"] = fixed(absolute, kind, kind), fixed(sign, kind, kind)
    for name, (emit, tag) in RANDOM.items():
        names[name] = fixed(emit, NUMBA[tag], types.int64, types.int64)
    for name, word in (("random_bits_hi", 0), ("random_bits_lo", 1)):
        names[name] = fixed(lambda s, c, word=word: threefry(s, c)[word], types.uint32, types.int64, types.int64)
    return names
