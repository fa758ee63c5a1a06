"""Initial distributions, after torch.nn.init: each fills its tensor in place, without gradient, and returns it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinygrad_lite.autograd import no_grad
from tinygrad_lite.ops.later import special
from tinygrad_lite.tensor import Tensor, as_tensor, float64, rand, randn

_GAINS = {"tanh": 5 / 3, "relu": math.sqrt(2.0), "selu": 0.75}
_LINEAR = ("linear", "sigmoid", *(f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance through a nonlinearity; `param` is leaky_relu's negative slope (0.01).

    Raises:
        ValueError: an unknown nonlinearity.
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity not in _GAINS:
        raise ValueError(f"no gain is known for the nonlinearity {nonlinearity!r}")
    return _GAINS[nonlinearity]


def _fans(tensor: Tensor) -> tuple[int, int]:
    """Inputs and outputs of a (out, in, *window) weight."""
    if tensor.dim() < 2:
        raise ValueError(f"fan in and fan out need at least 2 axes, the tensor has {tensor.dim()}")
    window = math.prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window


class _Drawing(threading.local):
    """Whether random initialisers draw."""

    enabled = True


_drawing = _Drawing()


@contextmanager
def skip_random() -> Iterator[None]:
    """Within, random initialisers leave their tensors as they are: for models about to be filled by other means."""
    before, _drawing.enabled = _drawing.enabled, False
    try:
        yield
    finally:
        _drawing.enabled = before


def _draw(tensor: Tensor, values: Callable[[], Any]) -> Tensor:
    return _fill(tensor, values()) if _drawing.enabled else tensor


def _fill(tensor: Tensor, values: Any) -> Tensor:
    with no_grad():
        tensor.copy_(values if isinstance(values, Tensor) else as_tensor(np.asarray(values)))
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Uniform in [a, b)."""
    return _draw(tensor, lambda: rand(*tensor.shape, dtype=tensor.dtype) * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal with the given mean and standard deviation."""
    return _draw(tensor, lambda: randn(*tensor.shape, dtype=tensor.dtype) * std + mean)


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Normal restricted to [a, b], by the inverse of its distribution function."""
    low, high = special.ndtr((a - mean) / std), special.ndtr((b - mean) / std)

    def values() -> np.ndarray[Any, Any]:
        uniform = rand(*tensor.shape, dtype=float64).numpy()
        return np.clip(special.ndtri(low + uniform * (high - low)) * std + mean, a, b)

    return _draw(tensor, values)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    return _fill(tensor, np.full(tuple(tensor.shape), val))


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix. Raises ValueError for other ranks."""
    if tensor.dim() != 2:
        raise ValueError(f"eye_ fills matrices, not tensors with {tensor.dim()} axes")
    return _fill(tensor, np.eye(*tensor.shape))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Uniform with variance gain² · 2 / (fan in + fan out). Glorot & Bengio 2010."""
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal with variance gain² · 2 / (fan in + fan out). Glorot & Bengio 2010."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))))


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode must be 'fan_in' or 'fan_out', not {mode!r}")
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Uniform with variance gain² / fan. He et al. 2015, arXiv:1502.01852."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Normal with variance gain² / fan. He et al. 2015, arXiv:1502.01852."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Orthonormal rows or columns (the fewer of the two), trailing axes as one. Saxe et al. 2013, arXiv:1312.6120."""
    if tensor.dim() < 2:
        raise ValueError(f"orthogonal_ needs at least 2 axes, the tensor has {tensor.dim()}")
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])

    def values() -> np.ndarray[Any, Any]:
        q, r = np.linalg.qr(randn(max(rows, columns), min(rows, columns), dtype=float64).numpy())
        q *= np.sign(np.diag(r))  # makes the distribution uniform over orthogonal matrices
        return gain * (q if rows >= columns else q.T).reshape(tuple(tensor.shape))

    return _draw(tensor, values)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight (out, in, *window) that passes on its input, as many channels as there are, in each group.

    Raises:
        ValueError: another number of axes than 3, 4 or 5; out channels not divisible by groups.
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(f"dirac_ fills tensors with 3, 4 or 5 axes, not with {tensor.dim()}")
    if groups < 1 or tensor.shape[0] % groups:
        raise ValueError(f"dirac_: {tensor.shape[0]} out channels are not divisible by groups={groups}")
    values = np.zeros(tuple(tensor.shape))
    each, middle = tensor.shape[0] // groups, tuple(n // 2 for n in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(each, tensor.shape[1])):
            values[(group * each + channel, channel, *middle)] = 1.0
    return _fill(tensor, values)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01) -> Tensor:
    """Normal with mean 0, but the share `sparsity` of each column, rounded up, is 0. Martens 2010.

    Raises:
        ValueError: not a matrix; sparsity outside [0, 1].
    """
    if tensor.dim() != 2:
        raise ValueError(f"sparse_ fills matrices, not tensors with {tensor.dim()} axes")
    if not 0 <= sparsity <= 1:
        raise ValueError(f"sparse_: sparsity must lie in [0, 1], not {sparsity}")
    rows, columns = tensor.shape

    def values() -> np.ndarray[Any, Any]:
        rank = rand(rows, columns, dtype=float64).numpy().argsort(0).argsort(0)  # of each column's rows, at random
        drawn = (randn(rows, columns, dtype=float64) * std).numpy()
        return np.where(rank < math.ceil(sparsity * rows), 0.0, drawn)

    return _draw(tensor, values)


def lecun_uniform_(tensor: Tensor) -> Tensor:
    """Uniform with variance 1 / fan in, for SELU. LeCun et al. 1998."""
    bound = math.sqrt(3.0 / _fans(tensor)[0])
    return uniform_(tensor, -bound, bound)


def lecun_normal_(tensor: Tensor) -> Tensor:
    """Normal with variance 1 / fan in, for SELU. LeCun et al. 1998."""
    return normal_(tensor, 0.0, 1.0 / math.sqrt(_fans(tensor)[0]))


# The last parts of the names of weights that end a residual branch.
RESIDUAL_ENDS = ("proj", "out_proj", "o_proj", "down_proj", "linear2", "c_proj")


def gpt2_(module: Any, layers: int, std: float = 0.02, ends: tuple[str, ...] = RESIDUAL_ENDS) -> Any:
    """GPT-2's scheme over a module: matrices normal, biases 0, those that end a branch scaled by 1 / sqrt(2 layers).

    A matrix ends a branch where its layer's name is one of `ends`. Vectors that are no bias (gains) are left alone.
    Radford et al. 2019, §2.3. Returns the module.
    """
    for name, p in module.named_parameters():
        path, _, leaf = name.rpartition(".")
        if p.dim() > 1:
            normal_(p, std=std / math.sqrt(2 * layers) if path.rpartition(".")[2] in ends else std)
        elif leaf.endswith("bias"):
            zeros_(p)
    return module


def apply_(module: Any, scheme: Callable[[Tensor], Tensor]) -> Any:
    """`scheme` on every weight of two axes or more, zeros in every bias; returns the module."""
    for name, p in module.named_parameters():
        if p.dim() > 1:
            scheme(p)
        elif name.endswith("bias"):
            zeros_(p)
    return module
