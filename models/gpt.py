"""GPT: a pre-norm decoder-only transformer, after Radford et al. 2019 (GPT-2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models import generate as generation
from tinygrad_lite.models.parts import check_tokens
from tinygrad_lite.nn import functional as F
from tinygrad_lite.nn.attention import attend
from tinygrad_lite.tensor import Tensor


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT.

    Attributes:
        vocab_size, block_size: distinct tokens, and the longest context.
        n_layer, n_head, n_embd: blocks, attention heads a block, width.
        dropout: probability after the embeddings, on attention weights, and on each residual branch.
        bias: whether linear layers and layer norms have one.
        gelu: "none" (erf) or "tanh".
        tied: whether the output layer is the token embedding.

    Raises:
        ValueError: a size below 1, a width the heads do not divide, a dropout outside [0, 1), an unknown gelu.
    """

    vocab_size: int = 65
    block_size: int = 64
    n_layer: int = 4
    n_head: int = 4
    n_embd: int = 128
    dropout: float = 0.0
    bias: bool = True
    gelu: str = "none"
    tied: bool = True

    def __post_init__(self) -> None:
        for name in ("vocab_size", "block_size", "n_layer", "n_head", "n_embd"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.n_embd % self.n_head:
            raise ValueError(f"n_head {self.n_head} does not divide n_embd {self.n_embd}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), not {self.dropout}")
        if self.gelu not in ("none", "tanh"):
            raise ValueError(f"gelu must be 'none' or 'tanh', not {self.gelu!r}")


PRESETS = {
    "gpt-tiny": GPTConfig(11, 16, 2, 2, 16),
    "gpt-nano": GPTConfig(65, 64, 4, 4, 128),
    "gpt-small": GPTConfig(65, 128, 6, 8, 256),
    "gpt-mid": GPTConfig(65, 256, 6, 6, 384),
    "gpt2": GPTConfig(50257, 1024, 12, 12, 768, gelu="tanh"),
}


class Attention(nn.Module):
    """Causal self-attention over n_head heads. Shapes: (B, T, C) to the same."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.n_head, self.dropout = config.n_head, config.dropout
        self.qkv = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, positions: Tensor | None = None, cache: nn.LayerCache | None = None) -> Tensor:
        B, T, C = x.shape
        q, k, v = (
            part.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, heads, T, C / heads)
            for part in self.qkv(x).split(C, dim=2)
        )
        p = self.dropout if self.training else 0.0
        if cache is None or positions is None:
            y = attend(q, k, v, dropout=p, causal=True)
        else:
            k, v = cache.update(k, v, positions)
            y = attend(q, k, v, tl.arange(k.shape[2]) <= positions.unsqueeze(1), p)
        return self.drop(self.proj(y.transpose(1, 2).reshape(B, T, C)))


class MLP(nn.Module):
    """Linear to 4 C, GELU, linear back. Shapes: (B, T, C) to the same."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.gelu = nn.GELU(config.gelu)
        self.proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.proj(self.gelu(self.fc(x))))


class Block(nn.Module):
    """Attention and MLP, each on the normalised input and added to it. Shapes: (B, T, C) to the same."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, positions: Tensor | None = None, cache: nn.LayerCache | None = None) -> Tensor:
        x = x + self.attn(self.ln_1(x), positions, cache)
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """Token and position embeddings, blocks, layer norm, output layer.

    Weights start normal with standard deviation 0.02, those that end a residual branch 0.02 / sqrt(2 n_layer).
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        with nn.init.skip_random():  # drawn below, once
            self._build(config)
        self.reset_parameters()

    def _build(self, config: GPTConfig) -> None:
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        if config.tied:
            self.head.weight = self.wte.weight

    def reset_parameters(self) -> None:
        """Draw the initial weights again."""
        residual = 0.02 / math.sqrt(2 * self.config.n_layer)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=residual if name.endswith("proj.weight") else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(
        self,
        idx: Tensor,
        targets: Tensor | None = None,
        positions: Tensor | None = None,
        cache: nn.KVCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Logits, and the mean cross-entropy where targets are given.

        Shapes: idx (B, T) and targets (B, T) of token ids, T at most block_size; logits (B, T, vocab_size); loss ().
        With `positions` (T,) and `cache`, the ids continue what the cache holds, at these places.

        Raises:
            ValueError: a longer sequence; a cache without positions.
        """
        T = check_tokens(idx, self.config.block_size, "GPT")
        if cache is not None and positions is None:
            raise ValueError("GPT: a cache needs the positions of its input")
        x = self.drop(self.wte(idx) + self.wpe(tl.arange(T) if positions is None else positions))  # (B, T, C)
        for i, block in enumerate(self.blocks):
            x = block(x, positions, None if cache is None else cache[i])
        logits = self.head(self.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, self.config.vocab_size), targets.reshape(-1))

    def make_cache(self, batch: int, capacity: int | None = None, quantised: bool = False) -> nn.KVCache:
        """An empty cache for `batch` rows of `capacity` tokens, block_size by default."""
        c = self.config
        sizes = (c.n_layer, batch, c.n_head, capacity or c.block_size, c.n_embd // c.n_head)
        return nn.KVCache(*sizes, quantised=quantised, dtype=self.wte.weight.dtype)

    def num_parameters(self) -> int:
        """Trained numbers, tied ones once."""
        return sum(p.numel() for p in self.parameters())


def generate(model: GPT, idx: Tensor, n: int, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
    """`n` tokens more, each drawn from softmax(logits / temperature) given the last block_size ones.

    Shapes: idx (B, T) to (B, T + n). Temperature 0 takes the likeliest; `top_k` leaves out all but the k likeliest.
    `models.generate.generate` with a sliding window.

    Raises:
        ValueError: a negative temperature, or top_k below 1.
    """
    return generation.generate(model, idx, n, temperature, top_k, sliding=True)


def param_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups for an optimiser: matrices decay, biases and norms do not."""
    params = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in params if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
    ]


def preset(name: str, **overrides: Any) -> GPT:
    """The GPT of a preset's name, some fields of its configuration replaced."""
    return GPT(replace(PRESETS[name], **overrides))
