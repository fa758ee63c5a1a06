"""The dropout family: all act in training only."""

from __future__ import annotations

from tinygrad_lite import randomness
from tinygrad_lite.functional import dropouts
from tinygrad_lite.nn.module import Module
from tinygrad_lite.tensor import Tensor


def _probability(p: float) -> float:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return p


class _Dropout(Module):
    """A probability in [0, 1], and whether to write over the input."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p, self.inplace = _probability(p), inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """In training, zeroes elements with probability p and scales the rest by 1/(1-p); otherwise the identity.

    Srivastava et al. 2014. Raises ValueError for p outside [0, 1].
    """

    def forward(self, input: Tensor) -> Tensor:
        return dropouts.dropout(input, self.p, self.training, self.inplace)


class ClassicDropout(Module):
    """In training, zeroes elements with probability p and leaves the rest; otherwise multiplies all by 1 - p.

    The first form, whose evaluation pays for what training left unscaled. Srivastava et al. 2014, §4. Raises ValueError
    for p outside [0, 1].
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = _probability(p)

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return input * (1 - self.p)
        return input * (randomness.rand(*input.shape) >= self.p).to(input.dtype)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Dropout1d(_Dropout):
    """Dropout of whole channels of (N, C, L) or (C, L). Tompson et al. 2014, arXiv:1411.4280."""

    def forward(self, input: Tensor) -> Tensor:
        return dropouts.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Dropout of whole channels of (N, C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return dropouts.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        return dropouts.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout that keeps the mean and variance of SELU's results. Klambauer et al. 2017, arXiv:1706.02515."""

    def forward(self, input: Tensor) -> Tensor:
        return dropouts.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropout):
    """AlphaDropout of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        return dropouts.feature_alpha_dropout(input, self.p, self.training, self.inplace)
