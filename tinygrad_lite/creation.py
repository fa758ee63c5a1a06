"""Tensors from data, from values, and from random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_lite.device import check_device
from tinygrad_lite.functional.common import Scalar, as_dtype, node_of, sizes, unwrap, wrap
from tinygrad_lite.generator import Generator, default_generator
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.ir.types import DType, dtype_of, float32, float64, int64
from tinygrad_lite.ops import composite, create, movement, promote, random, reduce
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.leaf import constant

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "bernoulli",
    "empty",
    "empty_like",
    "eye",
    "from_numpy",
    "full",
    "full_like",
    "linspace",
    "multinomial",
    "normal",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "scalar_tensor",
    "tensor",
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
    if array.dtype.kind not in "buif":
        raise TypeError(f"cannot make a tensor of {type(data).__name__} data (NumPy dtype {array.dtype})")
    if wanted is None and not isinstance(data, np.ndarray | np.generic):
        if array.dtype == np.float64 and not _has_numpy(data):
            wanted = float32
        elif array.dtype.kind in "iu" and not _has_numpy(data):
            wanted = int64
    if wanted is None:
        empty_list = array.size == 0 and not isinstance(data, np.ndarray)
        wanted = float32 if empty_list else dtype_of(array.dtype)
    return np.ascontiguousarray(array.astype(wanted.numpy, copy=False)).reshape(array.shape)


def _plain(data: Any) -> Any:
    """Nested sequences with tensors in them as sequences of arrays."""
    if isinstance(data, list | tuple):
        return [_plain(x) for x in data] if any(isinstance(x, list | tuple | Tensor) for x in data) else data
    return data.detach().numpy() if isinstance(data, Tensor) else data


def _has_numpy(data: Any) -> bool:
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return isinstance(data, np.ndarray | np.generic | Tensor)


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


def legacy(data: tuple[Any, ...]) -> Node:
    """What `Tensor(*data)` makes: sizes, or a sequence to copy as float32."""
    if len(data) == 1 and not isinstance(data[0], int):
        return tensor(data[0], dtype=float32)._node
    return create.zeros(sizes(data) if data else (0,), float32)


# ---- from values ----------------------------------------------------------------------------------------------


def _made(node: Node, device: Any, requires_grad: bool) -> Tensor:
    check_device(device)
    return _leaf(node, requires_grad)


def zeros(*size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros, float32 by default."""
    return _made(create.zeros(sizes(size), as_dtype(dtype, float32)), device, requires_grad)


