"""Data sets and batches of them, and changes of images, that need nothing but NumPy."""

from tinygrad_lite.data.augmentation import (
    Augmentation,
    Compose,
    GaussianNoise,
    RandomCrop,
    RandomHorizontalFlip,
    RandomRotation90,
    RandomShift,
    RandomVerticalFlip,
)
from tinygrad_lite.data.loading import (
    ConcatDataset,
    DataLoader,
    Dataset,
    Mapped,
    Subset,
    TensorDataset,
    default_collate,
    pad_collate,
    random_split,
)
from tinygrad_lite.data.text import CharVocabulary, TextDataset, python_reference, read_text

__all__ = [
    "Augmentation",
    "CharVocabulary",
    "Compose",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "GaussianNoise",
    "Mapped",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomRotation90",
    "RandomShift",
    "RandomVerticalFlip",
    "Subset",
    "TensorDataset",
    "TextDataset",
    "default_collate",
    "pad_collate",
    "python_reference",
    "random_split",
    "read_text",
]
