"""Diffusion transformer with adaptive layer norm. Peebles & Xie 2022, arXiv:2212.09748."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models.parts import check_sizes, images
from tinygrad_lite.nn import functional as F
from tinygrad_lite.nn.adaptive import modulate
from tinygrad_lite.nn.attention import attend, check_heads, merge_heads, split_heads
from tinygrad_lite.tensor import Tensor


@dataclass(frozen=True)
class DiTConfig:
    """The sizes of a diffusion transformer.

    Attributes:
        num_classes: labels; one more stands for none (classifier-free guidance).
        steps: of the diffusion.

    Raises:
        ValueError: a size below 1, a patch that does not divide the image, heads that do not divide the width.
    """

    image: int = 32
    patch: int = 2
    channels: int = 4
    layers: int = 12
    heads: int = 6
    width: int = 384
    num_classes: int = 1000
    steps: int = 1000

    def __post_init__(self) -> None:
        check_sizes(self, "image", "patch", "channels", "layers", "heads", "width", "num_classes", "steps")
        check_heads("DiTConfig", self.width, self.heads, ("width", "heads"))
        check_heads("DiTConfig", self.image, self.patch, ("image", "patch"))


PRESETS = {
    "dit-tiny": DiTConfig(4, 2, 1, 2, 2, 16, 3, 10),
    "dit-s2": DiTConfig(),
}


def time_features(t: Tensor, dim: int, longest: float = 10_000.0) -> Tensor:
    """(B,) steps to (B, dim): cosines and sines of t at rates from 1 down to 1 / longest."""
    rates = tl.from_numpy(np.exp(-math.log(longest) * np.arange(dim // 2) / (dim // 2)).astype(np.float32))
    angles = t.to(tl.float32).unsqueeze(1) * rates
    return tl.cat([angles.cos(), angles.sin()], dim=1)


class Block(nn.Module):
    """Attention and feed-forward, their norms shifted and scaled and their results gated by the condition.

    Shapes: x (B, T, width), cond (B, width) to (B, T, width). The gates start at zero: the block is the identity.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        check_heads("DiT block", width, heads, ("width", "heads"))
        self.width, self.heads = width, heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.FeedForward(width, activation="gelu_tanh")
        self.ada = nn.Linear(width, 6 * width)
        nn.init.zeros_(self.ada.weight)
        nn.init.zeros_(self.ada.bias)

    def forward(self, x: Tensor, cond: Tensor) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.ada(F.silu(cond)).chunk(6, dim=1)
        q, k, v = self.qkv(modulate(self._norm(x), shift1, scale1)).chunk(3, dim=-1)
        y = merge_heads(attend(*(split_heads(part, self.heads) for part in (q, k, v))))
        x = x + gate1.unsqueeze(1) * self.proj(y)
        return x + gate2.unsqueeze(1) * self.mlp(modulate(self._norm(x), shift2, scale2))

    def _norm(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (self.width,), eps=1e-6)


class DiT(nn.Module):
    """The noise in an image. Shapes: x (B, channels, image, image), t and labels (B,) to the same as x."""

    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        self.config = config
        width, patch = config.width, config.patch
        self.patches = nn.Conv2d(config.channels, width, patch, patch)
        tokens = (config.image // patch) ** 2
        self.positions = nn.SinusoidalPositions(width, tokens)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.labels = nn.Embedding(config.num_classes + 1, width)
        self.blocks = nn.ModuleList([Block(width, config.heads) for _ in range(config.layers)])
        self.ada = nn.Linear(width, 2 * width)
        self.head = nn.Linear(width, patch * patch * config.channels)
        nn.init.normal_(self.labels.weight, std=0.02)
        for layer in (self.ada, self.head):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        betas = np.linspace(1e-4, 0.02, config.steps)
        self.register_buffer("kept", tl.from_numpy(np.cumprod(1 - betas).astype(np.float32)), persistent=False)

    def forward(self, x: Tensor, t: Tensor, labels: Tensor) -> Tensor:
        config = self.config
        x = images(x, config.channels, False, "DiT")
        if tuple(x.shape[2:]) != (config.image, config.image):
            raise ValueError(f"DiT: takes images of {config.image} x {config.image}, got {tuple(x.shape[2:])}")
        x = self.positions(self.patches(x).flatten(2).transpose(1, 2))
        cond = self.time(time_features(t, config.width)) + self.labels(labels)
        for block in self.blocks:
            x = block(x, cond)
        shift, scale = self.ada(F.silu(cond)).chunk(2, dim=1)
        return self._image(self.head(modulate(F.layer_norm(x, (config.width,), eps=1e-6), shift, scale)))

    def _image(self, x: Tensor) -> Tensor:
        """(B, patches, patch² · channels) put together again."""
        c = self.config
        side = c.image // c.patch
        x = x.reshape(x.shape[0], side, side, c.patch, c.patch, c.channels).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(x.shape[0], c.channels, c.image, c.image)

    def noised(self, x: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        """Step t of the diffusion of x: √ᾱ x + √(1 - ᾱ) noise. Ho et al. 2020, arXiv:2006.11239."""
        kept = F.embedding(t, self.kept.unsqueeze(1)).reshape(-1, 1, 1, 1)
        return kept.sqrt() * x + (1 - kept).sqrt() * noise

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        """Mean squared error of the noise found, at random steps."""
        t, noise = tl.randint(0, self.config.steps, (x.shape[0],)), tl.randn(*x.shape)
        return F.mse_loss(self(self.noised(x, t, noise), t, labels), noise)


def preset(name: str, **overrides: Any) -> DiT:
    """The DiT of a preset's name, some fields of its configuration replaced."""
    return DiT(replace(PRESETS[name], **overrides))
