"""Residual networks, after He et al. 2015, arXiv:1512.03385."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from tinygrad_lite import nn
from tinygrad_lite.models.parts import check_sizes, images, init_convolutions
from tinygrad_lite.nn import functional as F
from tinygrad_lite.tensor import Tensor

STEMS = ("canonical", "document", "cifar")


@dataclass(frozen=True)
class ResNetConfig:
    """The sizes of a residual network.

    Attributes:
        blocks, widths: blocks of each stage, and channels; stages after the first halve the image.
        bottleneck: blocks of 1×1, 3×3, 1×1 to four times the width, in place of two 3×3.
        stem: "canonical" is 7×7 stride 2 and 3×3 max pooling stride 2; "document" 7×7 stride 2, 3×3, 3×3 stride 2, all
            convolutions; "cifar" one 3×3.
        shortcut: "projection" is a 1×1 convolution where shapes change; "pad" fills channels with zeros.
        residual: False leaves out all shortcuts: a plain network.
        zero_init_last: blocks start as the identity.

    Raises:
        ValueError: a size below 1, stages and widths of different number, another stem or shortcut.
    """

    blocks: tuple[int, ...] = (2, 2, 2, 2)
    widths: tuple[int, ...] = (64, 128, 256, 512)
    num_classes: int = 1000
    in_channels: int = 3
    bottleneck: bool = False
    stem: str = "canonical"
    shortcut: str = "projection"
    residual: bool = True
    zero_init_last: bool = False
    channels_last: bool = False

    def __post_init__(self) -> None:
        check_sizes(self, "blocks", "widths", "num_classes", "in_channels")
        if len(self.blocks) != len(self.widths):
            raise ValueError(f"ResNetConfig: {len(self.blocks)} stages and {len(self.widths)} widths")
        if self.stem not in STEMS:
            raise ValueError(f"ResNetConfig: stem must be one of {', '.join(STEMS)}, not {self.stem!r}")
        if self.shortcut not in ("projection", "pad"):
            raise ValueError(f"ResNetConfig: shortcut must be 'projection' or 'pad', not {self.shortcut!r}")


def _cifar(n: int) -> ResNetConfig:
    return ResNetConfig((n, n, n), (16, 32, 64), 10, stem="cifar", shortcut="pad")


PRESETS = {
    "resnet-tiny": ResNetConfig((1, 1), (8, 16), 10, 1, stem="cifar"),
    "resnet8": ResNetConfig((1, 1, 1), (32, 64, 128), 10, stem="cifar"),
    "resnet20": _cifar(3),
    "resnet32": _cifar(5),
    "resnet56": _cifar(9),
    "resnet18": ResNetConfig(),
    "resnet34": ResNetConfig((3, 4, 6, 3)),
    "resnet50": ResNetConfig((3, 4, 6, 3), bottleneck=True),
    "resnet101": ResNetConfig((3, 4, 23, 3), bottleneck=True),
}


class _Block(nn.Module):
    """relu(shortcut(x) + F(x)). Shapes: (B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""

    def __init__(self, inputs: int, outputs: int, stride: int, config: ResNetConfig) -> None:
        super().__init__()
        self.stride, self.outputs, self.residual = stride, outputs, config.residual
        self.changes = stride != 1 or inputs != outputs
        projects = config.residual and self.changes and config.shortcut == "projection"
        conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if projects else None
        self.add_module("downsample", None if conv is None else nn.Sequential(conv, nn.BatchNorm2d(outputs)))

    def branch(self, x: Tensor) -> Tensor:
        """F."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        y = self.branch(x)
        return F.relu(y + self._shortcut(x) if self.residual else y)

    def _shortcut(self, x: Tensor) -> Tensor:
        if self.downsample is not None:
            return self.downsample(x)
        if self.changes:
            x = x[:, :, :: self.stride, :: self.stride]
            x = F.pad(x, (0, 0, 0, 0, 0, self.outputs - x.shape[1]))
        return x


class BasicBlock(_Block):
    """Two 3×3 convolutions."""

    def __init__(self, inputs: int, width: int, stride: int, config: ResNetConfig) -> None:
        super().__init__(inputs, width, stride, config)
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def branch(self, x: Tensor) -> Tensor:
        return self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))


class Bottleneck(_Block):
    """1×1, 3×3 (with the stride), 1×1 to four times the width."""

    def __init__(self, inputs: int, width: int, stride: int, config: ResNetConfig) -> None:
        super().__init__(inputs, 4 * width, stride, config)
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)

    def branch(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        return self.bn3(self.conv3(F.relu(self.bn2(self.conv2(x)))))


class Stem(nn.Module):
    """The layers before the first block. Shapes: (B, in_channels, H, W) to (B, width, H / 4, W / 4), or H, W."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.kind, width = config.stem, config.widths[0]
        kernels = {"canonical": ((7, 2),), "document": ((7, 2), (3, 1), (3, 2)), "cifar": ((3, 1),)}[config.stem]
        channels = config.in_channels
        for i, (kernel, stride) in enumerate(kernels, 1):
            conv = nn.Conv2d(channels, width, kernel, stride, padding=kernel // 2, bias=False)
            self.add_module(f"conv{i}", conv)
            self.add_module(f"bn{i}", nn.BatchNorm2d(width))
            channels = width
        self.count = len(kernels)
        self.pool = nn.MaxPool2d(3, 2, padding=1) if config.stem == "canonical" else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        for i in range(1, self.count + 1):
            x = F.relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)))
        return self.pool(x)


