"""Autoencoders: images through a narrow code and back; variational too (Kingma & Welling 2013, arXiv:1312.6114)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models.parts import check_sizes, images, upsample2x
from tinygrad_lite.nn import functional as F
from tinygrad_lite.tensor import Tensor


@dataclass(frozen=True)
class AutoencoderConfig:
    """The sizes of an autoencoder.

    Attributes:
        channels: of the encoder's convolutions, each of stride 2.
        latent: numbers in the code.
        variational: the code is drawn from a normal whose mean and log-variance the encoder gives.
        beta: weight of the divergence from the standard normal.

    Raises:
        ValueError: a size below 1, an image the stages do not divide.
    """

    in_channels: int = 1
    image: int = 32
    channels: tuple[int, ...] = (32, 64)
    latent: int = 32
    variational: bool = False
    beta: float = 1.0

    def __post_init__(self) -> None:
        check_sizes(self, "in_channels", "image", "channels", "latent")
        if self.image % 2 ** len(self.channels):
            raise ValueError(f"AutoencoderConfig: {len(self.channels)} stages do not divide image {self.image}")


PRESETS = {
    "autoencoder-tiny": AutoencoderConfig(1, 8, (4, 8), 6),
    "vae-tiny": AutoencoderConfig(1, 8, (4, 8), 6, variational=True),
    "autoencoder": AutoencoderConfig(),
}


class Autoencoder(nn.Module):
    """Shapes: (B, in_channels, image, image) to the same, and the loss."""

    def __init__(self, config: AutoencoderConfig) -> None:
        super().__init__()
        self.config = config
        widths = (config.in_channels, *config.channels)
        pairs = list(pairwise(widths))
        self.down = nn.ModuleList([nn.Conv2d(a, b, 3, 2, padding=1) for a, b in pairs])
        self.side = config.image >> len(pairs)
        flat = config.channels[-1] * self.side**2
        self.to_code = nn.Linear(flat, config.latent * (2 if config.variational else 1))
        self.from_code = nn.Linear(config.latent, flat)
        self.up = nn.ModuleList([nn.Conv2d(b, a, 3, padding=1) for a, b in reversed(pairs)])

    def encode(self, x: Tensor) -> Tensor:
        """(B, latent), or (B, 2 latent) of means and log-variances."""
        x = images(x, self.config.in_channels, False, "Autoencoder")
        if tuple(x.shape[2:]) != (self.config.image, self.config.image):
            size = tuple(x.shape[2:])
            raise ValueError(f"Autoencoder: takes images of {self.config.image} x {self.config.image}, got {size}")
        for conv in self.down:
            x = F.relu(conv(x))
        return self.to_code(x.flatten(1))

    def decode(self, code: Tensor) -> Tensor:
        """(B, latent) to images."""
        x = F.relu(self.from_code(code)).reshape(code.shape[0], self.config.channels[-1], self.side, self.side)
        for i, conv in enumerate(self.up):
            x = conv(upsample2x(x))
            x = F.relu(x) if i < len(self.up) - 1 else x
        return x

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The reconstruction, and its mean squared error, plus beta times the divergence of a variational code."""
        code = self.encode(x)
        if not self.config.variational:
            y = self.decode(code)
            return y, F.mse_loss(y, x)
        mean, spread = code.chunk(2, dim=1)
        noise = tl.randn(*mean.shape) if self.training else 0.0
        y = self.decode(mean + (0.5 * spread).exp() * noise)
        divergence = 0.5 * (mean**2 + spread.exp() - 1 - spread).sum(dim=1).mean()
        return y, F.mse_loss(y, x) + self.config.beta * divergence / x[0].numel()


def preset(name: str, **overrides: Any) -> Autoencoder:
    """The Autoencoder of a preset's name, some fields of its configuration replaced."""
    return Autoencoder(replace(PRESETS[name], **overrides))
