"""Checkpoints: any tree of dicts, lists, scalars and arrays as one safetensors file, never pickle.

(The checkpoints that spare memory, `checkpoint` and `checkpoint_sequential`, have PyTorch's names here, and their code
in `segments`.)

Arrays are stored under their path in the tree (`model.blocks.0.fc.weight`), so that other safetensors readers find
them; the rest of the tree is JSON in the file's metadata, where `{"$tensor": path}` stands for an array.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes
from safetensors.numpy import save_file

from tinygrad_lite.errors import UserError
from tinygrad_lite.utils.segments import checkpoint as checkpoint
from tinygrad_lite.utils.segments import checkpoint_sequential as checkpoint_sequential

KEY = "tinygrad_lite.checkpoint"  # alone in the metadata, whose order is not kept: equal trees are equal files
VERSION = 1


class CheckpointError(UserError):
    """A checkpoint that cannot be written, read, or used for what it was asked for."""


def save(path: str | Path | IO[bytes], tree: Mapping[str, Any]) -> None:
    """Write `tree` to `path`: whole or not at all, since the file is renamed into place once it is on the disk.

    To a binary file object, such as a BytesIO, it is written where that stands.
    """
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps({"version": VERSION, "tree": _pack(tree, "", arrays)})
    if not isinstance(path, str | os.PathLike):
        path.write(to_bytes(arrays, metadata={KEY: text}))
        return
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        save_file(arrays, temporary, metadata={KEY: text})
        _flush(temporary)
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"cannot write {path}: {_reason(error)}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def load(path: str | Path | IO[bytes], foreign: bool = False) -> dict[str, Any]:
    """The tree that `save` wrote, arrays as NumPy arrays; CheckpointError where the file is not one, or not whole.

    Args:
        path: or a binary file object, which is read to its end.
        foreign: of a safetensors file that another library wrote, take the arrays by their names.
    """
    if not isinstance(path, str | os.PathLike):
        return _load_object(path, foreign)
    metadata, arrays = _read(path)
    if KEY not in metadata and foreign:
        return dict(arrays)
    if KEY not in metadata:
        raise CheckpointError(f"{path} is a safetensors file, but not a checkpoint of tinygrad_lite")
    try:
        contents = json.loads(metadata[KEY])
        if contents["version"] == VERSION:
            return _unpack(contents["tree"], arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: {type(error).__name__} {error} in its tree") from error
    raise CheckpointError(f"{path} has checkpoint version {contents['version']}; this program reads {VERSION}")


def _load_object(file: IO[bytes], foreign: bool) -> dict[str, Any]:
    """Through a file on the disk: safetensors reads metadata from nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, f"the {type(file).__name__}")
        copy.write_bytes(file.read())
        try:
            return load(copy, foreign)
        except CheckpointError as error:
            raise CheckpointError(str(error).replace(str(copy), copy.name)) from error


def check_arrays(expected: Mapping[str, Any], found: Mapping[str, Any], path: str | Path) -> None:
    """CheckpointError unless `found` has the names, shapes and dtypes of `expected` (a state_dict)."""
    differences = list(_differences(expected, found))
    if differences:
        more = f" (and {len(differences) - 1} more differences)" if len(differences) > 1 else ""
        raise CheckpointError(f"{path} holds another architecture: {differences[0]}{more}")


def to_array(value: Any) -> np.ndarray:
    """The NumPy array of a Tensor (detached) or array, in C order."""
    if hasattr(value, "detach"):
        value = value.detach().numpy()
    return np.asarray(value, order="C")


def _differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{key} is missing" for key in expected if key not in found)
    yield from (f"{key} is unknown to this model" for key in found if key not in expected)
    for key in expected.keys() & found.keys():
        ours, theirs = to_array(expected[key]), to_array(found[key])
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            yield f"{key} is {theirs.dtype}{list(theirs.shape)}, expected {ours.dtype}{list(ours.shape)}"


def _pack(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) or hasattr(value, "detach"):
        if path in arrays:  # {"a.b": x} beside {"a": {"b": y}}
            raise ValueError(f"two arrays of this checkpoint have the path {path}")
        arrays[path] = to_array(value)
        return {"$tensor": path}
    if isinstance(value, Mapping):
        packed = [(key, _pack(item, _join(path, key), arrays)) for key, item in value.items()]
        plain = all(isinstance(key, str) and not key.startswith("$") for key, _ in packed)
        return dict(packed) if plain else {"$items": packed}
    if isinstance(value, (list, tuple)):
        items = [_pack(item, _join(path, i), arrays) for i, item in enumerate(value)]
        return items if isinstance(value, list) else {"$tuple": items}
    raise TypeError(f"a checkpoint cannot hold a {type(value).__name__} (at {path or 'its root'})")


def _unpack(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_unpack(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "$tensor" in value:
        return arrays[value["$tensor"]]
    if "$items" in value:
        return {key: _unpack(item, arrays) for key, item in value["$items"]}
    if "$tuple" in value:
        return tuple(_unpack(item, arrays) for item in value["$tuple"])
    return {key: _unpack(item, arrays) for key, item in value.items()}


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _read(path: str | Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    try:
        with safe_open(path, framework="numpy") as file:
            return file.metadata() or {}, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {_reason(error)}") from error
    except SafetensorError as error:
        raise CheckpointError(f"{path} is not a whole safetensors file: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).splitlines()[0]


def _flush(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
