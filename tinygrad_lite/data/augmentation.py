"""Changes of an image that leave its label: shifts, flips, crops, turns, noise.

Each takes and gives one array or a batch, (…, H, W), and draws from its own generator: equal seeds, equal changes, in a
DataLoader too, whatever its number of threads. An example of a batch is changed by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_lite.data import drawing

Array = np.ndarray[Any, Any]


class Augmentation:
    """Base: `change(image, rng)` on each (C, H, W) or (H, W) image.

    Args:
        p: probability that an image is changed.
        seed: of the draws.

    Raises:
        ValueError: p outside [0, 1].
    """

    def __init__(self, p: float = 1.0, seed: int | None = None) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: p must lie in [0, 1], not {p}")
        self.p = p
        self.rng = np.random.default_rng(seed)

    def change(self, image: Array, rng: np.random.Generator) -> Array:
        """The image, changed."""
        raise NotImplementedError

    def __call__(self, images: Any) -> Array:
        images = np.asarray(images.numpy() if hasattr(images, "detach") else images)
        if images.ndim < 2:
            raise ValueError(f"{type(self).__name__}: an image has two axes or more, got shape {images.shape}")
        if images.ndim <= 3:
            return self._one(images)
        return np.stack([self._one(image) for image in images]) if len(images) else images

    def _one(self, image: Array) -> Array:
        rng = drawing.generator(self.rng)
        return self.change(image, rng) if rng.random() < self.p else image


class RandomShift(Augmentation):
    """Moves by up to `most` pixels along both axes; what comes in is `fill`."""

    def __init__(self, most: int, fill: float = 0.0, p: float = 1.0, seed: int | None = None) -> None:
        super().__init__(p, seed)
        if most < 0:
            raise ValueError(f"RandomShift: most must be at least 0, not {most}")
        self.most, self.fill = most, fill

    def change(self, image: Array, rng: np.random.Generator) -> Array:
        return shift(image, *rng.integers(-self.most, self.most + 1, 2), fill=self.fill)


class RandomHorizontalFlip(Augmentation):
    """Left to right, by default half of the images."""

    def __init__(self, p: float = 0.5, seed: int | None = None) -> None:
        super().__init__(p, seed)

    def change(self, image: Array, rng: np.random.Generator) -> Array:
        return flip(image)


class RandomVerticalFlip(RandomHorizontalFlip):
    """Top to bottom, by default half of the images."""

    def change(self, image: Array, rng: np.random.Generator) -> Array:
        return flip(image, -2)


class RandomCrop(Augmentation):
    """A window of `size` at a random place of the image, framed by `padding` pixels of `fill` first.

    Raises:
        ValueError: a window larger than the framed image.
    """

    def __init__(
        self, size: int | tuple[int, int], padding: int = 0, fill: float = 0.0, p: float = 1.0, seed: int | None = None
    ) -> None:
        super().__init__(p, seed)
        self.size = (size, size) if isinstance(size, int) else tuple(size)
        self.padding, self.fill = padding, fill

    def change(self, image: Array, rng: np.random.Generator) -> Array:
        frame = [(0, 0)] * (image.ndim - 2) + [(self.padding, self.padding)] * 2
        image = np.pad(image, frame, constant_values=self.fill)
        room = [n - m for n, m in zip(image.shape[-2:], self.size, strict=True)]
        if min(room) < 0:
            raise ValueError(f"RandomCrop: a window of {self.size} exceeds the framed image's {image.shape[-2:]}")
        top, left = (int(rng.integers(0, r + 1)) for r in room)
        return image[..., top : top + self.size[0], left : left + self.size[1]]


class RandomRotation90(Augmentation):
    """By none, one, two or three quarter turns; square images only."""

    def change(self, image: Array, rng: np.random.Generator) -> Array:
        return rot90(image, int(rng.integers(0, 4)))


class GaussianNoise(Augmentation):
    """Adds normal noise of standard deviation `std`."""

    def __init__(self, std: float = 0.1, p: float = 1.0, seed: int | None = None) -> None:
        super().__init__(p, seed)
        if std < 0:
            raise ValueError(f"GaussianNoise: std must be at least 0, not {std}")
        self.std = std

    def change(self, image: Array, rng: np.random.Generator) -> Array:
        return (image + rng.normal(0.0, self.std, image.shape)).astype(np.result_type(image.dtype, np.float32))


class Compose:
    """One after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, images: Any) -> Any:
        for transform in self.transforms:
            images = transform(images)
        return images


# ---- the changes themselves --------------------------------------------------------------------------------


def shift(image: Array, down: int, right: int, fill: float = 0.0) -> Array:
    """Moved; what comes in is `fill`."""
    moved = np.full_like(image, fill)
    H, W = image.shape[-2:]
    if abs(down) < H and abs(right) < W:
        to = tuple(slice(max(0, n), size + min(0, n)) for n, size in ((down, H), (right, W)))
        source = tuple(slice(max(0, -n), size - max(0, n)) for n, size in ((down, H), (right, W)))
        moved[(..., *to)] = image[(..., *source)]
    return moved


def flip(image: Array, axis: int = -1) -> Array:
    """Mirrored; twice is the image."""
    return np.flip(image, axis)


def rot90(image: Array, turns: int = 1) -> Array:
    """Turned by quarters, anticlockwise; four are the image."""
    return np.rot90(image, turns, axes=(-2, -1))


def scale(image: Array, factor: int) -> Array:
    """Every pixel `factor` times along both axes."""
    return image.repeat(factor, axis=-2).repeat(factor, axis=-1)
