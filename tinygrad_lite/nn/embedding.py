"""Embedding: rows of a table by index."""

from __future__ import annotations

from typing import Any

from tinygrad_lite import functional as F
from tinygrad_lite.autograd import no_grad
from tinygrad_lite.nn import init
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.parameter import Parameter
from tinygrad_lite.tensor import Tensor, empty


class Embedding(Module):
    """weight[index].

    Shapes: index (*) of integers to (*, embedding_dim); weight (num_embeddings, embedding_dim), first normal.

    Args:
        padding_idx: a row that starts at zero and gets no gradient.

    Raises:
        ValueError: padding_idx lies outside the table.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = _row(padding_idx, num_embeddings)
        self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial distribution again."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None) -> Embedding:
        """An Embedding around a (rows, dim) table; frozen unless told otherwise."""
        if embeddings.dim() != 2:
            raise ValueError(f"the table must have 2 axes, not {embeddings.dim()}")
        rows, width = embeddings.shape
        with init.skip_random():
            layer = cls(rows, width, padding_idx)
        layer.weight = Parameter(embeddings, requires_grad=not freeze)
        return layer

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = f", padding_idx={self.padding_idx}" if self.padding_idx is not None else ""
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


def _row(padding_idx: int | None, rows: int) -> int | None:
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise ValueError(f"padding_idx {padding_idx} lies outside a table of {rows} rows")
    return padding_idx % rows
