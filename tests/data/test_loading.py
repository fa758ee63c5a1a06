"""Data sets, loaders and augmentation."""

from __future__ import annotations

import threading
import time
from collections import namedtuple

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite.data import (
    Compose,
    ConcatDataset,
    DataLoader,
    Dataset,
    GaussianNoise,
    Mapped,
    RandomCrop,
    RandomHorizontalFlip,
    RandomRotation90,
    RandomShift,
    RandomVerticalFlip,
    Subset,
    TensorDataset,
    default_collate,
    pad_collate,
    random_split,
)
from tinygrad_lite.data.augmentation import flip, rot90, scale, shift
from tinygrad_lite.utils import data as torch_names


class Squares(Dataset):
    """i and i²; remembers which threads asked."""

    def __init__(self, size: int = 23) -> None:
        self.size, self.threads = size, set()

    def __getitem__(self, index):
        if not 0 <= index < self.size:
            raise IndexError(index)
        self.threads.add(threading.current_thread().name)
        return np.float32(index), index * index

    def __len__(self):
        return self.size


def flat(loader) -> list[int]:
    return [int(i) for x, _ in loader for i in x.numpy()]


@pytest.mark.parametrize("workers", [0, 3])
def test_batches(workers):
    data = Squares()
    batches = list(DataLoader(data, 5, num_workers=workers))
    assert [len(x) for x, _ in batches] == [5, 5, 5, 5, 3] and len(DataLoader(data, 5)) == 5
    x, y = batches[1]
    assert (x.dtype, y.dtype) == (tl.float32, tl.int64)
    np.testing.assert_array_equal(y.numpy(), np.arange(5, 10) ** 2)
    assert len(list(DataLoader(data, 5, drop_last=True, num_workers=workers))) == 4
    assert any("loader" in name for name in data.threads) == bool(workers)


@pytest.mark.parametrize("workers", [0, 2])
def test_shuffling_is_a_function_of_the_seed(workers):
    def loader(seed):
        return DataLoader(Squares(), 4, shuffle=True, generator=seed, num_workers=workers)

    once, again = loader(7), loader(7)
    first, second = flat(once), flat(once)
    assert first == flat(again) and second == flat(again) and first != second != sorted(second)
    assert sorted(first) == list(range(23)) and flat(loader(8)) != first
    tl.manual_seed(3)
    a = flat(DataLoader(Squares(), 4, shuffle=True))
    tl.manual_seed(3)
    assert flat(DataLoader(Squares(), 4, shuffle=True)) == a
    assert flat(DataLoader(Squares(), 4, shuffle=True, generator=tl.Generator())) != a


def test_orders_of_ones_own():
    assert flat(DataLoader(Squares(), 2, sampler=[5, 3, 1])) == [5, 3, 1]
    batches = [[1, 2, 3], [4]]
    loader = DataLoader(Squares(), batch_sampler=batches)
    assert [x.numpy().tolist() for x, _ in loader] == batches and len(loader) == 2
    assert list(DataLoader(Squares(3), batch_size=None)) == [(0.0, 0), (1.0, 1), (2.0, 4)]
    stream = DataLoader((np.int64(i) for i in range(5)), 2)
    assert [b.numpy().tolist() for b in stream] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_items_reach_the_loop(workers):
    with pytest.raises(IndexError, match="99"):
        list(DataLoader(Squares(), 2, sampler=[1, 99], num_workers=workers))
    for batch in DataLoader(Squares(), 2, num_workers=workers):  # leaving early leaves no thread behind
        assert len(batch[0]) == 2
        break
    assert not any("loader" in t.name for t in threading.enumerate())


def test_collating():
    Pair = namedtuple("Pair", "a b")
    items = [Pair({"x": 1.5, "name": "q"}, [tl.ones(2), True]), Pair({"x": 2.5, "name": "r"}, [tl.zeros(2), False])]
    batch = default_collate(items)
    assert isinstance(batch, Pair) and batch.a["name"] == ["q", "r"] and batch.a["x"].numpy().tolist() == [1.5, 2.5]
    assert batch.b[0].shape == (2, 2) and batch.b[1].dtype is tl.bool
    with pytest.raises(ValueError, match=r"different shapes \[\(2,\), \(3,\)\]"):
        default_collate([np.zeros(2), np.zeros(3)])
    with pytest.raises(TypeError, match="object"):
        default_collate([object()])
    ids, filler = pad_collate([[1, 2, 3], [4]], pad=9)
    assert ids.numpy().tolist() == [[1, 2, 3], [4, 9, 9]] and filler.numpy().sum() == 2
    assert pad_collate([[1]], length=4)[0].shape == (1, 4)
    with pytest.raises(ValueError, match="3 ids exceeds length 2"):
        pad_collate([[1, 2, 3]], length=2)


