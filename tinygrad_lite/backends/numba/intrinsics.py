"""What a kernel's source can name besides arithmetic: pointers, casts, selects, sums, atomics, calls by address.

Addresses are int64 and `p[i]` on a pointer is a plain load or store, which LLVM vectorises; a Numba array's index is
not, since it may wrap around. Booleans are stored and computed as uint8.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import alloca_once
from numba.extending import intrinsic

from . import tile
from .values import F32, F64, I8, I16, I32, I64, Value, call_at, call_named, fixed, native

NUMBA = {
    "f32": types.float32,
    "f64": types.float64,
    "i64": types.int64,
    "i32": types.int32,
    "i16": types.int16,
    "i8": types.int8,
    "u8": types.uint8,
    "b1": types.uint8,
}
LLVM = {"f32": F32, "f64": F64, "i64": I64, "i32": I32, "i16": I16, "i8": I8, "u8": I8, "b1": I8}
int64, int32, void = types.int64, types.int32, types.void
SUM_FLAGS = ("reassoc", "nsz", "contract")


def wider(a: Any, b: Any) -> Any:
    """The type that two operands meet in. Kernels keep operands alike: this only takes in literals."""
    if a == b:
        return a
    if isinstance(a, types.Float) != isinstance(b, types.Float):
        return a if isinstance(a, types.Float) else b
    return a if a.bitwidth >= b.bitwidth else b


def numbers(*operands: Any) -> bool:
    return all(isinstance(t, (types.Integer, types.Float)) for t in operands)


def same(a: Any, b: Any) -> Any:
    """Typing rule (t, t) -> t."""
    if not numbers(a, b):
        return None
    kind = wider(a, b)
    return kind, kind, kind


# ---- memory ---------------------------------------------------------------------------------------
def pointer(tag: str) -> Any:
    def emit(address: Value) -> Value:
        return Value(address.builder, address.builder.inttoptr(address.value, LLVM[tag].as_pointer()))

    return fixed(emit, types.CPointer(NUMBA[tag]), int64)


f32_at, f64_at, i64_at, i32_at, i16_at, i8_at, u8_at, b1_at = (pointer(tag) for tag in NUMBA)


# ---- casts and selects ----------------------------------------------------------------------------
def cast(tag: str) -> Any:
    """NumPy's `astype`; a float out of an integer's range gives what the CPU gives."""

    def typing(a: Any) -> Any:
        return (NUMBA[tag], a) if isinstance(a, (types.Integer, types.Float, types.Boolean)) else None

    def emit(a: Value) -> Value:
        if tag == "b1":
            flag = a if a.type == ir.IntType(1) else a.differs(0)
            return Value(a.builder, a.builder.zext(flag.value, I8))
        return a.to(LLVM[tag])

    return native(typing, emit, 1)


f32, f64, i64, i32, i16, i8, u8, b1 = (cast(tag) for tag in NUMBA)


# ---- 16-bit floats: words of 16 bits in memory, float32 in registers ------------------------------
# By integer arithmetic, so that no instruction of some CPUs only is needed, and loops vectorise.
def _from_bf16(word: Value) -> Value:
    return (word << 16).bits()


def _to_bf16(x: Value) -> Value:
    """To the nearest, halves to even; NaN stays one."""
    bits = x.bits()
    rounded = bits + ((bits.logical_shift(16) & 1) + 0x7FFF)
    return x.differs(x).where(bits | 0x400000, rounded).logical_shift(16)


def _from_f16(word: Value) -> Value:
    """The exponent is moved; infinities and NaN move on, subnormal numbers are normalised by a subtraction."""
    bits = (word & 0x7FFF) << 13
    exponent = bits & 0x0F800000
    shifted = bits + (112 << 23)
    special = shifted + (112 << 23)
    small = ((shifted + (1 << 23)).bits() - 2.0**-14).bits()
    size = exponent.equals(0x0F800000).where(special, exponent.equals(0).where(small, shifted))
    return (size | ((word & 0x8000) << 16)).bits()


def _to_f16(x: Value) -> Value:
    """To the nearest, halves to even; too large is infinite; subnormal results are rounded by adding 1/2."""
    size = x.bits() & 0x7FFFFFFF
    normal = (size + ((size.logical_shift(13) & 1) + 0xFFF - (112 << 23))).logical_shift(13)
    small = (size.bits() + 0.5).bits() - 0x3F000000
    large = (size > 0x7F800000).where(size.constant(0x7E00), 0x7C00)
    word = (size >= 0x47800000).where(large, (size < 0x38800000).where(small, normal))
    return word | (x.bits().logical_shift(16) & 0x8000)


HALVES = {"f16": (_from_f16, _to_f16), "bf16": (_from_bf16, _to_bf16)}


def half_pointer() -> Any:
    def emit(address: Value) -> Value:
        return Value(address.builder, address.builder.inttoptr(address.value, I16.as_pointer()))

    return fixed(emit, types.CPointer(types.uint16), int64)


def half_load(tag: str) -> Any:
    def emit(pointer: Value, i: Value) -> Value:
        b = pointer.builder
        word = Value(b, b.load(b.gep(pointer.value, [i.value])), unsigned=True)
        return HALVES[tag][0](word.to(I32))

    return fixed(emit, types.float32, types.CPointer(types.uint16), int64)


def half_store(tag: str) -> Any:
    def emit(pointer: Value, i: Value, x: Value) -> None:
        b = pointer.builder
        b.store(HALVES[tag][1](x).to(I16).value, b.gep(pointer.value, [i.value]))

    return fixed(emit, void, types.CPointer(types.uint16), int64, types.float32)


def half_cast(tag: str) -> Any:
    """A number rounded to a 16-bit float, by way of float32, and held as float32."""
    decode, encode = HALVES[tag]

    def typing(a: Any) -> Any:
        return (types.float32, a) if isinstance(a, (types.Integer, types.Float, types.Boolean)) else None

    return native(typing, lambda a: decode(encode(a.to(F32))), 1)


f16_at, bf16_at = half_pointer(), half_pointer()
load_f16, load_bf16 = half_load("f16"), half_load("bf16")
store_f16, store_bf16 = half_store("f16"), half_store("bf16")
f16, bf16 = half_cast("f16"), half_cast("bf16")


def _where_type(c: Any, a: Any, b: Any) -> Any:
    if a == b:
        return a, c, a, b
    if not numbers(a, b):
        return None
    kind = wider(a, b)
    return kind, c, kind, kind


def _where(c: Value, a: Value, b: Value) -> Value:
    flag = c if c.type == ir.IntType(1) else c.differs(0)
    return flag.where(a, b)


where = native(_where_type, _where, 3)  # a select: both branches are computed


# ---- reductions -----------------------------------------------------------------------------------
def _sum_add(total: Value, x: Value) -> Value:
    if not total.is_float:
        return total + x
    return Value(total.builder, total.builder.fadd(total.value, x.value, flags=SUM_FLAGS))


# The only addition that may be reordered, so that sums vectorise and nothing else changes its meaning.
sum_add = native(lambda total, x: (total, total, total) if numbers(total, x) else None, _sum_add, 2)


def extreme(how: str) -> Any:
    """NaN if either is; unlike `a if a > b else b`, a reduction by it vectorises without nnan."""
    name, comparison = ("maximum", ">") if how == "max" else ("minimum", "<")

    def emit(a: Value, b: Value) -> Value:
        return a.llvm(name, b) if a.is_float else a.compare(comparison, b).where(a, b)

    return native(same, emit, 2)


maximum, minimum = extreme("max"), extreme("min")


# ---- integers -------------------------------------------------------------------------------------
def _guarded(d: Value) -> tuple[Value, Value, Value]:
    """The flags `d == 0` and `d == -1`, and a divisor without the two, which trap (-1 by the least integer)."""
    zero = d.equals(0)
    minus = zero.constant(0) if d.unsigned else d.equals(-1)
    return zero, minus, (zero | minus).where(1, d)


def _int_divmod(n: Value, d: Value) -> tuple[Value, Value]:
    zero, minus, safe = _guarded(d)
    b = n.builder
    if n.unsigned:
        q, r = Value(b, b.udiv(n.value, safe.value)), Value(b, b.urem(n.value, safe.value))
    else:
        q, r = Value(b, b.sdiv(n.value, safe.value)), Value(b, b.srem(n.value, safe.value))
        low = r.differs(0) & ((r ^ safe) < 0)
        q, r = q - Value(b, b.zext(low.value, q.type)), r + low.where(safe, 0)
    q = minus.where(-n, q)
    return zero.where(0, q), (zero | minus).where(0, r)


def _float_divmod(n: Value, d: Value) -> tuple[Value, Value]:
    """As NumPy: the quotient's adjustment is apart from the remainder's, which matters for d = inf."""
    r = n.call("fmod" if n.type == F64 else "fmodf", d)
    other_sign = r.differs(0) & ((r < 0) ^ (d < 0))
    exact = (n - r) / d
    exact = other_sign.where(exact - 1, exact)
    low = exact.llvm("floor")
    whole = (exact - low > 0.5).where(low + 1, low)
    signed_zero = n.constant(0).llvm("copysign", n / d)
    quotient = d.equals(0).where(n / d, exact.equals(0).where(signed_zero, whole))
    r = other_sign.where(r + d, r)
    return quotient, r.equals(0).where(d.constant(0).llvm("copysign", d), r)


def _divmod(n: Value, d: Value) -> tuple[Value, Value]:
    return _float_divmod(n, d) if n.is_float else _int_divmod(n, d)


def _truncdiv(n: Value, d: Value) -> Value:
    if n.is_float:
        return (n / d).llvm("trunc")
    zero, minus, safe = _guarded(d)
    b = n.builder
    q = Value(b, (b.udiv if n.unsigned else b.sdiv)(n.value, safe.value))
    return zero.where(0, minus.where(-n, q))


def _truncmod(n: Value, d: Value) -> Value:
    if n.is_float:
        return n.call("fmod" if n.type == F64 else "fmodf", d)
    zero, minus, safe = _guarded(d)
    b = n.builder
    return (zero | minus).where(0, Value(b, (b.urem if n.unsigned else b.srem)(n.value, safe.value)))


def _shifted(n: Value, count: Value, left: bool) -> Value:
    """Counts below 0 or from the width on give what a long enough shift does."""
    b, width = n.builder, n.type.width
    good = Value(b, count.value, unsigned=True).compare("<", width)
    safe = good.where(count, 0)
    if left:
        return good.where(Value(b, b.shl(n.value, safe.value)), 0)
    if n.unsigned:
        return good.where(Value(b, b.lshr(n.value, safe.value)), 0)
    return Value(b, b.ashr(n.value, good.where(count, width - 1).value))


def _same_integer(a: Any, b: Any) -> Any:
    return same(a, b) if isinstance(a, types.Integer) and isinstance(b, types.Integer) else None


shift_left = native(_same_integer, lambda n, count: _shifted(n, count, True), 2)
shift_right = native(_same_integer, lambda n, count: _shifted(n, count, False), 2)
copysign = native(same, lambda a, b: a.llvm("copysign", b), 2)

# Floored as in Python, truncated as in C; integers by zero give 0, and nothing traps.
floordiv = native(same, lambda n, d: _divmod(n, d)[0], 2)
mod = native(same, lambda n, d: _divmod(n, d)[1], 2)
truncdiv = native(same, _truncdiv, 2)
truncmod = native(same, _truncmod, 2)


def _check_index(i: Value, size: Value, wrap: Value, status: Value, code: Value) -> Value:
    b = i.builder
    index = ((i < 0) & wrap.differs(0)).where(i + size, i)
    good = Value(b, index.value, unsigned=True).compare("<", size)
    with b.if_then(b.not_(good.value), likely=False):
        b.store(code.value, b.inttoptr(status.value, I64.as_pointer()))
    return good.where(index, 0)


def _int_pow(n: Value, exponent: Value, status: Value, code: Value) -> Value:
    """n ** exponent, wrapping around; a negative exponent sets the error cell and gives 1."""
    b = n.builder
    negative = exponent < 0 if not exponent.unsigned else exponent.differs(exponent)
    with b.if_then(negative.value, likely=False):
        b.store(code.value, b.inttoptr(status.value, I64.as_pointer()))
    total = n.constant(1)
    for bit in range(n.type.width - (not n.unsigned)):
        total = (exponent & (1 << bit)).differs(0).where(total * n, total)
        n = n * n
    return negative.where(1, total)


def _int_pow_type(n: Any, exponent: Any, status: Any, code: Any) -> Any:
    if not isinstance(n, types.Integer) or n != exponent:
        return None
    return n, n, n, int64, int64


def _nonzero(d: Value, status: Value, code: Value) -> Value:
    with d.builder.if_then(d.equals(0).value, likely=False):
        d.builder.store(code.value, d.builder.inttoptr(status.value, I64.as_pointer()))
    return d


def _nonzero_type(d: Any, status: Any, code: Any) -> Any:
    return (d, d, int64, int64) if isinstance(d, types.Integer) else None


nonzero = native(_nonzero_type, _nonzero, 3)  # (divisor, status address, code) -> divisor
int_pow = native(_int_pow_type, _int_pow, 4)  # (n, exponent, status address, code) -> power
check_index = fixed(_check_index, int64, *[int64] * 5)  # (i, size, wrap, status address, code) -> index, or 0


# ---- small products in registers ------------------------------------------------------------------
def _in_module(build: Any) -> Any:
    """Emit a call of a function that `build(module)` puts into the kernel's module once."""

    def emit(*values: Value) -> None:
        builder = values[0].builder
        builder.call(build(builder.module), [v.value for v in values])

    return emit


