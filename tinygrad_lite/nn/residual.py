"""Residual branches: where their norm stands, and how whole branches are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygrad_lite import randomness
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.norm import LayerNorm
from tinygrad_lite.tensor import Tensor

NORMS = ("pre", "post", "sandwich", "none")


def check_norm(layer: str, norm: str) -> None:
    """Raise ValueError for a place a norm cannot stand."""
    if norm not in NORMS:
        raise ValueError(f"{layer}: norm must be one of {', '.join(NORMS)}, not {norm!r}")


class DropPath(Module):
    """In training, zeroes whole examples with probability p and scales the rest by 1/(1-p). Huang et al. 2016.

    Shapes: (B, *) to the same. Stochastic depth, arXiv:1603.09382. Raises ValueError for p outside [0, 1).
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"DropPath: p must lie in [0, 1), not {p}")
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return input
        kept = randomness.rand(input.shape[0], *(1,) * (input.dim() - 1)) >= self.p
        return input * (kept.to(input.dtype) / (1 - self.p))

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Residual(Module):
    """x + F(x), the norm before F ("pre"), after the sum ("post"), on both sides of F ("sandwich"), or nowhere.

    Shapes: x (B, *, dim) to the same. Further arguments go to F. `scale` multiplies F's result; `drop_path` drops it.

    Raises:
        ValueError: another norm.
    """

    def __init__(
        self,
        branch: Module,
        dim: int,
        norm: str = "pre",
        norm_layer: Callable[[int], Module] = LayerNorm,
        drop_path: float = 0.0,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        check_norm("Residual", norm)
        self.norm_place, self.scale = norm, scale
        if norm != "none":
            self.norm = norm_layer(dim)
        if norm == "sandwich":
            self.norm_after = norm_layer(dim)
        self.branch = branch
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        before = self.norm_place in ("pre", "sandwich")
        y = self.branch(self.norm(x) if before else x, *args, **kwargs)
        if self.norm_place == "sandwich":
            y = self.norm_after(y)
        x = x + self.drop_path(y if self.scale == 1.0 else y * self.scale)
        return self.norm(x) if self.norm_place == "post" else x

    def extra_repr(self) -> str:
        return f"norm={self.norm_place}" + (f", scale={self.scale:g}" if self.scale != 1.0 else "")
