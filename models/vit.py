"""Vision transformer: an image as a sentence of patches. Dosovitskiy et al. 2020, arXiv:2010.11929."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models.parts import check_probability, check_sizes, images
from tinygrad_lite.nn.attention import check_heads
from tinygrad_lite.tensor import Tensor


@dataclass(frozen=True)
class ViTConfig:
    """The sizes of a vision transformer.

    Attributes:
        pool: "cls" reads a class token, "mean" the mean of all patches.
        drop_path: probability that an example skips a branch, growing from 0 to this over the layers.

    Raises:
        ValueError: a size below 1, a patch that does not divide the image, heads that do not divide the width.
    """

    image: int = 224
    patch: int = 16
    in_channels: int = 3
    num_classes: int = 1000
    layers: int = 12
    heads: int = 12
    width: int = 768
    d_ff: int = 3072
    dropout: float = 0.0
    drop_path: float = 0.0
    pool: str = "cls"
    channels_last: bool = False

    def __post_init__(self) -> None:
        check_sizes(self, "image", "patch", "in_channels", "num_classes", "layers", "heads", "width", "d_ff")
        check_probability(self, "dropout", "drop_path")
        check_heads("ViTConfig", self.width, self.heads, ("width", "heads"))
        check_heads("ViTConfig", self.image, self.patch, ("image", "patch"))
        if self.pool not in ("cls", "mean"):
            raise ValueError(f"ViTConfig: pool must be 'cls' or 'mean', not {self.pool!r}")

    @property
    def tokens(self) -> int:
        """Length of the sentence."""
        return (self.image // self.patch) ** 2 + (self.pool == "cls")


PRESETS = {
    "vit-tiny": ViTConfig(8, 4, 1, 10, 2, 2, 16, 32),
    "vit-b16": ViTConfig(),
}


class ViT(nn.Module):
    """Shapes: (B, in_channels, image, image) to (B, num_classes)."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.patches = nn.Conv2d(config.in_channels, width, config.patch, config.patch)
        if config.pool == "cls":
            self.cls = nn.Parameter(tl.zeros(1, 1, width))
        self.positions = nn.LearnedPositions(width, config.tokens)
        self.drop = nn.Dropout(config.dropout)
        rates = [config.drop_path * i / max(1, config.layers - 1) for i in range(config.layers)]
        self.layers = nn.ModuleList([self._layer(config, rate) for rate in rates])
        self.norm = nn.LayerNorm(width, 1e-6)
        self.head = nn.Linear(width, config.num_classes)
        nn.init.lecun_normal_(self.patches.weight)
        nn.init.zeros_(self.patches.bias)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def _layer(self, config: ViTConfig, drop_path: float) -> nn.TransformerEncoderLayer:
        sizes = (config.width, config.heads, config.d_ff, config.dropout, "gelu", 1e-6)
        return nn.TransformerEncoderLayer(*sizes, batch_first=True, norm_first=True, drop_path=drop_path)

    def forward(self, x: Tensor) -> Tensor:
        config = self.config
        x = images(x, config.in_channels, config.channels_last, "ViT")
        if tuple(x.shape[2:]) != (config.image, config.image):
            raise ValueError(f"ViT: takes images of {config.image} x {config.image}, got {tuple(x.shape[2:])}")
        x = self.patches(x).flatten(2).transpose(1, 2)  # (B, patches, width)
        if config.pool == "cls":
            x = tl.cat([self.cls.expand(x.shape[0], 1, config.width), x], dim=1)
        x = self.drop(self.positions(x))
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.head(x[:, 0] if config.pool == "cls" else x.mean(dim=1))


def preset(name: str, **overrides: Any) -> ViT:
    """The ViT of a preset's name, some fields of its configuration replaced."""
    return ViT(replace(PRESETS[name], **overrides))
