"""Llama: a decoder of RMSNorm, rotary positions, SwiGLU, shared key heads. Touvron et al. 2023, arXiv:2307.09288."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tinygrad_lite import nn
from tinygrad_lite.models.parts import check_sizes, check_tokens, next_token_loss
from tinygrad_lite.nn.attention import check_heads
from tinygrad_lite.nn.feedforward import gated_width
from tinygrad_lite.tensor import Tensor


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama.

    Attributes:
        n_kv_head: heads of keys and values; None is n_head.
        d_ff: width of the feed-forward; None is 8/3 n_embd rounded up to a multiple of `multiple`.
        qk_norm: RMSNorm over queries and keys.

    Raises:
        ValueError: a size below 1, heads that do not divide n_embd or each other, an odd head width.
    """

    vocab_size: int = 32000
    block_size: int = 4096
    n_layer: int = 32
    n_head: int = 32
    n_embd: int = 4096
    n_kv_head: int | None = None
    d_ff: int | None = None
    multiple: int = 256
    rope_base: float = 10_000.0
    eps: float = 1e-5
    tied: bool = False
    qk_norm: bool = False

    def __post_init__(self) -> None:
        check_sizes(self, "vocab_size", "block_size", "n_layer", "n_head", "n_embd", "multiple")
        check_heads("LlamaConfig", self.n_embd, self.n_head, ("n_embd", "n_head"))
        check_heads("LlamaConfig", self.n_head, self.kv_heads, ("n_head", "n_kv_head"))
        if self.head_dim % 2:
            raise ValueError(f"LlamaConfig: rotary positions need an even head width, not {self.head_dim}")

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.n_head if self.n_kv_head is None else self.n_kv_head

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.n_embd // self.n_head

    @property
    def feedforward(self) -> int:
        """Width of the feed-forward."""
        return gated_width(self.n_embd, self.multiple) if self.d_ff is None else self.d_ff


PRESETS = {
    "llama-tiny": LlamaConfig(17, 16, 2, 4, 16, 2, multiple=8),
    "llama-small": LlamaConfig(65, 128, 6, 8, 256, 4, multiple=32),
    "llama2-7b": LlamaConfig(),
    "llama3-8b": LlamaConfig(128_256, 8192, 32, 32, 4096, 8, 14336, rope_base=500_000.0),
}


class Block(nn.Module):
    """Attention and SwiGLU, each on the normalised input and added to it. Shapes: (B, T, C) to the same."""

    def __init__(self, config: LlamaConfig, rotary: nn.RotaryPositions) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.n_embd, config.eps)
        self.self_attn = nn.Attention(
            config.n_embd, config.n_head, config.kv_heads, qk_norm=config.qk_norm, rotary=rotary, causal=True
        )
        self.post_attention_layernorm = nn.RMSNorm(config.n_embd, config.eps)
        self.mlp = nn.SwiGLU(config.n_embd, config.feedforward)

    def forward(self, x: Tensor, positions: Tensor | None, cache: nn.LayerCache | None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), positions=positions, cache=cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Embedding, blocks, norm, output layer. Keys are Hugging Face's without "model."; weights start normal 0.02."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        with nn.init.skip_random():  # drawn below, once
            self.embed_tokens = nn.Embedding(config.vocab_size, config.n_embd)
            self.rotary = nn.RotaryPositions(config.head_dim, config.block_size, config.rope_base)
            self.layers = nn.ModuleList([Block(config, self.rotary) for _ in range(config.n_layer)])
            self.norm = nn.RMSNorm(config.n_embd, config.eps)
            self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        if config.tied:
            self.lm_head.weight = self.embed_tokens.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial weights again."""
        nn.init.gpt2_(self, self.config.n_layer)

    def forward(
        self,
        idx: Tensor,
        targets: Tensor | None = None,
        positions: Tensor | None = None,
        cache: nn.KVCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Logits (B, T, vocab_size) of ids (B, T), and the mean cross-entropy where targets are given.

        `positions` (T,) and `cache`: the ids continue what the cache holds, at these places.

        Raises:
            ValueError: more ids than block_size.
        """
        check_tokens(idx, self.config.block_size, "Llama")
        x = self.embed_tokens(idx)
        for i, layer in enumerate(self.layers):
            x = layer(x, positions, None if cache is None else cache[i])
        logits = self.lm_head(self.norm(x))
        return logits, next_token_loss(logits, targets)

    def make_cache(self, batch: int, capacity: int | None = None, quantised: bool = False) -> nn.KVCache:
        """An empty cache for `batch` rows of `capacity` tokens, block_size by default."""
        c = self.config
        sizes = (c.n_layer, batch, c.kv_heads, capacity or c.block_size, c.head_dim)
        return nn.KVCache(*sizes, quantised=quantised, dtype=self.embed_tokens.weight.dtype)


def preset(name: str, **overrides: Any) -> Llama:
    """The Llama of a preset's name, some fields of its configuration replaced."""
    return Llama(replace(PRESETS[name], **overrides))
