"""Tensors from data, from values, and from random numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_lite.device import check_device
from tinygrad_lite.functional.common import Scalar, as_dtype, node_of, sizes, unwrap, wrap
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.ir.types import DType, bfloat16, converted, dtype_of, filling, float32, float64, int64, limits
from tinygrad_lite.ops import create, movement, promote
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.leaf import constant
from tinygrad_lite.ops.promote import get_default_dtype

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "bartlett_window",
    "blackman_window",
    "empty",
    "empty_like",
    "empty_strided",
    "eye",
    "from_numpy",
    "full",
    "full_like",
    "hamming_window",
    "hann_window",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "scalar_tensor",
    "tensor",
    "vander",
    "zeros",
    "zeros_like",
]

# ---- from data ----------------------------------------------------------------------------------------------

_SMALL = 64  # Python numbers that a capture keeps as a constant of the graph


def tensor(data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A copy of numbers, nested sequences, an array or a tensor.

    Python floats become float32, integers int64; arrays and NumPy scalars keep their dtype.

    Raises:
        TypeError: elements that are not numbers. ValueError: sequences of unequal length.
    """
    check_device(device)
    if isinstance(data, Tensor):
        node = ew.cast(data.detach().clone()._read(), as_dtype(dtype, data.dtype))
        return _leaf(node, requires_grad)
    array = _to_array(data, dtype)
    plain = not isinstance(data, np.ndarray | np.generic)
    if mode.trace is not None and plain and array.size <= _SMALL:
        return _leaf(constant(array, dtype_of(array.dtype)), requires_grad)
    return _leaf(leaf(array), requires_grad)


def _leaf(node: Node, requires_grad: bool) -> Tensor:
    out = wrap(node)
    return out.requires_grad_() if requires_grad else out


