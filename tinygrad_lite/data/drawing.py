"""Random numbers by the batch: what a loader's threads draw does not depend on which of them comes first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class Pass:
    """One pass of a loader. Each generator that is asked for in it gives one number, which its batches start from."""

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}
        self._lock = threading.Lock()

    def start(self, own: np.random.Generator) -> int:
        """The number that a generator gave to this pass."""
        with self._lock:
            if id(own) not in self._starts:
                self._starts[id(own)] = int(own.integers(2**63))
            return self._starts[id(own)]


class _Batch:
    """The batch that a thread puts together."""

    def __init__(self, of: Pass, number: int) -> None:
        self.of, self.number = of, number
        self.generators: dict[int, np.random.Generator] = {}


_reading = threading.local()


@contextmanager
def reading(of: Pass, number: int) -> Iterator[None]:
    """Within, this thread reads a pass's batch of that number."""
    _reading.batch = _Batch(of, number)
    try:
        yield
    finally:
        _reading.batch = None


def generator(own: np.random.Generator) -> np.random.Generator:
    """What to draw from in place of `own`: while a batch is read, a generator of this batch."""
    batch: _Batch | None = getattr(_reading, "batch", None)
    if batch is None:
        return own
    if id(own) not in batch.generators:
        batch.generators[id(own)] = np.random.default_rng([batch.of.start(own), batch.number])
    return batch.generators[id(own)]
