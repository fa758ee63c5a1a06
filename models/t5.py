"""An encoder–decoder after T5 (Raffel et al. 2020, arXiv:1910.10683): the source is encoded once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models.parts import check_probability, check_sizes, check_tokens, next_token_loss
from tinygrad_lite.tensor import Tensor


@dataclass(frozen=True)
class T5Config:
    """The sizes of an encoder–decoder.

    Attributes:
        block_size: longest source and target.
        layers: of the encoder, and of the decoder.
        head_dim: width of a head; None is width / heads.
        gated: feed-forwards gated by GELU (T5 1.1), else two matrices and ReLU.
        buckets, furthest: of the distances that have a bias of their own.
        pad, start: ids of filler, and of what targets begin with.

    Raises:
        ValueError: a size below 1, a dropout outside [0, 1).
    """

    vocab_size: int = 32128
    block_size: int = 512
    layers: int = 6
    heads: int = 8
    width: int = 512
    d_ff: int = 2048
    head_dim: int | None = None
    gated: bool = False
    dropout: float = 0.1
    tied: bool = True
    buckets: int = 32
    furthest: int = 128
    pad: int = 0
    start: int = 0
    eps: float = 1e-6

    def __post_init__(self) -> None:
        check_sizes(self, "vocab_size", "block_size", "layers", "heads", "width", "d_ff")
        check_probability(self, "dropout")
        if self.head_dim is None:
            nn.attention.check_heads("T5Config", self.width, self.heads, ("width", "heads"))

    @property
    def head(self) -> int:
        """Width of a head."""
        return self.width // self.heads if self.head_dim is None else self.head_dim


PRESETS = {
    "t5-tiny": T5Config(13, 12, 2, 2, 16, 32, dropout=0.0),
    "t5-small": T5Config(),
    "t5-base": T5Config(layers=12, heads=12, width=768, d_ff=3072),
}


class Memory:
    """An encoded source: each decoder layer's keys and values of it, and where it is filler."""

    def __init__(self, projected: list[tuple[Tensor, Tensor]], padding: Tensor) -> None:
        self.projected, self.padding = projected, padding

    def reorder(self, rows: Tensor) -> None:
        """Let row i of the batch read what row rows[i] reads."""
        self.projected = [(k.index_select(0, rows), v.index_select(0, rows)) for k, v in self.projected]
        self.padding = self.padding.index_select(0, rows)


class Block(nn.Module):
    """Self-attention, in the decoder attention to the source, feed-forward; each normed, dropped out and added."""

    def __init__(self, config: T5Config, decoder: bool) -> None:
        super().__init__()

        def attention(causal: bool) -> nn.Attention:
            # T5 leaves scores unscaled; its initial weights make up for it
            return nn.Attention(config.width, config.heads, head_dim=config.head, causal=causal, scale=1.0)

        self.norm1 = nn.RMSNorm(config.width, config.eps)
        self.attn = attention(decoder)
        self.decoder = decoder
        if decoder:
            self.norm_cross = nn.RMSNorm(config.width, config.eps)
            self.cross = attention(False)
        self.norm2 = nn.RMSNorm(config.width, config.eps)
        kind = nn.GeGLU if config.gated else nn.FeedForward
        options: dict[str, Any] = {} if config.gated else {"activation": "relu"}
        self.mlp = kind(config.width, config.d_ff, bias=False, dropout=config.dropout, **options)
        self.drop = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        bias: Tensor,
        padding: Tensor | None,
        memory: tuple[Tensor, Tensor] | None = None,
        positions: Tensor | None = None,
        cache: nn.LayerCache | None = None,
    ) -> Tensor:
        own = None if self.decoder else padding
        x = x + self.drop(self.attn(self.norm1(x), mask=bias, key_padding_mask=own, positions=positions, cache=cache))
        if self.decoder:
            x = x + self.drop(self.cross(self.norm_cross(x), projected=memory, key_padding_mask=padding))
        return x + self.drop(self.mlp(self.norm2(x)))


class Stack(nn.Module):
    """Blocks with one bias by distance for all of them, and a norm."""

    def __init__(self, config: T5Config, decoder: bool) -> None:
        super().__init__()
        self.bias = nn.RelativePositionBias(config.heads, config.buckets, config.furthest, two_sided=not decoder)
        self.blocks = nn.ModuleList([Block(config, decoder) for _ in range(config.layers)])
        self.norm = nn.RMSNorm(config.width, config.eps)
        self.drop = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        padding: Tensor | None,
        memory: list[tuple[Tensor, Tensor]] | None = None,
        positions: Tensor | None = None,
        cache: nn.KVCache | None = None,
    ) -> Tensor:
        T = x.shape[1]
        bias = self.bias(T, T if cache is None else cache.capacity, positions)
        x = self.drop(x)
        for i, block in enumerate(self.blocks):
            own = None if memory is None else memory[i]
            x = block(x, bias, padding, own, positions, None if cache is None else cache[i])
        return self.drop(self.norm(x))


class T5(nn.Module):
    """Encoder and decoder over one embedding. Shapes: source (B, S), target (B, T) ids to logits (B, T, vocab_size)."""

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.config = config
        self.shared = nn.Embedding(config.vocab_size, config.width)
        self.encoder = Stack(config, decoder=False)
        self.decoder = Stack(config, decoder=True)
        if not config.tied:
            self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial weights again, T5's: normal, by each matrix's inputs, queries by the head's width too."""
        c = self.config
        inputs = {"q_proj": c.width * c.head, "o_proj": c.heads * c.head, "down_proj": c.d_ff}
        for name, p in self.named_parameters():
            layer = name.split(".")[-2]
            if name == "shared.weight":
                nn.init.normal_(p)
            elif p.dim() > 1:
                nn.init.normal_(p, std=inputs.get(layer, c.width) ** -0.5)

    def encode(self, source: Tensor) -> Memory:
        """Everything the decoder reads of a source, computed once."""
        check_tokens(source, self.config.block_size, "T5")
        padding = source == self.config.pad
        x = self.encoder(self.shared(source), padding)
        return Memory([block.cross.project(x) for block in self.decoder.blocks], padding)

    def decode(
        self, idx: Tensor, memory: Memory, positions: Tensor | None = None, cache: nn.KVCache | None = None
    ) -> Tensor:
        """Logits of what follows each of the target's ids."""
        check_tokens(idx, self.config.block_size, "T5")
        x = self.decoder(self.shared(idx), memory.padding, memory.projected, positions, cache)
        if self.config.tied:
            return tl.nn.functional.linear(x * self.config.width**-0.5, self.shared.weight)
        return self.head(x)

    def forward(self, source: Tensor, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Logits, and the mean cross-entropy over targets that are no filler."""
        logits = self.decode(idx, self.encode(source))
        return logits, next_token_loss(logits, targets, self.config.pad)

    def shifted(self, targets: Tensor) -> Tensor:
        """What the decoder reads to predict `targets`: the start id, then all but the last."""
        return tl.cat([tl.full((targets.shape[0], 1), self.config.start, dtype=targets.dtype), targets[:, :-1]], dim=1)

    def make_cache(self, batch: int, capacity: int | None = None, quantised: bool = False) -> nn.KVCache:
        """An empty cache of the decoder's own keys and values."""
        c = self.config
        sizes = (c.layers, batch, c.heads, capacity or c.block_size, c.head)
        return nn.KVCache(*sizes, quantised=quantised, dtype=self.shared.weight.dtype)


def preset(name: str, **overrides: Any) -> T5:
    """The T5 of a preset's name, some fields of its configuration replaced."""
    return T5(replace(PRESETS[name], **overrides))