def _to_array(data: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    wanted = None if dtype is None else as_dtype(dtype)
    array = np.array(_plain(data))
    if array.dtype.kind not in "buif" and array.dtype != bfloat16.numpy:
        raise TypeError(f"cannot make a tensor of {type(data).__name__} data (NumPy dtype {array.dtype})")
    wanted = _promoted(data) if wanted is None else wanted
    if wanted is None and not isinstance(data, np.ndarray | np.generic):
        if array.dtype == np.float64 and not _has_numpy(data):
            wanted = get_default_dtype()
        elif array.dtype.kind in "iu" and not _has_numpy(data):
            wanted = int64
    if wanted is None:
        empty_list = array.size == 0 and not isinstance(data, np.ndarray)
        wanted = get_default_dtype() if empty_list else dtype_of(array.dtype)
    array = array if array.dtype == wanted.numpy else _converted(array, wanted, data)
    return np.ascontiguousarray(array).reshape(array.shape)


def _converted(array: np.ndarray[Any, Any], wanted: DType, data: Any) -> np.ndarray[Any, Any]:
    """RuntimeError for Python integers that the dtype does not hold."""
    if wanted.kind in "iu" and array.dtype.kind in "iu" and array.size and not _has_numpy(data):
        info = limits(wanted)
        least = -info.max if wanted.kind == "u" else info.min  # small negative numbers wrap around
        if int(array.min()) < least or int(array.max()) > info.max:
            raise RuntimeError(f"value cannot be converted to type {wanted.name} without overflow")
    return converted(array, wanted)


def _plain(data: Any) -> Any:
    """Nested sequences with tensors in them as sequences of arrays."""
    if isinstance(data, list | tuple):
        return [_plain(x) for x in data] if any(isinstance(x, list | tuple | Tensor) for x in data) else data
    return data.detach().numpy() if isinstance(data, Tensor) else data


def _has_numpy(data: Any) -> bool:
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return isinstance(data, np.ndarray | np.generic)


def _promoted(data: Any) -> DType | None:
    """The dtype of nested sequences with tensors in them: that of all elements together. None without tensors."""
    if isinstance(data, Tensor):
        return data.dtype
    if not isinstance(data, list | tuple):
        return None
    found = [_promoted(x) for x in data]
    if not any(found):
        return None
    others = [promote.scalar_dtype(x) for x in data if isinstance(x, bool | int | float)]
    return functools.reduce(promote.promote_types, [t for t in found if t] + others)


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """The tensor itself, or one that shares an array's memory where the dtype allows it, else a copy."""
    check_device(device)
    if isinstance(data, Tensor):
        return data if dtype is None or data.dtype is as_dtype(dtype) else wrap(ew.cast(data._read(), as_dtype(dtype)))
    if isinstance(data, np.ndarray) and (dtype is None or data.dtype == as_dtype(dtype).numpy):
        return from_numpy(data)
    return tensor(data, dtype=dtype)


asarray = as_tensor


def from_numpy(ndarray: np.ndarray[Any, Any]) -> Tensor:
    """A tensor that reads the array's memory: later changes of the array show, in-place changes of the tensor may not.

    Raises:
        TypeError: not an array, or of a dtype without counterpart.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dtype_of(ndarray.dtype)
    return wrap(leaf(ndarray))


def legacy(data: tuple[Any, ...], dtype: DType = float32) -> Node:
    """What `Tensor(*data)` and `LongTensor(*data)` make: zeros of the sizes, or a copy of a sequence."""
    if len(data) == 1 and not isinstance(data[0], int):
        return tensor(data[0], dtype=dtype)._node
    return create.zeros(sizes(data) if data else (0,), dtype)


# ---- from values ----------------------------------------------------------------------------------------------


def _made(node: Node, device: Any, requires_grad: bool) -> Tensor:
    check_device(device)
    return _leaf(node, requires_grad)


def zeros(
    *args: Any, size: Any = None, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros, float32 by default."""
    return _made(create.zeros(sizes(args, named=size), as_dtype(dtype, get_default_dtype())), device, requires_grad)


def ones(
    *args: Any, size: Any = None, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones, float32 by default."""
    return _made(create.ones(sizes(args, named=size), as_dtype(dtype, get_default_dtype())), device, requires_grad)


def empty(
    *args: Any, size: Any = None, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor to be filled; it happens to hold zeros."""
    return zeros(*args, size=size, dtype=dtype, device=device, requires_grad=requires_grad)


def full(
    size: Sequence[int],
    fill_value: Scalar | Tensor,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """One value everywhere; the dtype defaults to the value's."""
    if not isinstance(size, Sequence):
        raise TypeError(f"full(): size must be a sequence of integers, got {size!r}")
    value, shape = unwrap(fill_value), sizes((size,))
    if not isinstance(value, Node):
        kind = as_dtype(dtype, promote.scalar_dtype(value))
        return _made(create.full(shape, filling(value, kind), kind), device, requires_grad)
    return _made(movement.expand(ew.cast(value, as_dtype(dtype, value.dtype)), shape), device, requires_grad)


def arange(
    start: Scalar | None = None,
    end: Scalar | None = None,
    step: Scalar = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, … before end; arange(n) counts from 0. int64 unless a float is given."""
    if start is None:
        if end is None:
            raise TypeError("arange() needs an end")
        start = 0
    kind = None if dtype is None else as_dtype(dtype)
    numbers = [_number(x) for x in (start, end, step)]
    if kind is not None and kind.kind != "f":  # PyTorch counts in the dtype
        numbers = [int(x) if isinstance(x, float) and math.isfinite(x) else x for x in numbers]
    return _made(create.arange(*numbers, kind), device, requires_grad)


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor | np.generic) else x


def _number_of_steps(name: str, steps: int) -> int:
    if isinstance(steps, bool) or not hasattr(steps, "__index__"):
        raise TypeError(f"{name}: steps must be an integer, got {steps!r}")
    if steps < 0:
        raise RuntimeError(f"{name}: number of steps must be non-negative, got {steps}")
    return int(steps)


def _ends(start: Scalar | Tensor, end: Scalar | Tensor, dtype: DType) -> tuple[Any, Any]:
    a, b = _number(start), _number(end)
    return (a, b) if dtype.kind == "f" else (int(a), int(b))


def _line(start: Scalar, end: Scalar, steps: int) -> Node:
    """float64; from both ends, so that the last value is exact."""
    places = create.arange(0, steps, 1, float64)
    if steps < 2:
        return ew.add(places, float(start))
    stride = (end - start) / (steps - 1)
    forward = ew.add(ew.mul(places, stride), float(start))
    backward = ew.sub(float(end), ew.mul(ew.sub(float(steps - 1), places), stride))
    return ew.where(ew.lt(places, steps / 2), forward, backward)


def linspace(
    start: Scalar | Tensor,
    end: Scalar | Tensor,
    steps: int,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` values from start to end, both included; of an integer dtype both are cut to integers first.

    RuntimeError where steps < 0.
    """
    kind = as_dtype(dtype, get_default_dtype())
    line = _line(*_ends(start, end, kind), _number_of_steps("linspace", steps))
    return _made(ew.cast(line, kind), device, requires_grad)


def logspace(
    start: Scalar | Tensor,
    end: Scalar | Tensor,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """base ** linspace(start, end, steps); of an integer dtype start and end are cut to integers first. RuntimeError
    where steps < 0."""
    kind = as_dtype(dtype, get_default_dtype())
    line = _line(*_ends(start, end, kind), _number_of_steps("logspace", steps))
    powers = ew.power(ew.as_node(float(base), float64), line)
    return _made(ew.cast(powers, kind), device, requires_grad)


def eye(
    n: int, m: int | None = None, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones on the diagonal of an (n, m) matrix."""
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"eye: n and m must be greater or equal to 0, got {n} and {m}")
    rows = movement.unsqueeze(create.arange(n), 1)
    on = ew.eq(rows, create.arange(n if m is None else m))
    return _made(ew.cast(on, as_dtype(dtype, get_default_dtype())), device, requires_grad)


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """As `empty`: memory layouts are the library's own affair."""
    return empty(size, dtype=dtype, device=device, requires_grad=requires_grad)


def scalar_tensor(s: Scalar, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor, float32 by default."""
    return full((), s, dtype=as_dtype(dtype, get_default_dtype()), device=device, requires_grad=requires_grad)


def zeros_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Zeros of another tensor's shape and dtype."""
    node_of(input, "input")
    return zeros(input.shape, dtype=as_dtype(dtype, input.dtype), device=device, requires_grad=requires_grad)


def ones_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Ones of another tensor's shape and dtype."""
    node_of(input, "input")
    return ones(input.shape, dtype=as_dtype(dtype, input.dtype), device=device, requires_grad=requires_grad)


empty_like = zeros_like


def full_like(
    input: Tensor, fill_value: Scalar, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """One value in another tensor's shape and dtype."""
    node_of(input, "input")
    return full(input.shape, fill_value, dtype=as_dtype(dtype, input.dtype), device=device, requires_grad=requires_grad)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a vector's elements as columns, N of them (as many as elements), falling unless `increasing`."""
    node = node_of(x, "x")
    if node.type.ndim != 1:
        raise RuntimeError(f"vander: x must be a one-dimensional tensor, got {node.type}")
    count = node.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError(f"vander: N must be non-negative, got {count}")
    wide = ew.cast(node, int64) if node.dtype.kind in "bui" else node
    powers = create.arange(count) if increasing else ew.sub(count - 1, create.arange(count))
    return wrap(ew.power(movement.unsqueeze(wide, -1), ew.cast(powers, wide.dtype)))


def _window(name: str, length: int, periodic: bool, terms: Sequence[float], dtype: DType | None) -> Tensor:
    """Σ terms[k] cos(2πk i / n), n = length for periodic windows and length - 1 for symmetric ones."""
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    if length == 1:
        return ones(1, dtype=dtype)
    turn = ew.mul(create.arange(0, length, 1, float64), 2 * math.pi / max(1, length if periodic else length - 1))
    total = ew.add(ew.mul(turn, 0.0), terms[0])
    for k, term in enumerate(terms[1:], 1):
        total = ew.add(total, ew.mul(ew.cos(ew.mul(turn, float(k))), term))
    return wrap(ew.cast(total, as_dtype(dtype, get_default_dtype())))


def hann_window(window_length: int, periodic: bool = True, *, dtype: DType | None = None) -> Tensor:
    """(1 - cos 2πi/n) / 2."""
    return _window("hann_window", window_length, periodic, (0.5, -0.5), dtype)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: DType | None = None
) -> Tensor:
    """alpha - beta cos 2πi/n."""
    return _window("hamming_window", window_length, periodic, (alpha, -beta), dtype)


def blackman_window(window_length: int, periodic: bool = True, *, dtype: DType | None = None) -> Tensor:
    """0.42 - 0.5 cos 2πi/n + 0.08 cos 4πi/n."""
    return _window("blackman_window", window_length, periodic, (0.42, -0.5, 0.08), dtype)


def bartlett_window(window_length: int, periodic: bool = True, *, dtype: DType | None = None) -> Tensor:
    """1 - |2i/n - 1|, a triangle."""
    if window_length < 2:
        return _window("bartlett_window", window_length, periodic, (1.0,), dtype)
    n = window_length if periodic else window_length - 1
    places = ew.sub(ew.mul(create.arange(0, window_length, 1, float64), 2 / n), 1.0)
    return wrap(ew.cast(ew.sub(1.0, ew.abs(places)), as_dtype(dtype, get_default_dtype())))
