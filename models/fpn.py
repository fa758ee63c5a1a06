"""A feature pyramid over a residual network, with heads a level and a pixel. Lin et al. 2017, arXiv:1612.03144."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tinygrad_lite import nn
from tinygrad_lite.models.parts import check_sizes, init_convolutions, upsample2x
from tinygrad_lite.models.resnet import ResNet, ResNetConfig
from tinygrad_lite.tensor import Tensor


@dataclass(frozen=True)
class FPNConfig:
    """The sizes of a feature pyramid.

    Attributes:
        backbone: its residual network, whose stages are the levels.
        width: channels of every level.

    Raises:
        ValueError: a size below 1.
    """

    num_classes: int = 21
    width: int = 256
    backbone: ResNetConfig = field(default_factory=ResNetConfig)

    def __post_init__(self) -> None:
        check_sizes(self, "num_classes", "width")

    @property
    def stem_stride(self) -> int:
        """How much smaller the finest level is than the image."""
        return 1 if self.backbone.stem == "cifar" else 4


PRESETS = {
    "fpn-tiny": FPNConfig(3, 8, ResNetConfig((1, 1, 1), (4, 8, 16), 10, 1, stem="cifar")),
    "fpn-resnet18": FPNConfig(),
}


class FPN(nn.Module):
    """Class scores of every pixel, from a pyramid of maps of one width.

    Shapes: (B, in_channels, H, W) to (B, num_classes, H, W); H and W divisible by the coarsest level's stride.
    """

    def __init__(self, config: FPNConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = ResNet(config.backbone)
        self.backbone.fc = nn.Identity()
        grow = 4 if config.backbone.bottleneck else 1
        self.lateral = nn.ModuleList([nn.Conv2d(grow * c, config.width, 1) for c in config.backbone.widths])
        self.smooth = nn.ModuleList(
            [nn.Conv2d(config.width, config.width, 3, padding=1) for _ in config.backbone.widths]
        )
        self.heads = nn.ModuleList([nn.Conv2d(config.width, config.num_classes, 1) for _ in config.backbone.widths])
        init_convolutions(self)

    def pyramid(self, x: Tensor) -> list[Tensor]:
        """The levels, finest first: (B, width, H / s, W / s), s doubling from one to the next."""
        factor = self.config.stem_stride * 2 ** (len(self.lateral) - 1)
        axes = (1, 2) if self.config.backbone.channels_last else (2, 3)
        size = tuple(x.shape[axis] for axis in axes)
        if any(n % factor for n in size):
            raise ValueError(f"FPN: {len(self.lateral)} levels need sizes divisible by {factor}, not {size}")
        maps = [lateral(found) for lateral, found in zip(self.lateral, self.backbone.maps(x), strict=True)]
        for i in reversed(range(len(maps) - 1)):
            maps[i] = maps[i] + upsample2x(maps[i + 1])
        return [smooth(level) for smooth, level in zip(self.smooth, maps, strict=True)]

    def predictions(self, x: Tensor) -> list[Tensor]:
        """Class scores a level, (B, num_classes, H / s, W / s)."""
        return [head(level) for head, level in zip(self.heads, self.pyramid(x), strict=True)]

    def forward(self, x: Tensor) -> Tensor:
        """All levels' scores, brought to the image's size and added."""
        scores = self.predictions(x)
        total = scores[-1]
        for level in reversed(scores[:-1]):
            total = upsample2x(total) + level
        stride = self.config.stem_stride
        while stride > 1:
            total, stride = upsample2x(total), stride // 2
        return total


def preset(name: str, **overrides: Any) -> FPN:
    """The FPN of a preset's name, some fields of its configuration replaced."""
    return FPN(replace(PRESETS[name], **overrides))
