"""Data sets and batches of them, after torch.utils.data: shuffled by a seed, put together by worker threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from tinygrad_lite import creation, functional, randomness
from tinygrad_lite.data import drawing
from tinygrad_lite.generator import Generator
from tinygrad_lite.tensor import Tensor


class Dataset:
    """Anything with __getitem__(index) and __len__()."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no __getitem__()")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class TensorDataset(Dataset):
    """Rows of tensors or arrays of one length: item i is the tuple of their rows i.

    Raises:
        ValueError: tensors of different length.
    """

    def __init__(self, *tensors: Any) -> None:
        if not tensors or any(len(t) != len(tensors[0]) for t in tensors):
            sizes = ", ".join(str(len(t)) for t in tensors)
            raise ValueError(f"TensorDataset: needs tensors of one length, got {sizes or 'none'}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])


class Mapped(Dataset):
    """Another data set, its items (or the first part of them) passed through functions."""

    def __init__(
        self, dataset: Any, transform: Callable[..., Any], target_transform: Callable[..., Any] | None = None
    ) -> None:
        self.dataset, self.transform, self.target_transform = dataset, transform, target_transform

    def __getitem__(self, index: int) -> Any:
        item = self.dataset[index]
        if not isinstance(item, tuple):
            return self.transform(item)
        rest = item[1:] if self.target_transform is None else (self.target_transform(item[1]), *item[2:])
        return (self.transform(item[0]), *rest)

    def __len__(self) -> int:
        return len(self.dataset)


class Subset(Dataset):
    """The items of a data set at given indices."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """Several data sets one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))
        if not self.datasets:
            raise ValueError("ConcatDataset: needs one data set at least")

    def __getitem__(self, index: int) -> Any:
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range of {size} items")
        index %= size
        which = int(np.searchsorted(self.cumulative_sizes, index, side="right"))
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset]:
    """Disjoint random parts, of given lengths or of fractions that add up to 1.

    Raises:
        ValueError: lengths that do not add up to the whole.
    """
    total = len(dataset)
    sizes = [int(n) for n in lengths]
    if abs(sum(lengths) - 1) < 1e-9 and any(n != int(n) or len(lengths) == 1 for n in lengths):
        sizes = [int(total * n) for n in lengths]
        for i in range(total - sum(sizes)):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != total:
        raise ValueError(f"random_split: lengths {list(lengths)} do not add up to the {total} items")
    order = _rng(generator).permutation(total).tolist()
    ends = list(itertools.accumulate(sizes))
    return [Subset(dataset, order[end - n : end]) for n, end in zip(sizes, ends, strict=True)]


def _rng(generator: Any) -> np.random.Generator:
    """A NumPy generator of a seed, a Generator, or tl's default one."""
    if isinstance(generator, np.random.Generator):
        return generator
    if isinstance(generator, int):
        return np.random.default_rng(generator)
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(f"generator must be a seed or a Generator, not {type(generator).__name__}")
    return np.random.default_rng(int(randomness.randint(0, 2**31 - 1, (1,), generator=generator).item()))


def default_collate(items: Sequence[Any]) -> Any:
    """Items as one batch: arrays, tensors and numbers stacked, tuples, lists and dicts part by part.

    Raises:
        ValueError: parts of different shape. TypeError: something that cannot be stacked.
    """
    first = items[0]
    if isinstance(first, dict):
        return {key: default_collate([item[key] for item in items]) for key in first}
    if isinstance(first, tuple | list):
        parts = (default_collate(part) for part in zip(*items, strict=True))
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if isinstance(first, str):
        return list(items)
    if isinstance(first, Tensor):
        return functional.stack(list(items))
    if isinstance(first, float):  # as creation.tensor reads one
        return creation.tensor(list(items))
    if isinstance(first, np.ndarray | np.generic | bool | int):
        arrays = [np.asarray(item) for item in items]
        if any(a.shape != arrays[0].shape for a in arrays):
            shapes = sorted({a.shape for a in arrays})
            raise ValueError(f"items of one batch have different shapes {shapes}: pad them in collate_fn")
        return creation.from_numpy(np.stack(arrays))
    raise TypeError(f"default_collate: cannot put {type(first).__name__} into a batch; give a collate_fn")


