"""Puts the functions onto Tensor: methods, in-place methods and operators. Imported once, for its effect."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_lite import creation, fillers, indexing, legacy, randomness, reshaping
from tinygrad_lite import functional as F
from tinygrad_lite.device import check_device
from tinygrad_lite.device import device as Device
from tinygrad_lite.functional.common import as_dtype
from tinygrad_lite.functional.movement import sum_to_size, windows
from tinygrad_lite.generator import Generator
from tinygrad_lite.handle import Tensor, fitted, unwrap
from tinygrad_lite.handle import wrap as _wrap
from tinygrad_lite.ir.node import next_serial
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import (
    DType,
    bfloat16,
    bool_,
    filling,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from tinygrad_lite.ops import create
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.movement import RESHAPE

# ---- the functions that are methods as they stand ----------------------------------------------------------------

_POINTWISE = """
    abs absolute acos acosh add addcdiv addcmul arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan
    atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp
    clamp_max clamp_min clip copysign cos cosh deg2rad digamma div divide eq erf erfc erfinv exp exp2 expm1 fix
    float_power floor floor_divide fmod frac gcd ge greater greater_equal gt heaviside hypot lcm ldexp le lerp less
    less_equal lgamma log log10 log1p log2 logical_and logical_not logical_or logical_xor logit lt masked_fill mul
    multiply nan_to_num ne neg negative nextafter not_equal pow rad2deg reciprocal relu remainder round rsqrt sgn
    sigmoid sign silu sin sinc sinh sqrt square sub subtract tan tanh true_divide trunc xlogy
""".split()  # noqa: SIM905
_UNCHANGING = """
    aminmax angle conj cummax cummin diff dist fmax fmin isneginf isposinf isreal logaddexp logaddexp2 logcumsumexp
    mode mvlgamma nanmean nanmedian nanquantile nansum positive quantile renorm resolve_conj signbit
""".split()  # noqa: SIM905
_OTHERS = """
    addbmm addmm addmv addr adjoint all allclose amax amin any argmax argmin argsort argwhere baddbmm bernoulli bincount
    bmm broadcast_to bucketize cholesky cholesky_inverse cholesky_solve chunk contiguous corrcoef count_nonzero cov
    cross cumprod cumsum det diag diag_embed diagflat diagonal diagonal_scatter dot dsplit equal expand expand_as
    flatten flip fliplr flipud gather ger hardshrink histc histogram hsplit index_add index_copy index_fill index_put
    index_reduce index_select inner inverse isclose isfinite isin isinf isnan kron kthvalue log_softmax logdet
    logsumexp masked_scatter masked_select matmul matrix_exp matrix_power max maximum mean median min minimum mm
    moveaxis movedim msort multinomial mv narrow narrow_copy nonzero norm outer permute pinverse prelu prod put qr
    ravel repeat repeat_interleave reshape reshape_as roll rot90 scatter scatter_add scatter_reduce select
    select_scatter slice_scatter slogdet softmax sort split split_with_sizes squeeze std sum svd swapaxes swapdims t
    take take_along_dim tensor_split tile topk trace transpose triangular_solve tril triu unbind unflatten unique
    unique_consecutive unsafe_chunk unsafe_split unsqueeze var vdot view view_as vsplit
""".split()  # noqa: SIM905
_INPLACE_OTHERS = """
    addbmm addmm addmv addr baddbmm cumprod cumsum index_add index_copy index_fill index_put index_reduce
    masked_scatter put scatter scatter_add scatter_reduce tril triu
""".split()  # noqa: SIM905
_SOURCES = {name: getattr(home, name) for home in (F, randomness) for name in home.__all__}


def _inplace(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        since = next_serial()
        return self._write(function(self, *args, **kwargs)._read(), since)

    method.__name__ = function.__name__ + "_"
    method.__qualname__ = f"Tensor.{method.__name__}"
    method.__doc__ = f"In-place version of `{function.__name__}`."
    return method


# ---- methods of their own ------------------------------------------------------------------------------------------


def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Take the values of `src`, broadcast and converted to this dtype."""
    if not isinstance(src, Tensor):
        raise TypeError(f"copy_(): argument 'src' must be Tensor, not {type(src).__name__}")
    return self._write(fitted(ew.cast(src.clone()._read(), self.dtype), self._read()))


