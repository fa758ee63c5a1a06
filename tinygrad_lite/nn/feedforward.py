"""Position-wise feed-forward layers: two matrices, or three with a gate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygrad_lite.nn import functional as F
from tinygrad_lite.nn.dropout import Dropout
from tinygrad_lite.nn.linear import Linear
from tinygrad_lite.nn.module import Module
from tinygrad_lite.tensor import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "tanh": F.tanh,
    "sigmoid": F.sigmoid,
    "leaky_relu": F.leaky_relu,
    "identity": lambda x: x,
}


def activation(name: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The function of a name, or the function itself. Raises ValueError listing the names."""
    if callable(name):
        return name
    if name not in ACTIVATIONS:
        raise ValueError(f"no activation is called {name!r}; there are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def gated_width(dim: int, multiple: int = 256) -> int:
    """8/3 · dim rounded up to a multiple: three matrices then weigh what two of 4 · dim do."""
    return -(-8 * dim // (3 * multiple)) * multiple


class FeedForward(Module):
    """down(φ(up(x))). Shapes: (*, dim) to the same; d_ff defaults to 4 · dim."""

    def __init__(
        self,
        dim: int,
        d_ff: int | None = None,
        activation: str | Callable[[Tensor], Tensor] = "gelu",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dim, self.d_ff = dim, 4 * dim if d_ff is None else d_ff
        self.activation = activation
        self.up_proj = Linear(dim, self.d_ff, bias=bias)
        self.down_proj = Linear(self.d_ff, dim, bias=bias)
        self.drop = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.drop(activation(self.activation)(self.up_proj(x))))


class GatedFeedForward(Module):
    """down(φ(gate(x)) · up(x)). Shazeer 2020, arXiv:2002.05202.

    Shapes: (*, dim) to the same; d_ff defaults to 8/3 · dim rounded up to `multiple`.
    """

    def __init__(
        self,
        dim: int,
        d_ff: int | None = None,
        activation: str | Callable[[Tensor], Tensor] = "silu",
        bias: bool = False,
        dropout: float = 0.0,
        multiple: int = 256,
    ) -> None:
        super().__init__()
        self.dim, self.d_ff = dim, gated_width(dim, multiple) if d_ff is None else d_ff
        self.activation = activation
        self.gate_proj = Linear(dim, self.d_ff, bias=bias)
        self.up_proj = Linear(dim, self.d_ff, bias=bias)
        self.down_proj = Linear(self.d_ff, dim, bias=bias)
        self.drop = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.drop(activation(self.activation)(self.gate_proj(x)) * self.up_proj(x)))


class SwiGLU(GatedFeedForward):
    """A feed-forward gated by SiLU."""

    def __init__(self, dim: int, d_ff: int | None = None, **options: Any) -> None:
        super().__init__(dim, d_ff, "silu", **options)


class GeGLU(GatedFeedForward):
    """A feed-forward gated by GELU."""

    def __init__(self, dim: int, d_ff: int | None = None, **options: Any) -> None:
        super().__init__(dim, d_ff, "gelu", **options)
