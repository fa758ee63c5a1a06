"""U-Net: an encoder whose maps reach the decoder's stages of their size. Ronneberger et al. 2015, arXiv:1505.04597."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models.parts import check_sizes, conv_norm_relu, images, init_convolutions, upsample2x
from tinygrad_lite.tensor import Tensor


@dataclass(frozen=True)
class UNetConfig:
    """The sizes of a U-Net.

    Attributes:
        channels: of the stages, from the full resolution down; each halves the image of the one before.
        up: "nearest" doubles pixels and convolves, "transposed" is a transposed convolution.
        skips: False cuts the connections between encoder and decoder.

    Raises:
        ValueError: a size below 1, fewer than two stages, another `up`.
    """

    in_channels: int = 1
    num_classes: int = 2
    channels: tuple[int, ...] = (32, 64, 128, 256)
    up: str = "nearest"
    skips: bool = True
    channels_last: bool = False

    def __post_init__(self) -> None:
        check_sizes(self, "in_channels", "num_classes", "channels")
        if len(self.channels) < 2:
            raise ValueError(f"UNetConfig: channels must name two stages or more, not {self.channels}")
        if self.up not in ("nearest", "transposed"):
            raise ValueError(f"UNetConfig: up must be 'nearest' or 'transposed', not {self.up!r}")


PRESETS = {
    "unet-tiny": UNetConfig(1, 2, (4, 8)),
    "unet": UNetConfig(3, 2, (64, 128, 256, 512, 1024), "transposed"),
}


def _double(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(conv_norm_relu(inputs, outputs), conv_norm_relu(outputs, outputs))


class Up(nn.Module):
    """A decoder stage: doubles the image, joins the encoder's map of that size, convolves twice."""

    def __init__(self, inputs: int, outputs: int, config: UNetConfig) -> None:
        super().__init__()
        self.kind = config.up
        transposed = config.up == "transposed"
        self.up = nn.ConvTranspose2d(inputs, outputs, 2, 2) if transposed else nn.Conv2d(inputs, outputs, 3, padding=1)
        self.convs = _double(2 * outputs if config.skips else outputs, outputs)

    def forward(self, x: Tensor, skip: Tensor | None) -> Tensor:
        x = self.up(x if self.kind == "transposed" else upsample2x(x))
        return self.convs(x if skip is None else tl.cat([skip, x], dim=1))


class UNet(nn.Module):
    """Class scores of every pixel. Shapes: (B, in_channels, H, W) to (B, num_classes, H, W).

    Raises:
        ValueError: H or W that the stages do not divide.
    """

    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        self.config = config
        widths = config.channels
        self.down = nn.ModuleList([_double(a, b) for a, b in zip((config.in_channels, *widths), widths, strict=False)])
        self.pool = nn.MaxPool2d(2, 2)
        pairs = list(zip(widths[1:], widths[:-1], strict=True))
        self.ups = nn.ModuleList([Up(a, b, config) for a, b in reversed(pairs)])
        self.head = nn.Conv2d(widths[0], config.num_classes, 1)
        init_convolutions(self)

    def forward(self, x: Tensor) -> Tensor:
        x = images(x, self.config.in_channels, self.config.channels_last, "UNet")
        factor = 2 ** (len(self.down) - 1)
        if x.shape[2] % factor or x.shape[3] % factor:
            raise ValueError(
                f"UNet: {len(self.down)} stages need sizes divisible by {factor}, not {tuple(x.shape[2:])}"
            )
        kept = []
        for i, stage in enumerate(self.down):
            x = stage(self.pool(x) if i else x)
            kept.append(x)
        for up, skip in zip(self.ups, reversed(kept[:-1]), strict=True):
            x = up(x, skip if self.config.skips else None)
        x = self.head(x)
        return x.permute(0, 2, 3, 1) if self.config.channels_last else x


def preset(name: str, **overrides: Any) -> UNet:
    """The UNet of a preset's name, some fields of its configuration replaced."""
    return UNet(replace(PRESETS[name], **overrides))