# (m, n, k, alpha, a, ai, ak, b, bk, c, ci, add), (m, n, k, a, …, add, taps, table); (m, n, source, ls, target, lt)
tile_matmul = fixed(_in_module(tile.tile_matmul), void, int64, int64, int64, types.float32, *[int64] * 8)
tile_taps = fixed(_in_module(tile.tile_taps), void, *[int64] * 14)
tile_transpose = fixed(_in_module(tile.tile_transpose), void, *[int64] * 6)
tile_copy = fixed(_in_module(tile.tile_copy), void, *[int64] * 6)
tile_panels = fixed(_in_module(tile.tile_panels), void, *[int64] * 5)


# ---- threads and calls ----------------------------------------------------------------------------
def _word(address: Value) -> Any:
    return address.builder.inttoptr(address.value, I64.as_pointer())


def _prefetch(address: Value) -> None:
    builder, kind = address.builder, ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
    place = builder.inttoptr(address.value, I8.as_pointer())
    name = "llvm.prefetch.p0"
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    builder.call(function, [place, I32(0), I32(2), I32(1)])  # to be read, into the second cache, data


def _atomic_add(address: Value, x: Value) -> Value:
    return Value(x.builder, x.builder.atomic_rmw("add", _word(address), x.value, "seq_cst"))