def fill_(self: Tensor, value: Any) -> Tensor:
    """Set every element."""
    node = unwrap(value)
    if isinstance(node, bool | int | float):
        return self._write(create.full(self.shape, filling(node, self.dtype), self.dtype))
    if node.type.ndim:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {node.type.ndim} dimensions."
        )
    return self._write(fitted(ew.add(create.zeros_like(self._read()), ew.cast(node, self.dtype)), self._read()))


def zero_(self: Tensor) -> Tensor:
    """Set every element to 0."""
    return fill_(self, False if self.dtype is bool_ else 0)


def bernoulli_(self: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 at probability p, else 0."""
    chance = p.expand(self.shape) if isinstance(p, Tensor) else creation.full(self.shape, float(p))
    drawn = randomness.bernoulli(chance, generator=generator)
    return self._write(ew.cast(drawn._read(), self.dtype))


def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """to(dtype), to(device), to(device, dtype) or to(tensor): converted, or the tensor itself where nothing changes.

    Raises:
        RuntimeError: any device but the CPU. TypeError: other arguments.
    """
    dtype, copy = _conversion(*args, **kwargs)
    if dtype is None or dtype is self.dtype:
        return self.clone() if copy else self
    return _wrap(ew.cast(self._read(), dtype))


def _conversion(
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    other: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> tuple[DType | None, bool]:
    check_device(device)
    dtype = dtype if other is None else other.dtype
    for i, arg in enumerate(args):
        if isinstance(arg, Tensor):
            dtype = arg.dtype
        elif isinstance(arg, bool):
            copy = arg if i == 3 else copy
        elif isinstance(arg, DType | type):
            dtype = arg
        elif arg is None or isinstance(arg, str | Device):
            check_device(arg)
        else:
            raise TypeError(f"to() received an invalid argument of type {type(arg).__name__}")
    return (None if dtype is None else as_dtype(dtype)), copy


def _converter(dtype: DType, name: str) -> Callable[[Tensor], Tensor]:
    def method(self: Tensor) -> Tensor:
        return to(self, dtype)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Converted to {dtype.name}."
    return method


def type_(self: Tensor, dtype: Any = None) -> Any:
    """The name of the kind of tensor, tinygrad_lite.FloatTensor; or the tensor converted to a dtype or kind."""
    return legacy.name_of(self.dtype) if dtype is None else to(self, as_dtype(legacy.dtype_of_name(dtype)))


def cpu(self: Tensor) -> Tensor:
    """The tensor itself."""
    return self


def cuda(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """RuntimeError: there is the CPU only."""
    check_device("cuda")
    return self


def _new(maker: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    def method(
        self: Tensor, *args: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **named: Any
    ) -> Tensor:
        kind = as_dtype(dtype, self.dtype)
        return maker(*args, dtype=kind, device=device, requires_grad=requires_grad, **named)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`{maker.__name__}` with this tensor's dtype by default."
    return method


def fill_diagonal_(self: Tensor, fill_value: bool | int | float, wrap: bool = False) -> Tensor:
    """Set the main diagonal; with `wrap`, that of a tall matrix starts again below. Dims beyond two must be equal."""
    shape = tuple(self.shape)
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise RuntimeError(f"fill_diagonal_: needs a matrix, or dims of one size, got shape {list(shape)}")
    step = sum(math.prod(shape[a + 1 :]) for a in range(len(shape)))
    size = math.prod(shape)
    end = size if wrap or len(shape) > 2 or shape[0] <= shape[1] else shape[1] * shape[1]
    flat = self._as_view(RESHAPE, shape=(size,))
    flat[: min(end, size) : step].fill_(fill_value)
    return self


def matrix_transpose(self: Tensor) -> Tensor:
    """The last two axes exchanged."""
    if self.ndim < 2:
        raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor.")
    return F.transpose(self, -2, -1)


def full_transpose(self: Tensor) -> Tensor:
    """All axes in reverse order."""
    return F.permute(self, tuple(range(self.ndim))[::-1])


# ---- operators -------------------------------------------------------------------------------------------------------

_OPERANDS = (Tensor, bool, int, float, np.generic, np.ndarray)


def _operand(x: Any) -> Any:
    return creation.from_numpy(x) if isinstance(x, np.ndarray) and x.ndim else x


def _operator(function: Callable[..., Tensor], name: str, reflected: bool = False) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        other = _operand(other)
        return function(other, self) if reflected else function(self, other)

    method.__name__ = method.__qualname__ = name
    return method


def _inplace_operator(function: Callable[..., Tensor], name: str) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        since = next_serial()
        return self._write(function(self, _operand(other))._read(), since)

    method.__name__ = method.__qualname__ = name
    return method


_BINARY = {
    "add": F.add,
    "sub": F.sub,
    "mul": F.mul,
    "truediv": F.div,
    "floordiv": F.floor_divide,
    "mod": F.remainder,
    "pow": F.pow,
    "matmul": F.matmul,
    "and": F.bitwise_and,
    "or": F.bitwise_or,
    "xor": F.bitwise_xor,
    "lshift": F.bitwise_left_shift,
    "rshift": F.bitwise_right_shift,
}
_COMPARE = {"eq": F.eq, "ne": F.ne, "lt": F.lt, "le": F.le, "gt": F.gt, "ge": F.ge}


def _new_like(self: Tensor, *data: Any) -> Tensor:
    """A tensor of this dtype, as old code asks for one: of sizes, uninitialised, or of the values of a sequence."""
    if len(data) == 1 and not isinstance(data[0], int):
        return creation.tensor(data[0], dtype=self.dtype)
    return creation.empty(*(data or (0,)), dtype=self.dtype)


def _install() -> None:
    for name in (*_POINTWISE, *_UNCHANGING, *_OTHERS):
        if name in _SOURCES:
            setattr(Tensor, name, _SOURCES[name])
    for name in (*_POINTWISE, *_INPLACE_OTHERS):
        setattr(Tensor, f"{name}_", _inplace(_SOURCES[name]))
    for name, function in _BINARY.items():
        setattr(Tensor, f"__{name}__", _operator(function, f"__{name}__"))
        setattr(Tensor, f"__r{name}__", _operator(function, f"__r{name}__", reflected=True))
        if name != "matmul":  # x @= y makes a new x, as in PyTorch
            setattr(Tensor, f"__i{name}__", _inplace_operator(function, f"__i{name}__"))
    for name, function in _COMPARE.items():
        setattr(Tensor, f"__{name}__", _operator(function, f"__{name}__"))
    for name, dtype in _CONVERSIONS.items():
        setattr(Tensor, name, _converter(dtype, name))
    for name in ("zeros", "ones", "empty", "full", "tensor"):
        setattr(Tensor, f"new_{name}", _new(getattr(creation, name), f"new_{name}"))
    Tensor.new = _new_like  # type: ignore[attr-defined]
    for method in (
        copy_,
        fill_,
        fill_diagonal_,
        zero_,
        bernoulli_,
        to,
        cpu,
        cuda,
        *(getattr(fillers, n) for n in fillers.__all__),
        *(getattr(reshaping, n) for n in reshaping.__all__),
    ):
        setattr(Tensor, method.__name__, method)
    for name, value in _SPECIAL.items():
        setattr(Tensor, name, value)


_CONVERSIONS = {
    "bool": bool_,
    "byte": uint8,
    "char": int8,
    "short": int16,
    "int": int32,
    "long": int64,
    "half": float16,
    "bfloat16": bfloat16,
    "float": float32,
    "double": float64,
}
_SPECIAL = {
    "__neg__": F.neg,
    "__pos__": F.positive,
    "__abs__": F.abs,
    "__invert__": F.bitwise_not,
    "__getitem__": indexing.getitem,
    "__setitem__": indexing.setitem,
    "__hash__": lambda self: id(self),
    "__contains__": lambda self, value: bool((self == value).any()),
    "type": type_,
    "type_as": lambda self, other: to(self, other.dtype),
    "T": property(full_transpose),
    "mT": property(matrix_transpose),
    "rsub": F.rsub,
    "is_nonzero": lambda self: bool(self),
    "real": property(F.real),
    "is_signed": lambda self: self.dtype.kind in "if",
    "polygamma": lambda self, n: F.polygamma(n, self),
    "polygamma_": lambda self, n: self._write(F.polygamma(n, self)._read()),
    "mH": property(matrix_transpose),
    "H": property(F.t),
    "sum_to_size": sum_to_size,
    "unfold": windows,
    "where": lambda self, condition, other: F.where(condition, self, other),
    "is_same_size": lambda self, other: self.shape == other.shape,
    "is_inference": lambda self: not mode.grad_enabled,
}
_install()
