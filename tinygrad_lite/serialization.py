"""save and load: trees of tensors as safetensors files, never pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from tinygrad_lite.creation import from_numpy
from tinygrad_lite.utils import checkpoint


def save(obj: Mapping[str, Any], f: str | Path | IO[bytes]) -> None:
    """Write a state dict, or any dict of tensors, numbers, strings, lists and dicts, to a file; whole or not at all.

    `f` is a path, or a binary file object such as a BytesIO.

    Raises:
        TypeError: something a checkpoint cannot hold. CheckpointError: the file cannot be written.
    """
    if not isinstance(obj, Mapping):
        raise TypeError(f"save() takes a dict such as model.state_dict(), not a {type(obj).__name__}")
    checkpoint.save(f, obj)


def load(f: str | Path | IO[bytes], map_location: Any = None, weights_only: bool = True) -> dict[str, Any]:
    """What `save` wrote, its arrays as tensors; of any other safetensors file, such as PyTorch's, tensors by name.

    Raises:
        CheckpointError: no safetensors file, or not a whole one.
    """
    return _tensors(checkpoint.load(f, foreign=True))  # type: ignore[no-any-return]


def _tensors(tree: Any) -> Any:
    if isinstance(tree, np.ndarray):
        return from_numpy(tree)
    if isinstance(tree, dict):
        return {key: _tensors(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_tensors(value) for value in tree)
    return tree
