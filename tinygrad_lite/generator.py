"""Random number generators: a seed and an offset into its stream, tensors so that captures see them as state."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np

from tinygrad_lite.device import CPU, check_device
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.ir.types import DType, int64
from tinygrad_lite.ops import create
from tinygrad_lite.ops import elementwise as ew

DEFAULT_SEED = 67280421310721


def _scalar(value: int) -> Node:
    return leaf(np.array(value, np.int64))


class Generator:
    """A stream of random numbers; eager and compiled calls draw the same ones.

    Attributes:
        seed_value, offset: 0-d int64 tensors. Each draw of n numbers takes n counters and moves the offset on by n.
    """

    def __init__(self, device: str = "cpu") -> None:
        check_device(device)
        self.device = CPU
        self.seed_value = Tensor._from_node(_scalar(DEFAULT_SEED))
        self.offset = Tensor._from_node(_scalar(0))

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` from its beginning. TypeError unless an integer."""
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            raise TypeError(f"manual_seed expected an int, got {type(seed).__name__}")
        word = int(seed.__index__()) & (2**64 - 1)
        self._set(word - 2**64 if word >= 2**63 else word, 0)
        return self

    def _set(self, seed: int, offset: int) -> None:
        for handle, value in ((self.seed_value, seed), (self.offset, offset)):
            handle._rebind(_scalar(value) if mode.trace is None else create.full((), value, int64), keep_history=False)

    def seed(self) -> int:
        """Seed from the operating system; returns the seed."""
        value = int.from_bytes(os.urandom(7), "little")
        self.manual_seed(value)
        return value

    def initial_seed(self) -> int:
        """The seed in use."""
        return self.seed_value.item()  # type: ignore[no-any-return]

    def get_state(self) -> Tensor:
        """(seed, offset) as an int64 tensor."""
        return Tensor._from_node(leaf(np.array([self.seed_value.item(), self.offset.item()], np.int64)))

    def set_state(self, new_state: Tensor) -> Generator:
        """Take a state from `get_state`."""
        if new_state.dtype is not int64 or tuple(new_state.shape) != (2,):
            raise TypeError(f"a generator state is an int64 tensor of 2 elements, got {new_state._node.type}")
        self._set(*new_state.tolist())
        return self

    def take(self, count: int) -> tuple[Node, Node]:
        """(seed, offset) for a random op that uses `count` counters, which are then used up."""
        if mode.trace is not None:
            count = mode.trace.draws(count)
        seed, offset = self.seed_value._read(), self.offset._read()
        with mode.set(grad_enabled=False):
            self.offset._rebind(ew.add(offset, count), keep_history=False)
        return seed, offset

    def draw(self, build: Callable[..., Node], shape: Sequence[int], dtype: DType) -> Node:
        """Numbers of the distribution that `build` (ops.random.uniform or normal) makes."""
        count = 1
        for n in shape:
            count *= n
        seed, offset = self.take(count)
        return build(seed, offset, shape, dtype)


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the operating system."""
    return default_generator.seed()


def initial_seed() -> int:
    """The default generator's seed."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Restore the default generator's state."""
    default_generator.set_state(new_state)
