"""Rows of a table by index, one by one or by the bag."""

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
        max_norm: rows that are looked up are first scaled down, in the table, to at most this norm_type-norm.
        scale_grad_by_freq: divide a row's gradient by how often the row is looked up in the call.
        sparse: changes nothing: gradients are dense.

    Raises:
        ValueError: padding_idx lies outside the table, or _weight has another shape.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if _weight is not None and tuple(_weight.shape) != (num_embeddings, embedding_dim):
            given = tuple(_weight.shape)
            raise ValueError(f"Embedding: _weight has shape {given}, expected {(num_embeddings, embedding_dim)}")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = _row(padding_idx, num_embeddings)
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        given = empty(num_embeddings, embedding_dim, device=device, dtype=dtype) if _weight is None else _weight
        self.weight = Parameter(given, requires_grad=not _freeze)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial distribution again."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An Embedding around a (rows, dim) table; frozen unless told otherwise."""
        if embeddings.dim() != 2:
            raise ValueError(f"the table must have 2 axes, not {embeddings.dim()}")
        options = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        return cls(*embeddings.shape, *options, _weight=embeddings, _freeze=freeze)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)

    def extra_repr(self) -> str:
        padding = f", padding_idx={self.padding_idx}" if self.padding_idx is not None else ""
        limit = f", max_norm={self.max_norm}" if self.max_norm is not None else ""
        kind = f", norm_type={self.norm_type}" if self.norm_type != 2 else ""
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}{limit}{kind}"


def _row(padding_idx: int | None, rows: int) -> int | None:
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise ValueError(f"padding_idx {padding_idx} lies outside a table of {rows} rows")
    return padding_idx % rows


class EmbeddingBag(Module):
    """Sums, means or maxima of rows of a table over bags of indices.

    Shapes: index (B, N), or (N,) with the bags' starts `offsets` (B,), to (B, embedding_dim); weight (num_embeddings,
    embedding_dim), first normal. An empty bag gives 0.

    Raises:
        ValueError: padding_idx outside the table, or a mode other than "sum", "mean", "max".
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"EmbeddingBag: mode must be sum, mean or max, not {mode!r}")
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.include_last_offset, self.padding_idx = include_last_offset, _row(padding_idx, num_embeddings)
        given = empty(num_embeddings, embedding_dim, device=device, dtype=dtype) if _weight is None else _weight
        self.weight = Parameter(given)
        if _weight is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial distribution again."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0.0

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        padding = f", padding_idx={self.padding_idx}" if self.padding_idx is not None else ""
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}, mode={self.mode!r}"