def test_data_sets():
    data = TensorDataset(tl.arange(6), np.arange(6) * 2)
    assert len(data) == 6 and data[4][1] == 8
    both = data + Subset(data, [0, 2])
    assert isinstance(both, ConcatDataset) and len(both) == 8 and both[-1][1] == 4 and both[6][1] == 0
    with pytest.raises(IndexError, match="8 is out of range of 8"):
        both[8]
    parts = random_split(Squares(10), [0.7, 0.3], generator=1)
    assert [len(p) for p in parts] == [7, 3] and sorted(i for p in parts for i in p.indices) == list(range(10))
    assert [len(p) for p in random_split(Squares(5), [2, 3])] == [2, 3]
    mapped = Mapped(Squares(3), lambda x: x + 1, lambda y: -y)
    assert mapped[2] == (3.0, -4) and len(mapped) == 3
    with pytest.raises(ValueError, match="one length, got 2, 3"):
        TensorDataset(np.zeros(2), np.zeros(3))
    with pytest.raises(ValueError, match="add up to the 5 items"):
        random_split(Squares(5), [2, 2])
    assert torch_names.DataLoader is DataLoader


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"num_workers": -1}, "num_workers -1"),
        ({"shuffle": True, "sampler": [0]}, "shuffle and a sampler"),
        ({"batch_sampler": [[0]], "batch_size": 4}, "batch_sampler excludes"),
    ],
)
def test_loaders_refuse(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(Squares(), **options)


# ---- augmentation ------------------------------------------------------------------------------------------

IMAGES = np.random.default_rng(0).random((6, 2, 5, 5)).astype(np.float32)


def test_changes():
    image = IMAGES[0]
    np.testing.assert_array_equal(flip(flip(image)), image)
    turned = image
    for _ in range(4):
        turned = rot90(turned)
    np.testing.assert_array_equal(turned, image)
    np.testing.assert_array_equal(shift(image, 1, -2, fill=7)[:, 1:, :-2], image[:, :-1, 2:])
    assert np.all(shift(image, 1, -2, fill=7)[:, 0] == 7) and np.all(shift(image, 9, 0) == 0)
    np.testing.assert_array_equal(scale(image, 2)[:, ::2, 1::2], image)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: RandomShift(2, seed=seed),
        lambda seed: RandomHorizontalFlip(seed=seed),
        lambda seed: RandomVerticalFlip(seed=seed),
        lambda seed: RandomCrop(4, padding=1, seed=seed),
        lambda seed: RandomRotation90(seed=seed),
        lambda seed: GaussianNoise(0.3, seed=seed),
        lambda seed: Compose([RandomShift(1, seed=seed), GaussianNoise(0.1, seed=seed)]),
    ],
)
def test_augmentations_follow_their_seed(make):
    one, same, other = (make(seed)(IMAGES) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert one.dtype == np.float32 and one.shape[:2] == (6, 2)
    np.testing.assert_array_equal(make(1)(tl.tensor(IMAGES)), one)
    assert make(3)(IMAGES[0, 0]).ndim == 2


class Pictures:
    """Images whose reading takes times of its own, so that threads overtake each other."""

    def __len__(self):
        return 12

    def __getitem__(self, i):
        time.sleep(0.003 * (i % 3))
        return np.full((1, 6, 6), i, np.float32), i


@pytest.mark.parametrize("where", ["items", "batch"])
def test_augmentations_do_not_depend_on_threads(where):
    """Seeded, each pass anew, item by item or in collate_fn: the same with no worker and with three."""

    def passes(workers, seed):
        change = Compose([GaussianNoise(0.1, seed=seed), RandomShift(2, p=0.5, seed=seed)])
        data = Mapped(Pictures(), change) if where == "items" else Pictures()

        def changed(items):
            x, y = default_collate(items)
            return tl.from_numpy(change(x)) if where == "batch" else x, y

        # two loaders over the same data, as where one is made an epoch
        loaders = [DataLoader(data, 2, num_workers=workers, collate_fn=changed) for _ in range(2)]
        return [np.concatenate([x.numpy() for x, _ in loaders[i]]) for i in (0, 0, 1)]

    alone, together, other = passes(0, 1), passes(3, 1), passes(3, 2)
    for a, b, c in zip(alone, together, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)
    assert not np.array_equal(alone[0], alone[1]) and not np.array_equal(alone[1], alone[2])
    assert not np.array_equal(alone[0][0] - 0, alone[0][2] - 2), "two batches were changed alike"


def test_augmentations_refuse():
    for call, message in (
        (lambda: RandomHorizontalFlip(2.0), "p must lie"),
        (lambda: RandomCrop(9)(IMAGES), r"window of \(9, 9\)"),
        (lambda: RandomShift(-1), "most"),
        (lambda: GaussianNoise(-1), "std"),
        (lambda: GaussianNoise()(np.zeros(3)), r"shape \(3,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    np.testing.assert_array_equal(RandomShift(3, p=0.0)(IMAGES), IMAGES)
