"""Dropout."""

from __future__ import annotations

from tinygrad_lite import functional as F
from tinygrad_lite.nn.module import Module
from tinygrad_lite.tensor import Tensor


class Dropout(Module):
    """In training, zeroes elements with probability p and scales the rest by 1/(1-p); otherwise the identity.

    Srivastava et al. 2014. Raises ValueError for p outside [0, 1].
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"the dropout probability must lie in [0, 1], not {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