def _atomic_load(address: Value) -> Value:
    return Value(address.builder, address.builder.load_atomic(_word(address), "acquire", 8))


def _atomic_store(address: Value, x: Value) -> None:
    x.builder.store_atomic(x.value, _word(address), "release", 8)


def _call_kernel(fn: Value, *args: Value) -> None:
    call_at(fn.builder, fn.value, ir.VoidType(), [a.value for a in args])


def _call_plain(fn: Value) -> Value:
    return Value(fn.builder, call_at(fn.builder, fn.value, I32, []))


def _call_two(fn: Value, a: Value, b: Value) -> Value:
    return Value(fn.builder, call_at(fn.builder, fn.value, I32, [a.value, b.value]))


prefetch = fixed(_prefetch, void, int64)
atomic_add = fixed(_atomic_add, int64, int64, int64)  # (address, x) -> value before
atomic_load = fixed(_atomic_load, int64, int64)
atomic_store = fixed(_atomic_store, void, int64, int64)
call_kernel = fixed(_call_kernel, void, *[int64] * 5)  # (kernel, args, lo, hi, worker)
call_plain = fixed(_call_plain, int32, int64)  # int f(void)
call_two = fixed(_call_two, int32, int64, int64, int64)  # int f(int64, int64)


def nullary(result: Any, emit: Any) -> Any:
    """As `native`, but `emit` takes the builder: there is no operand to take it from."""

    def op(typingctx: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
            out = emit(builder)
            return context.get_dummy_value() if out is None else out

        return result(), codegen

    return intrinsic(op)


def _ticks(builder: ir.IRBuilder) -> ir.Value:
    return call_named(builder, "llvm.readcyclecounter", I64, [])


def _pause(builder: ir.IRBuilder) -> None:
    if platform.machine().lower() in ("x86_64", "amd64", "i686"):
        call_named(builder, "llvm.x86.sse2.pause", ir.VoidType(), [])


ticks, pause = nullary(int64, _ticks), nullary(void, _pause)


def gemm(kind: ir.Type, real: Any) -> Any:
    """BLAS ?gemm by address, column-major: (fn, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc).

    Scalars go through stack slots, so that a call site needs no table; `ta`, `tb` are ord("N") or ord("T").
    """

    def emit(*values: Value) -> None:
        fn, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = values
        builder = fn.builder

        def slot(value: Value, stored: ir.Type) -> ir.Value:
            place = alloca_once(builder, stored)
            builder.store(value.to(stored).value, place)
            return builder.ptrtoint(place, I64)

        call_at(
            builder,
            fn.value,
            ir.VoidType(),
            [
                slot(ta, I8),
                slot(tb, I8),
                slot(m, I32),
                slot(n, I32),
                slot(k, I32),
                slot(alpha, kind),
                a.value,
                slot(lda, I32),
                b.value,
                slot(ldb, I32),
                slot(beta, kind),
                c.value,
                slot(ldc, I32),
            ],
        )

    return fixed(emit, void, *[int64] * 6, real, *[int64] * 4, real, int64, int64)


sgemm, dgemm = gemm(F32, types.float32), gemm(F64, types.float64)


# ---- BLAS and LAPACK by address ---------------------------------------------------------------------
LIBRARY_ARITIES = (5, 6, 8, 9, 11, 14)


def _call_library(fn: Value, *addresses: Value) -> None:
    call_at(fn.builder, fn.value, ir.VoidType(), [a.value for a in addresses])


def library(count: int) -> Any:
    """call_library{count}(fn, addresses…): Fortran takes everything by address."""
    return fixed(_call_library, void, *[int64] * (count + 1))


LIBRARY = {f"call_library{count}": library(count) for count in LIBRARY_ARITIES}
