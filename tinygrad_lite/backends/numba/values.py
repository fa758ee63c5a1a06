"""LLVM values with Python's operators, so that a formula reads as one; and the @intrinsic that carries it into Numba.

Formulas are emitted in place as LLVM instructions: a helper function compiled by Numba would cost some 50 ms of typing
and linking in every kernel that uses it. Formulas may contract into FMAs; the kernels around them may not, so that
plain arithmetic rounds as NumPy's does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic

FLAGS = ("contract", "nsz")
I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
SUFFIX = {F32: "f32", F64: "f64", I8: "i8", I16: "i16", I32: "i32", I64: "i64"}


class Value:
    """A builder and an LLVM value. Operators take Values of the same type or Python numbers.

    `unsigned` says how `to` and comparisons read an integer; results of operators are signed again.
    """

    __slots__ = ("builder", "unsigned", "value")

    def __init__(self, builder: ir.IRBuilder, value: ir.Value, unsigned: bool = False) -> None:
        self.builder, self.value, self.unsigned = builder, value, unsigned

    @property
    def type(self) -> ir.Type:
        return self.value.type

    @property
    def is_float(self) -> bool:
        return self.type in (F32, F64)

    def constant(self, number: float) -> Value:
        return Value(self.builder, ir.Constant(self.type, number))

    def _operand(self, other: Any) -> ir.Value:
        return other.value if isinstance(other, Value) else ir.Constant(self.type, other)

    def _binary(self, other: Any, float_op: str, int_op: str) -> Value:
        if self.is_float:
            return Value(self.builder, getattr(self.builder, float_op)(self.value, self._operand(other), flags=FLAGS))
        return Value(self.builder, getattr(self.builder, int_op)(self.value, self._operand(other)))

    def __add__(self, other: Any) -> Value:
        return self._binary(other, "fadd", "add")

    def __sub__(self, other: Any) -> Value:
        return self._binary(other, "fsub", "sub")

    def __mul__(self, other: Any) -> Value:
        return self._binary(other, "fmul", "mul")

    def __truediv__(self, other: Any) -> Value:
        return self._binary(other, "fdiv", "sdiv")

    def __rtruediv__(self, other: float) -> Value:
        return self.constant(other) / self

    def __rsub__(self, other: float) -> Value:
        return self.constant(other) - self

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Value:
        return Value(self.builder, self.builder.fneg(self.value)) if self.is_float else 0 - self

    def __and__(self, other: Any) -> Value:
        return Value(self.builder, self.builder.and_(self.value, self._operand(other)))

    def __or__(self, other: Any) -> Value:
        return Value(self.builder, self.builder.or_(self.value, self._operand(other)))

    def __xor__(self, other: Any) -> Value:
        return Value(self.builder, self.builder.xor(self.value, self._operand(other)))

    def __lshift__(self, count: int) -> Value:
        return Value(self.builder, self.builder.shl(self.value, self._operand(count)))

    def __rshift__(self, count: int) -> Value:
        """Arithmetic shift; `logical_shift` shifts zeros in."""
        return Value(self.builder, self.builder.ashr(self.value, self._operand(count)))

    def logical_shift(self, count: int) -> Value:
        return Value(self.builder, self.builder.lshr(self.value, self._operand(count)))

    def compare(self, how: str, other: Any) -> Value:
        """An i1. NaN compares false, but for `!=`."""
        operand = self._operand(other)
        if self.is_float:
            emit = self.builder.fcmp_unordered if how == "!=" else self.builder.fcmp_ordered
        else:
            emit = self.builder.icmp_unsigned if self.unsigned else self.builder.icmp_signed
        return Value(self.builder, emit(how, self.value, operand))

    def __lt__(self, other: Any) -> Value:
        return self.compare("<", other)

    def __le__(self, other: Any) -> Value:
        return self.compare("<=", other)

    def __gt__(self, other: Any) -> Value:
        return self.compare(">", other)

    def __ge__(self, other: Any) -> Value:
        return self.compare(">=", other)

    def equals(self, other: Any) -> Value:
        return self.compare("==", other)

    def differs(self, other: Any) -> Value:
        return self.compare("!=", other)

    def where(self, yes: Any, no: Any) -> Value:
        """This i1 selects; one of the branches at least is a Value."""
        like = yes if isinstance(yes, Value) else no
        return Value(self.builder, self.builder.select(self.value, like._operand(yes), like._operand(no)))

    def bits(self) -> Value:
        """The pattern of a float as an integer, or the other way round."""
        target = {F32: I32, F64: I64, I32: F32, I64: F64}[self.type]
        return Value(self.builder, self.builder.bitcast(self.value, target))

    def to(self, target: ir.Type) -> Value:
        """Convert as C does."""
        b, value, source = self.builder, self.value, self.type
        if source == target:
            return self
        if self.is_float and target in (F32, F64):
            return Value(b, (b.fptrunc if target == F32 else b.fpext)(value, target))
        if self.is_float:
            # through 32 bits, as NumPy's own narrow casts do: the low bits of the integer remain
            wide = Value(b, b.fptosi(value, I64 if target == I64 else I32))
            return wide.to(target)
        if target in (F32, F64):
            return Value(b, (b.uitofp if self.unsigned else b.sitofp)(value, target))
        if target.width < source.width:
            return Value(b, b.trunc(value, target))
        return Value(b, (b.zext if self.unsigned else b.sext)(value, target))

    def llvm(self, name: str, *others: Any) -> Value:
        """Call an LLVM intrinsic overloaded on this one type: `x.llvm("sqrt")`."""
        return self.call(f"llvm.{name}.{SUFFIX[self.type]}", *others)

    def call(self, name: str, *others: Any) -> Value:
        """Call a function whose arguments and result have this type."""
        values = [self.value, *(self._operand(o) for o in others)]
        return Value(self.builder, call_named(self.builder, name, self.type, values))


def call_named(builder: ir.IRBuilder, name: str, result: ir.Type, values: Sequence[ir.Value]) -> ir.Value:
    kind = ir.FunctionType(result, [v.type for v in values])
    return builder.call(get_or_insert_function(builder.module, kind, name), values)


def call_at(builder: ir.IRBuilder, address: ir.Value, result: ir.Type, values: Sequence[ir.Value]) -> ir.Value:
    kind = ir.FunctionType(result, [v.type for v in values])
    return builder.call(builder.inttoptr(address, kind.as_pointer()), values)


def horner(x: Value, *coefficients: float) -> Value:
    """c0 + c1 x + c2 x² + …"""
    total = x * coefficients[-1] + coefficients[-2]
    for c in coefficients[-3::-1]:
        total = total * x + c
    return total


def native(typing: Callable[..., Any], emit: Callable[..., Any], arity: int) -> Any:
    """An @intrinsic: `typing(*types)` gives `(result, *parameters)` or None; `emit(*Values)` a Value or None."""

    def define(typingctx: Any, *operands: Any) -> Any:
        chosen = typing(*map(types.unliteral, operands))
        if chosen is None:
            return None
        result, *parameters = chosen

        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> ir.Value:
            out = emit(*(Value(builder, a, is_unsigned(t)) for a, t in zip(args, parameters, strict=True)))
            return context.get_dummy_value() if out is None else out.value

        return result(*parameters), codegen

    names = ", ".join("abcdefghijklmnopq"[:arity])
    scope = {"define": define}
    exec(f"def op(typingctx, {names}): return define(typingctx, {names})", scope)
    return intrinsic(scope["op"])


def fixed(emit: Callable[..., Any], result: Any, *parameters: Any) -> Any:
    """`native` for one signature; Numba converts the arguments."""
    return native(lambda *_: (result, *parameters), emit, len(parameters))


def is_unsigned(kind: Any) -> bool:
    return isinstance(kind, types.Boolean) or (isinstance(kind, types.Integer) and not kind.signed)
