"""Softmax over many classes in clusters by their frequency. Grave et al. 2016, arXiv:1609.04309."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tinygrad_lite import functional
from tinygrad_lite.nn import functional as F
from tinygrad_lite.nn.containers import ModuleList, Sequential
from tinygrad_lite.nn.linear import Linear
from tinygrad_lite.nn.module import Module
from tinygrad_lite.tensor import Tensor


class ASMOutput(NamedTuple):
    """Each target's log-probability (N,) or (), and the mean of their negatives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes up to cutoffs[0] in a head, the rarer ones in clusters of smaller projections.

    Shapes: input (N, in_features) or (in_features,), target (N,) or (). `log_prob` gives all (N, n_classes). Every
    cluster is computed for every row: shapes do not depend on values, so that a step compiles.

    Args:
        cutoffs: ascending first classes of the clusters, below n_classes.
        div_value: cluster i projects to in_features / div_value^(i + 1).

    Raises:
        ValueError: cutoffs that are not ascending, distinct, positive and below n_classes.
        RuntimeError: shapes that do not fit. An index error for a target outside the classes.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        given = list(cutoffs)
        ascending = given == sorted(set(given)) and all(int(c) == c for c in given)
        if not given or not ascending or given[0] <= 0 or given[-1] > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                f"where each value is between 1 and n_classes-1, got {given} and n_classes {n_classes}"
            )
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*given, n_classes]
        self.shortlist_size, self.n_clusters = given[0], len(given)
        self.head_size = self.shortlist_size + self.n_clusters
        made = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList([self._cluster(i, made) for i in range(self.n_clusters)])

    def _cluster(self, i: int, made: dict[str, object]) -> Sequential:
        narrow = int(self.in_features // self.div_value ** (i + 1))
        size = self.cutoffs[i + 1] - self.cutoffs[i]
        return Sequential(
            Linear(self.in_features, narrow, bias=False, **made), Linear(narrow, size, bias=False, **made)
        )

    def reset_parameters(self) -> None:
        """Draw the weights again."""
        for layer in (self.head, *(part for cluster in self.tail for part in cluster)):
            layer.reset_parameters()

    def forward(self, input: Tensor, target_: Tensor) -> ASMOutput:
        if input.dim() not in (1, 2) or tuple(input.shape[:-1]) != tuple(target_.shape):
            shapes = f"{list(input.shape)} and {list(target_.shape)}"
            raise RuntimeError(f"Input and target should have the same size in the batch dimension, got {shapes}")
        x, target = (input, target_) if input.dim() == 2 else (input.unsqueeze(0), target_.unsqueeze(0))
        output = self.log_prob(x).gather(1, target.unsqueeze(1)).squeeze(1)
        loss = -output.mean()
        return ASMOutput(output if input.dim() == 2 else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes, (N, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            whole = head[:, self.shortlist_size + i].unsqueeze(1)
            parts.append(F.log_softmax(cluster(input), dim=1) + whole)
        return functional.cat(parts, dim=1)

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class of each row, (N,)."""
        return self.log_prob(input).argmax(dim=1)