def ones(*size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones, float32 by default."""
    return _made(create.ones(sizes(size), as_dtype(dtype, float32)), device, requires_grad)


def empty(*size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor to be filled; it happens to hold zeros."""
    return zeros(*size, dtype=dtype, device=device, requires_grad=requires_grad)


def full(
    size: Sequence[int],
    fill_value: Scalar | Tensor,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """One value everywhere; the dtype defaults to the value's."""
    value, shape = unwrap(fill_value), sizes((size,))
    if not isinstance(value, Node):
        kind = as_dtype(dtype, promote.scalar_dtype(value))
        return _made(create.full(shape, kind.numpy.type(value).item(), kind), device, requires_grad)
    return _made(movement.expand(ew.cast(value, as_dtype(dtype, value.dtype)), shape), device, requires_grad)


def arange(
    start: Scalar,
    end: Scalar | None = None,
    step: Scalar = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, … before end; arange(n) counts from 0. int64 unless a float is given."""
    kind = None if dtype is None else as_dtype(dtype)
    return _made(create.arange(_number(start), _number(end), _number(step), kind), device, requires_grad)


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor | np.generic) else x


def linspace(
    start: Scalar,
    end: Scalar,
    steps: int,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` values from start to end, both included."""
    kind = as_dtype(dtype, float32)
    places = create.arange(0, steps, 1, float64)
    stride = (end - start) / (steps - 1) if steps > 1 else 0.0
    # From both ends, so that the last value is exact.
    forward = ew.add(ew.mul(places, stride), float(start))
    backward = ew.sub(float(end), ew.mul(ew.sub(float(steps - 1), places), stride))
    both = ew.where(ew.lt(places, steps / 2), forward, backward) if steps > 1 else forward
    return _made(ew.cast(both, kind), device, requires_grad)


def eye(
    n: int, m: int | None = None, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones on the diagonal of an (n, m) matrix."""
    rows = movement.unsqueeze(create.arange(n), 1)
    on = ew.eq(rows, create.arange(n if m is None else m))
    return _made(ew.cast(on, as_dtype(dtype, float32)), device, requires_grad)


def scalar_tensor(s: Scalar, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor, float32 by default."""
    return full((), s, dtype=as_dtype(dtype, float32), device=device, requires_grad=requires_grad)


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


# ---- from random numbers ----------------------------------------------------------------------------------------


def _source(generator: Generator | None) -> Generator:
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(f"generator must be a Generator, not {type(generator).__name__}")
    return generator or default_generator


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform in [0, 1)."""
    node = _source(generator).draw(random.uniform, sizes(size), as_dtype(dtype, float32))
    return _made(node, device, requires_grad)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Standard normal."""
    node = _source(generator).draw(random.normal, sizes(size), as_dtype(dtype, float32))
    return _made(node, device, requires_grad)


def rand_like(input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uniform in [0, 1), of another tensor's shape and dtype."""
    return rand(input.shape, dtype=as_dtype(dtype, input.dtype), device=device, requires_grad=requires_grad)


def randn_like(input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Standard normal, of another tensor's shape and dtype."""
    return randn(input.shape, dtype=as_dtype(dtype, input.dtype), device=device, requires_grad=requires_grad)


def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers in [low, high); `randint(high, size)` starts at 0."""
    if size is None:
        low, high, size = 0, low, high
    if not isinstance(high, int) or high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    shares = _source(generator).draw(random.uniform, sizes((size,)), float64)
    whole = ew.add(ew.cast(ew.floor(ew.mul(shares, float(high - low))), int64), low)
    return _made(ew.cast(whole, as_dtype(dtype, int64)), device, requires_grad)


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """0 … n - 1 in random order. Reads values."""
    keys = wrap(_source(generator).draw(random.uniform, (n,), float64))._values("randperm()")
    order = np.argsort(keys, kind="stable").astype(as_dtype(dtype, int64).numpy)
    return _made(leaf(order), device, requires_grad)


def normal(
    mean: float | Tensor = 0.0, std: float | Tensor = 1.0, size: Any = None, *, generator: Generator | None = None
) -> Tensor:
    """Normal numbers; the shape is `size`, or that of the tensors given."""
    given = [x for x in (mean, std) if isinstance(x, Tensor)]
    if size is None and not given:
        raise TypeError("normal() needs a size where mean and std are numbers")
    shape = sizes((size,)) if size is not None else ew.broadcast_shapes("normal", [tuple(x.shape) for x in given])
    node = _source(generator).draw(random.normal, shape, given[0].dtype if given else float32)
    return wrap(ew.add(ew.mul(node, unwrap(std)), unwrap(mean)))


def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that the element (or p) is, else 0, in the input's dtype."""
    chance = node_of(input, "input") if p is None else float(p)
    if isinstance(chance, Node) and chance.dtype.kind != "f":
        raise RuntimeError(f"bernoulli: expected a floating tensor of probabilities, got {chance.type}")
    seed, offset = _source(generator).take(input.numel())
    with mode.set(grad_enabled=False):
        mask = composite.bernoulli_mask(chance, seed, offset, input.shape)
        return wrap(ew.cast(mask, input.dtype))


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Indices drawn in proportion to the rows of `input`, (C,) to (n,) or (N, C) to (N, n), int64.

    The element with the largest p / E, E exponential, is found with probability proportional to p; the n largest are
    draws without replacement. Reads values unless n = 1 or `replacement`.

    Raises:
        RuntimeError: not floating, negative or all-zero probabilities, more samples than categories.
    """
    weights = node_of(input, "input")
    if weights.type.ndim not in (1, 2) or weights.dtype.kind != "f":
        raise RuntimeError(f"multinomial: probabilities must be a floating tensor of 1 or 2 axes, got {weights.type}")
    if num_samples < 1 or (not replacement and num_samples > weights.shape[-1]):
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement, nor less than 1")
    if weights.value is not None:
        _check_probabilities(weights.value)
    draws = num_samples if replacement else 1
    shape = (*weights.shape[:-1], draws, weights.shape[-1])
    with mode.set(grad_enabled=False):
        share = _source(generator).draw(random.uniform, shape, float64)
        wait = ew.neg(ew.log(ew.sub(1.0, share)))
        scores = ew.div(movement.unsqueeze(ew.cast(weights, float64), -2), wait)
        if replacement or num_samples == 1:
            return wrap(reduce.argmax(scores, -1))
        ranked = np.argsort(-wrap(movement.squeeze(scores, -2))._values("multinomial()"), axis=-1, kind="stable")
        return wrap(leaf(np.ascontiguousarray(ranked[..., :num_samples])))


def _check_probabilities(weights: np.ndarray[Any, Any]) -> None:
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if (weights.sum(-1) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