class ResNet(nn.Module):
    """Shapes: (B, in_channels, H, W) to (B, num_classes). Keys are torchvision's, but for "stem." before conv1, bn1."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.config = config
        self.stem = Stem(config)
        block = Bottleneck if config.bottleneck else BasicBlock
        channels = config.widths[0]
        for i, (count, width) in enumerate(zip(config.blocks, config.widths, strict=True), 1):
            blocks = []
            for j in range(count):
                blocks.append(block(channels, width, 2 if i > 1 and j == 0 else 1, config))
                channels = blocks[-1].outputs
            self.add_module(f"layer{i}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, config.num_classes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """He's scheme; with zero_init_last the last norm of each block at 0."""
        init_convolutions(self)
        if self.config.zero_init_last:
            for block in self.blocks():
                nn.init.zeros_((block.bn3 if isinstance(block, Bottleneck) else block.bn2).weight)

    def stages(self) -> list[nn.Sequential]:
        """The stages, each a sequence of blocks."""
        return [getattr(self, f"layer{i}") for i in range(1, len(self.config.blocks) + 1)]

    def blocks(self) -> list[_Block]:
        """All blocks in order."""
        return [block for stage in self.stages() for block in stage]

    def maps(self, x: Tensor) -> list[Tensor]:
        """What each stage puts out."""
        x = self.stem(images(x, self.config.in_channels, self.config.channels_last, "ResNet"))
        found = []
        for stage in self.stages():
            x = stage(x)
            found.append(x)
        return found

    def forward(self, x: Tensor, skip: Collection[int] = ()) -> Tensor:
        """Logits; the blocks numbered in `skip` are left out, which must not change shapes."""
        if not skip:
            return self.fc(self.maps(x)[-1].mean(dim=(2, 3)))
        x = self.stem(images(x, self.config.in_channels, self.config.channels_last, "ResNet"))
        for i, block in enumerate(self.blocks()):
            if i in skip and block.changes:
                raise ValueError(f"ResNet: block {i} changes the shape and cannot be skipped")
            x = x if i in skip else block(x)
        return self.fc(x.mean(dim=(2, 3)))


def from_torchvision(state: dict[str, Any]) -> dict[str, Any]:
    """torchvision's state dict under this model's keys."""
    return {f"stem.{key}" if key.partition(".")[0] in ("conv1", "bn1") else key: value for key, value in state.items()}


def to_torchvision(state: dict[str, Any]) -> dict[str, Any]:
    """The way back."""
    return {key.removeprefix("stem."): value for key, value in state.items()}


def preset(name: str, **overrides: Any) -> ResNet:
    """The ResNet of a preset's name, some fields of its configuration replaced."""
    return ResNet(replace(PRESETS[name], **overrides))
