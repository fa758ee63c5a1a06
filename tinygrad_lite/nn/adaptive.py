"""Norms whose gain and bias a condition gives: adaptive layer norm and group norm."""

from __future__ import annotations

from typing import Any

from tinygrad_lite.nn import functional as F
from tinygrad_lite.nn import init
from tinygrad_lite.nn.linear import Linear
from tinygrad_lite.nn.module import Module
from tinygrad_lite.tensor import Tensor


class _Adaptive(Module):
    """norm(x) · (1 + gain(condition)) + bias(condition); the projection starts at zero, so at first a plain norm."""

    def __init__(self, channels: int, cond_dim: int, eps: float) -> None:
        super().__init__()
        self.channels, self.cond_dim, self.eps = channels, cond_dim, eps
        self.proj = Linear(cond_dim, 2 * channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The projection to zero."""
        init.zeros_(self.proj.weight)
        init.zeros_(self.proj.bias)

    def _modulation(self, cond: Tensor, batch: int) -> tuple[Tensor, Tensor]:
        if tuple(cond.shape) != (batch, self.cond_dim):
            name, given = type(self).__name__, tuple(cond.shape)
            raise ValueError(f"{name}: the condition has shape {given}, expected {(batch, self.cond_dim)}")
        gain, bias = self.proj(cond).chunk(2, dim=-1)
        return gain, bias


class AdaLayerNorm(_Adaptive):
    """Layer norm over the last axis, gain and bias from a condition. Peebles & Xie 2022, arXiv:2212.09748.

    Shapes: x (B, *, dim), cond (B, cond_dim) to (B, *, dim).
    """

    def __init__(self, dim: int, cond_dim: int, eps: float = 1e-5) -> None:
        super().__init__(dim, cond_dim, eps)

    def forward(self, x: Tensor, cond: Tensor) -> Tensor:
        gain, bias = self._modulation(cond, x.shape[0])
        between = (1,) * (x.dim() - 2)
        gain, bias = (p.reshape(x.shape[0], *between, self.channels) for p in (gain, bias))
        return F.layer_norm(x, (self.channels,), eps=self.eps) * (1 + gain) + bias

    def extra_repr(self) -> str:
        return f"{self.channels}, {self.cond_dim}, eps={self.eps}"


class AdaGroupNorm(_Adaptive):
    """Group norm, gain and bias from a condition. Dhariwal & Nichol 2021, arXiv:2105.05233.

    Shapes: x (B, channels, *), cond (B, cond_dim) to (B, channels, *).
    """

    def __init__(self, num_groups: int, channels: int, cond_dim: int, eps: float = 1e-5) -> None:
        if num_groups < 1 or channels % num_groups:
            raise ValueError(f"AdaGroupNorm: num_groups {num_groups} does not divide channels {channels}")
        super().__init__(channels, cond_dim, eps)
        self.num_groups = num_groups

    def forward(self, x: Tensor, cond: Tensor) -> Tensor:
        gain, bias = self._modulation(cond, x.shape[0])
        after = (1,) * (x.dim() - 2)
        gain, bias = (p.reshape(x.shape[0], self.channels, *after) for p in (gain, bias))
        return F.group_norm(x, self.num_groups, eps=self.eps) * (1 + gain) + bias

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.channels}, {self.cond_dim}, eps={self.eps}"


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """x (1 + scale) + shift, for x (B, T, dim) and shift and scale (B, dim): DiT's conditioning."""
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


AdaLN, AdaGN = AdaLayerNorm, AdaGroupNorm
__all__: list[Any] = ["AdaGN", "AdaGroupNorm", "AdaLN", "AdaLayerNorm", "modulate"]
