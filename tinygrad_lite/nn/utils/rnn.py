"""Sequences of several lengths in one tensor: padded to the longest, or packed without padding. PyTorch's names.

Lengths are read when these functions run, so that within tl.compile they must be given as a list, or as a tensor that
holds a value: they shape the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.tensor import Tensor, cat, full, stack, where

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence(NamedTuple):
    """The elements of all sequences, those of the first step first; sequences are sorted, the longest first.

    Attributes:
        data: (total length, *).
        batch_sizes: int64, how many sequences reach each step.
        sorted_indices: where the sorted sequences come from, or None where they were sorted already.
        unsorted_indices: the way back.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None


def _constant(values: Any) -> Tensor:
    """An int64 tensor with a value, also within a capture."""
    return Tensor._from_node(leaf(np.asarray(values, np.int64)))


def _read(values: Any) -> list[int]:
    """A list, or a tensor that holds a value, as integers."""
    if isinstance(values, Tensor):
        node = values._node
        if node.value is None or (values._base is not None and mode.trace is not None):
            return [int(v) for v in values.tolist()]  # raises with the user's line
        return [int(v) for v in node.value.tolist()]
    return [int(v) for v in values]


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes `permutation`."""
    return None if permutation is None else _constant(np.argsort(_read(permutation), kind="stable"))


def _rows(batch_sizes: Sequence[int], batch: int) -> np.ndarray[Any, Any]:
    """Positions in (time · batch) of the packed elements, in order."""
    return np.concatenate([np.arange(n) + t * batch for t, n in enumerate(batch_sizes)])


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack (time, batch, *) without its padding.

    Args:
        lengths: of each sequence: a list or an int64 tensor.
        batch_first: input is (batch, time, *).
        enforce_sorted: the sequences are sorted by length, longest first; else they are sorted here.

    Raises:
        RuntimeError: lengths that are not sorted, not positive, too long, or not one a sequence.
    """
    given = _read(lengths)
    x = input.transpose(0, 1) if batch_first else input
    _check_lengths(given, x, enforce_sorted)
    order = None
    if not enforce_sorted:
        order = sorted(range(len(given)), key=lambda i: -given[i])
        x, given = x[:, _constant(order)], [given[i] for i in order]
    x = x[: given[0]]
    sizes = [sum(n > t for n in given) for t in range(given[0])]
    flat = x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
    data = flat[_constant(_rows(sizes, x.shape[1]))]
    indices = None if order is None else _constant(order)
    return PackedSequence(data, _constant(sizes), indices, invert_permutation(indices))


def _check_lengths(lengths: Sequence[int], x: Tensor, enforce_sorted: bool) -> None:
    if len(lengths) != x.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={x.shape[1]})"
        )
    if any(n <= 0 for n in lengths):
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if enforce_sorted and any(a < b for a, b in pairwise(lengths)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence to sidestep this requirement"
        )
    if max(lengths) > x.shape[0]:
        raise RuntimeError(f"pack_padded_sequence: a length of {max(lengths)} exceeds the input's {x.shape[0]} steps")


def _lengths(batch_sizes: Sequence[int]) -> list[int]:
    return [sum(n > i for n in batch_sizes) for i in range(batch_sizes[0])]


def position_mask(lengths: Any, steps: int) -> Tensor:
    """(time, batch) bool: is the position within its sequence?"""
    inside = np.arange(steps)[:, None] < np.asarray(_read(lengths))[None]
    return Tensor._from_node(leaf(inside))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """(time, batch, *), or batch first, with `padding_value` past the end of each sequence; and the lengths.

    Raises:
        ValueError: total_length less than the longest sequence.
    """
    sizes = _read(sequence.batch_sizes)
    steps, batch = len(sizes) if total_length is None else total_length, sizes[0]
    if steps < len(sizes):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={steps} and max sequence length being {len(sizes)}"
        )
    where_from = np.zeros(steps * batch, np.int64)
    rows = _rows(sizes, batch)
    where_from[rows] = np.arange(len(rows))
    lengths = _lengths(sizes)
    inside = position_mask(lengths, steps)
    data = sequence.data
    padded = data[_constant(where_from)].reshape(steps, batch, *data.shape[1:])
    mask = inside.reshape(steps, batch, *[1] * (len(data.shape) - 1))
    padded = where(mask, padded, full((), padding_value, dtype=data.dtype))
    if sequence.unsorted_indices is not None:
        padded = padded[:, sequence.unsorted_indices]
        lengths = [lengths[i] for i in _read(sequence.unsorted_indices)]
    return (padded.transpose(0, 1) if batch_first else padded), _constant(lengths)


def repacked(padded: Tensor, like: PackedSequence) -> PackedSequence:
    """(time, batch, *) in the sorted order of `like`, packed as that is."""
    flat = padded.reshape(padded.shape[0] * padded.shape[1], *padded.shape[2:])
    rows = _constant(_rows(_read(like.batch_sizes), padded.shape[1]))
    return PackedSequence(flat[rows], *like[1:])


def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Stack sequences (length_i, *) into (time, batch, *), or batch first, padded to the longest.

    Raises:
        ValueError: padding_side is neither left nor right. RuntimeError: no sequences, or trailing sizes that differ.
    """
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side should be one of 'left' or 'right', not {padding_side!r}")
    listed = list(sequences)
    if not listed:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    longest = max(s.shape[0] for s in listed)
    padded = []
    for s in listed:
        if s.shape[1:] != listed[0].shape[1:]:
            raise RuntimeError(
                f"pad_sequence: trailing sizes differ: {list(listed[0].shape[1:])} and {list(s.shape[1:])}"
            )
        gap = full((longest - s.shape[0], *s.shape[1:]), padding_value, dtype=s.dtype)
        padded.append(cat([s, gap] if padding_side == "right" else [gap, s], 0))
    return stack(padded, 0 if batch_first else 1)


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (length_i, *)."""
    return pack_padded_sequence(pad_sequence(sequences), [s.shape[0] for s in sequences], False, enforce_sorted)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences without their padding."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [rows[i, :n] for i, n in enumerate(_read(lengths))]


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed tensor."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)
