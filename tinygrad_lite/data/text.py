"""Text as character ids, and batches of it that are a pure function of (seed, step)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tinygrad_lite.errors import UserError

Batch = tuple[np.ndarray, np.ndarray]


def python_reference() -> str:
    """The language reference that ships inside Python (`help("topics")`): about 465 KB of English."""
    from pydoc_data.topics import topics  # type: ignore[import-not-found]  # no stub ships with it

    return "".join(topics.values())


def read_text(path: str | Path) -> str:
    """The contents of a UTF-8 text file; UserError where there is none."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: byte 0x{error.object[error.start]:02x} at {error.start}") from error
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not text:
        raise UserError(f"{path} is empty")
    return text


class CharVocabulary:
    """A character's id is its place in `characters`, which are distinct and sorted by code point."""

    def __init__(self, characters: str) -> None:
        self._codes = _code_points(characters)
        if not len(self._codes):
            raise UserError("a vocabulary needs at least one character")
        if np.any(self._codes[1:] <= self._codes[:-1]):
            raise UserError("the characters of a vocabulary are distinct and sorted")
        self.characters = characters

    @classmethod
    def of(cls, text: str) -> CharVocabulary:
        """The vocabulary of the characters that occur in `text`."""
        return cls("".join(sorted(set(text))))

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> np.ndarray:
        """int64 ids of `text`; UserError names the first character that has none."""
        codes = _code_points(text)
        ids = np.searchsorted(self._codes, codes).clip(max=len(self) - 1)
        unknown = np.flatnonzero(self._codes[ids] != codes)
        if len(unknown):
            place = int(unknown[0])
            raise UserError(f"character {text[place]!r} at {place} is not one of the vocabulary's {len(self)}")
        return ids.astype(np.int64)

    def decode(self, ids: np.ndarray | list[int]) -> str:
        """The text that `ids` stand for; IndexError where an id is out of range."""
        ids = np.asarray(ids, dtype=np.int64)
        if len(ids) and (ids.min() < 0 or ids.max() >= len(self)):
            raise IndexError(f"ids of this vocabulary lie in [0, {len(self)})")
        return "".join(map(self.characters.__getitem__, ids))


class TextDataset:
    """Ids of a text, served as (inputs, targets): windows of `block` ids and the same shifted by one.

    UserError where the text is too short for one window.
    """

    def __init__(self, ids: np.ndarray, block: int, name: str = "text") -> None:
        if len(ids) < block + 1:
            raise UserError(f"the {name} has {len(ids)} characters: one block of {block} needs {block + 1}")
        self.ids = np.asarray(ids, dtype=np.int64)
        self.block = block

    def __len__(self) -> int:
        """How many windows stand side by side."""
        return (len(self.ids) - 1) // self.block

    def batch(self, size: int, seed: int, step: int) -> Batch:
        """`size` windows at random places, (size, block) int64 twice. The same (seed, step) draws the same places."""
        starts = np.random.default_rng((seed, step)).integers(0, len(self.ids) - self.block, size)
        return self._at(starts)

    def batches(self, size: int, limit: int | None = None) -> Iterator[Batch]:
        """Windows side by side in batches of min(size, len(self)), the odd ones at the end left out.

        With `limit`, that many batches, spread evenly over the text.
        """
        size = min(size, len(self))
        whole = len(self) // size
        chosen = np.arange(whole) if limit is None or limit >= whole else np.arange(limit) * whole // limit
        for first in chosen:
            yield self._at(np.arange(first * size, (first + 1) * size) * self.block)

    def _at(self, starts: np.ndarray) -> Batch:
        places = starts[:, None] + np.arange(self.block)
        return self.ids[places], self.ids[places + 1]


def _code_points(text: str) -> np.ndarray:
    # surrogatepass: an argument that was not UTF-8 holds lone surrogates, and is to be refused by name
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
