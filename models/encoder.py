"""A bidirectional transformer encoder, BERT's (Devlin et al. 2018, arXiv:1810.04805), and its heads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models.parts import check_probability, check_sizes, check_tokens
from tinygrad_lite.nn import functional as F
from tinygrad_lite.nn.attention import check_heads
from tinygrad_lite.tensor import Tensor


@dataclass(frozen=True)
class EncoderConfig:
    """The sizes of an encoder.

    Attributes:
        max_len: positions there are.
        types: kinds of segment a token may belong to (query or document).
        pad: the id of filler; None for none.
        norm: "post" (BERT's), "pre" or "sandwich"; the last two end in a norm.

    Raises:
        ValueError: a size below 1, heads that do not divide the width, a dropout outside [0, 1), another norm.
    """

    vocab_size: int = 30522
    max_len: int = 512
    layers: int = 12
    heads: int = 12
    width: int = 768
    d_ff: int = 3072
    types: int = 2
    dropout: float = 0.1
    eps: float = 1e-12
    pad: int | None = 0
    norm: str = "post"

    def __post_init__(self) -> None:
        check_sizes(self, "vocab_size", "max_len", "layers", "heads", "width", "d_ff", "types")
        check_heads("EncoderConfig", self.width, self.heads, ("width", "heads"))
        check_probability(self, "dropout")
        if self.norm not in ("post", "pre", "sandwich"):
            raise ValueError(f"EncoderConfig: norm must be post, pre or sandwich, not {self.norm!r}")


PRESETS = {
    "encoder-tiny": EncoderConfig(13, 12, 2, 2, 16, 32, dropout=0.0),
    "bert-base": EncoderConfig(),
    "bert-large": EncoderConfig(layers=24, heads=16, width=1024, d_ff=4096),
}


class Encoder(nn.Module):
    """One vector a token, each from all tokens. Shapes: ids (B, T) to (B, T, width).

    Filler (`pad`) is seen by nobody. Weights start normal with standard deviation 0.02.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.tokens = nn.Embedding(config.vocab_size, width, padding_idx=config.pad)
        self.positions = nn.Embedding(config.max_len, width)
        self.types = nn.Embedding(config.types, width)
        self.norm = nn.LayerNorm(width, config.eps)
        self.drop = nn.Dropout(config.dropout)
        layer = nn.TransformerEncoderLayer(
            width,
            config.heads,
            config.d_ff,
            config.dropout,
            "gelu",
            config.eps,
            batch_first=True,
            norm_first=config.norm != "post",
            sandwich=config.norm == "sandwich",
        )
        final = None if config.norm == "post" else nn.LayerNorm(width, config.eps)
        self.stack = nn.TransformerEncoder(layer, config.layers, final)
        nn.init.gpt2_(self, config.layers, ends=())

    def forward(self, ids: Tensor, types: Tensor | None = None, padding: Tensor | None = None) -> Tensor:
        """Vectors of ids; `types` (B, T) of segments, else 0; `padding` (B, T) True at filler, else where `pad` is."""
        T = check_tokens(ids, self.config.max_len, "Encoder", "max_len")
        if types is not None and types.shape != ids.shape:
            raise ValueError(f"Encoder: types have shape {tuple(types.shape)}, the ids {tuple(ids.shape)}")
        x = self.tokens(ids) + self.positions(tl.arange(T))
        x = x + (self.types.weight[0] if types is None else self.types(types))
        return self.stack(
            self.drop(self.norm(x)), src_key_padding_mask=self.padding(ids) if padding is None else padding
        )

    def padding(self, ids: Tensor) -> Tensor:
        """Where ids are filler."""
        return tl.zeros_like(ids, dtype=tl.bool) if self.config.pad is None else ids == self.config.pad

    def pooled(self, ids: Tensor, types: Tensor | None = None, pool: str = "mean") -> Tensor:
        """(B, width): the first token's vector ("cls"), or the mean over what is no filler ("mean")."""
        x = self(ids, types)
        if pool == "cls":
            return x[:, 0]
        if pool != "mean":
            raise ValueError(f"Encoder: pool must be 'cls' or 'mean', not {pool!r}")
        kept = (~self.padding(ids)).to(x.dtype).unsqueeze(-1)
        return (x * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1.0)


class MaskedLM(nn.Module):
    """The encoder with a head that names hidden tokens; the output matrix is the embedding's."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.transform = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width, config.eps)
        self.head = nn.Linear(config.width, config.vocab_size)
        nn.init.normal_(self.transform.weight, std=0.02)
        for bias in (self.transform.bias, self.head.bias):
            nn.init.zeros_(bias)
        self.head.weight = self.encoder.tokens.weight

    def forward(
        self, ids: Tensor, targets: Tensor | None = None, types: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Logits (B, T, vocab_size), and the mean cross-entropy over targets other than -100."""
        x = self.norm(F.gelu(self.transform(self.encoder(ids, types))))
        logits = self.head(x)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def mask_tokens(
    ids: Any, mask: int, vocab_size: int, p: float = 0.15, seed: int = 0, keep: tuple[int, ...] = (0,)
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Ids with a part p hidden, and targets: the hidden ids there, -100 elsewhere. Devlin et al. 2018, §3.1.

    Of the hidden 80 % become `mask`, 10 % a random id, 10 % stay. Ids in `keep` are never hidden.
    """
    ids = np.array(ids.numpy() if isinstance(ids, Tensor) else ids)
    rng = np.random.default_rng(seed)
    hidden = (rng.random(ids.shape) < p) & ~np.isin(ids, keep)
    targets = np.where(hidden, ids, -100)
    fate = rng.random(ids.shape)
    ids = np.where(hidden & (fate < 0.8), mask, ids)
    drawn = rng.integers(0, vocab_size, ids.shape)
    return np.where(hidden & (fate >= 0.9), drawn, ids), targets


class SequenceClassifier(nn.Module):
    """The encoder, its pooled vector, BERT's tanh layer ("cls"), class scores. Shapes: ids (B, T) to (B, classes)."""

    def __init__(self, config: EncoderConfig, num_classes: int, pool: str = "cls") -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.pool = pool
        self.pooler = nn.Linear(config.width, config.width) if pool == "cls" else nn.Identity()
        self.drop = nn.Dropout(config.dropout)
        self.head = nn.Linear(config.width, num_classes)
        nn.init.gpt2_(self, config.layers, ends=())

    def forward(self, ids: Tensor, types: Tensor | None = None) -> Tensor:
        x = self.pooler(self.encoder.pooled(ids, types, self.pool))
        return self.head(self.drop(x.tanh() if self.pool == "cls" else x))


class Retriever(nn.Module):
    """Unit vectors of texts, compared by their cosine. Shapes: ids (B, T) to (B, width)."""

    def __init__(self, config: EncoderConfig, pool: str = "mean") -> None:
        super().__init__()
        self.encoder, self.pool = Encoder(config), pool

    def forward(self, ids: Tensor) -> Tensor:
        return F.normalize(self.encoder.pooled(ids, pool=self.pool), dim=-1)

    def loss(self, queries: Tensor, documents: Tensor, temperature: float = 0.05) -> Tensor:
        """Cross-entropy of picking each query's own document among the batch's. Karpukhin et al. 2020."""
        scores = self(queries) @ self(documents).transpose(0, 1) / temperature
        return F.cross_entropy(scores, tl.arange(queries.shape[0]))


class CrossEncoder(nn.Module):
    """One score of a query and a document read together. Shapes: (B, Tq) and (B, Td) ids to (B,)."""

    def __init__(self, config: EncoderConfig, pool: str = "cls") -> None:
        super().__init__()
        self.encoder, self.pool = Encoder(config), pool
        self.head = nn.Linear(config.width, 1)

    def forward(self, queries: Tensor, documents: Tensor) -> Tensor:
        ids = tl.cat([queries, documents], dim=1)
        types = tl.cat([tl.zeros_like(queries), tl.ones_like(documents)], dim=1)
        return self.head(self.encoder.pooled(ids, types, self.pool)).squeeze(-1)


def preset(name: str, **overrides: Any) -> MaskedLM:
    """The masked-language model of a preset's name, some fields of its configuration replaced."""
    return MaskedLM(replace(PRESETS[name], **overrides))