def pad_collate(items: Sequence[Sequence[int]], pad: int = 0, length: int | None = None) -> tuple[Tensor, Tensor]:
    """Sequences of ids as one (B, T) batch filled up with `pad`, and where it is filler (True).

    Raises:
        ValueError: a sequence longer than `length`.
    """
    longest = max(len(item) for item in items)
    if length is not None and longest > length:
        raise ValueError(f"pad_collate: a sequence of {longest} ids exceeds length {length}")
    ids = np.full((len(items), longest if length is None else length), pad, np.int64)
    filler = np.ones(ids.shape, bool)
    for row, item in enumerate(items):
        ids[row, : len(item)] = item
        filler[row, : len(item)] = False
    return creation.from_numpy(ids), creation.from_numpy(filler)


class DataLoader:
    """Batches of a data set, in order or shuffled anew for each pass.

    Args:
        dataset: with __getitem__ and __len__, or an iterable.
        batch_size: items a batch; None gives single items as they are.
        shuffle: in another order each pass, which `generator` decides: a seed gives the same passes each time.
        num_workers: threads that read items and put batches together; 0 reads in this thread. Results do not depend on
            it, augmentations included, so long as the data set's items do not.
        collate_fn: makes a batch of a list of items.
        drop_last: leave out a last batch that is not full.
        sampler, batch_sampler: iterables of indices, or of lists of indices, in place of an order.
        prefetch_factor: batches each worker is ahead.

    Raises:
        ValueError: arguments that contradict each other or lie out of range.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        generator: Any = None,
        *,
        prefetch_factor: int = 2,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"DataLoader: batch_size must be at least 1, not {batch_size}")
        if num_workers < 0 or prefetch_factor < 1:
            raise ValueError(f"DataLoader: num_workers {num_workers} or prefetch_factor {prefetch_factor} is too small")
        if shuffle and (sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader: shuffle and a sampler exclude each other")
        if batch_sampler is not None and (sampler is not None or batch_size != 1 or drop_last):
            raise ValueError("DataLoader: batch_sampler excludes batch_size, sampler and drop_last")
        self.iterable = not hasattr(dataset, "__getitem__")
        if self.iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader: an iterable data set has no order to choose")
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.sampler, self.batch_sampler, self.num_workers = sampler, batch_sampler, num_workers
        self.collate_fn = default_collate if collate_fn is None else collate_fn
        self.prefetch_factor = prefetch_factor
        self.rng = _rng(generator) if shuffle and generator is not None else None

    def _order(self) -> Iterable[int]:
        if self.sampler is not None:
            return self.sampler
        if not self.shuffle:
            return range(len(self.dataset))
        return (self.rng or _rng(None)).permutation(len(self.dataset)).tolist()

    def _batches(self) -> Iterator[Sequence[int]]:
        if self.batch_sampler is not None:
            yield from self.batch_sampler
            return
        yield from self._cut(self._order())

    def _cut(self, items: Iterable[Any]) -> Iterator[list[Any]]:
        iterator = iter(items)
        while chunk := list(itertools.islice(iterator, self.batch_size or 1)):
            if len(chunk) == self.batch_size or not self.drop_last or self.batch_size is None:
                yield chunk

    def _read(self, turn: drawing.Pass, number: int, indices: Sequence[int]) -> Any:
        with drawing.reading(turn, number):
            items = [self.dataset[i] for i in indices]
            return items[0] if self.batch_size is None and self.batch_sampler is None else self.collate_fn(items)

    def __iter__(self) -> Iterator[Any]:
        if self.iterable:
            for items in self._cut(self.dataset):
                yield items[0] if self.batch_size is None else self.collate_fn(items)
        elif self.num_workers:
            yield from self._threaded()
        else:
            turn = drawing.Pass()
            for number, indices in enumerate(self._batches()):
                yield self._read(turn, number, indices)

    def _threaded(self) -> Iterator[Any]:
        turn = drawing.Pass()
        with ThreadPoolExecutor(self.num_workers, thread_name_prefix="loader") as pool:
            waiting: list[Future[Any]] = []
            try:
                for number, indices in enumerate(self._batches()):
                    waiting.append(pool.submit(self._read, turn, number, indices))
                    if len(waiting) >= self.num_workers * self.prefetch_factor:
                        yield waiting.pop(0).result()
                while waiting:
                    yield waiting.pop(0).result()
            finally:
                for future in waiting:
                    future.cancel()

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]
        count = len(self.dataset if self.sampler is None else self.sampler)  # type: ignore[arg-type]
        size = self.batch_size or 1
        return count // size if self.drop_last and self.batch_size else -(-count // size)
