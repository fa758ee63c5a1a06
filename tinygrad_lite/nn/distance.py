"""Distances and similarities."""

from __future__ import annotations

from tinygrad_lite.functional import distances
from tinygrad_lite.nn.module import Module
from tinygrad_lite.tensor import Tensor


class CosineSimilarity(Module):
    """x1 · x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim`."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return distances.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The norm of order p of x1 - x2 + eps along the last axis."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return distances.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
