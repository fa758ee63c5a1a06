"""VGG: 3×3 convolutions and 2×2 poolings, after Simonyan & Zisserman 2014, arXiv:1409.1556."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tinygrad_lite import nn
from tinygrad_lite.models.parts import check_probability, check_sizes, images, init_convolutions
from tinygrad_lite.tensor import Tensor

Plan = tuple[int | str, ...]


def _plan(*stages: tuple[int, int]) -> Plan:
    """(convolutions, channels) of each stage as a list of channels, "M" after each stage."""
    return tuple(part for count, width in stages for part in (*(width,) * count, "M"))


VGG16 = _plan((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))


@dataclass(frozen=True)
class VGGConfig:
    """The sizes of a VGG.

    Attributes:
        plan: channels of each convolution, "M" for a pooling.
        image: height and width of the input, which the flattening head needs.
        head: "flatten" (three linear layers, one image size) or "gap" (global mean and one linear layer, any size).
        hidden, dropout: width and dropout of the flattening head.
        channels_last: the input comes as (B, H, W, channels).

    Raises:
        ValueError: a size below 1, an image its poolings leave nothing of, another head.
    """

    plan: Plan = VGG16
    num_classes: int = 1000
    in_channels: int = 3
    image: int = 224
    hidden: int = 4096
    dropout: float = 0.5
    batch_norm: bool = False
    head: str = "flatten"
    channels_last: bool = False

    def __post_init__(self) -> None:
        check_sizes(self, "num_classes", "in_channels", "image", "hidden")
        check_probability(self, "dropout")
        if self.head not in ("flatten", "gap"):
            raise ValueError(f"VGGConfig: head must be 'flatten' or 'gap', not {self.head!r}")
        if self.image >> self.plan.count("M") < 1:
            raise ValueError(f"VGGConfig: {self.plan.count('M')} poolings leave nothing of image size {self.image}")

    @property
    def channels(self) -> int:
        """Channels of the last convolution."""
        return next(c for c in reversed(self.plan) if isinstance(c, int))


PRESETS = {
    "vgg-tiny": VGGConfig(_plan((1, 8), (1, 16)), 10, 1, 8, 32, 0.0),
    "vgg11": VGGConfig(_plan((1, 64), (1, 128), (2, 256), (2, 512), (2, 512))),
    "vgg13": VGGConfig(_plan((2, 64), (2, 128), (2, 256), (2, 512), (2, 512))),
    "vgg16": VGGConfig(),
    "vgg19": VGGConfig(_plan((2, 64), (2, 128), (4, 256), (4, 512), (4, 512))),
}


class VGG(nn.Module):
    """Shapes: (B, in_channels, image, image) to (B, num_classes). State-dict keys are torchvision's."""

    def __init__(self, config: VGGConfig) -> None:
        super().__init__()
        self.config = config
        self.features = nn.Sequential(*_features(config))
        if config.head == "gap":
            self.classifier = nn.Sequential(nn.Linear(config.channels, config.num_classes))
        else:
            side = config.image >> config.plan.count("M")
            self.classifier = nn.Sequential(
                nn.Linear(config.channels * side * side, config.hidden),
                nn.ReLU(),
                nn.Dropout(config.dropout),
                nn.Linear(config.hidden, config.hidden),
                nn.ReLU(),
                nn.Dropout(config.dropout),
                nn.Linear(config.hidden, config.num_classes),
            )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """He's scheme on convolutions, normal 0.01 on linear layers."""
        init_convolutions(self)
        for layer in self.classifier:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=0.01)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        config = self.config
        x = images(x, config.in_channels, config.channels_last, "VGG")
        if config.head == "flatten" and tuple(x.shape[2:]) != (config.image, config.image):
            size = tuple(x.shape[2:])
            raise ValueError(f"VGG: the flattening head takes images of {config.image} x {config.image}, got {size}")
        x = self.features(x)
        return self.classifier(x.mean(dim=(2, 3)) if config.head == "gap" else x.flatten(1))


def _features(config: VGGConfig) -> list[nn.Module]:
    layers: list[nn.Module] = []
    channels = config.in_channels
    for part in config.plan:
        if part == "M":
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers.append(nn.Conv2d(channels, int(part), 3, padding=1))
        if config.batch_norm:
            layers.append(nn.BatchNorm2d(int(part)))
        layers.append(nn.ReLU())
        channels = int(part)
    return layers


def preset(name: str, **overrides: Any) -> VGG:
    """The VGG of a preset's name, some fields of its configuration replaced."""
    return VGG(replace(PRESETS[name], **overrides))
