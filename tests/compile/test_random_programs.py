"""Random programs of the Tensor API, with views and writes in place: compiled, they give what they give eagerly.

TINYGRAD_LITE_PROGRAMS=10000 searches longer. Where TINYGRAD_LITE_NUM_THREADS is given, also the smallest program is
divided among so many workers; with TINYGRAD_LITE_POISON=1 memory is filled with NaN before each run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tinygrad_lite as tl

PROGRAMS = int(os.environ.get("TINYGRAD_LITE_PROGRAMS", 300))
X = np.sin(0.7 + 1.3 * np.arange(12, dtype=np.float32)).reshape(3, 4)
Y = np.cos(np.arange(4, dtype=np.float32))
Step = tuple[str, int, int]
REFUSALS = ("modified by an inplace operation", "does not require grad and does not have a grad_fn")


def _row(x: tl.Tensor) -> int:
    return x.shape[0] - 1


# Everything below is continuous, so that sums taken in another order cannot choose another branch.
# Every result is a view of the operand.
VIEWS: dict[str, Callable[[tl.Tensor], tl.Tensor]] = {
    "t": lambda x: x.transpose(0, -1),
    "tail": lambda x: x[1:],
    "last row": lambda x: x[_row(x)],
    "every other": lambda x: x[..., ::2],
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.squeeze(),
    "flatten": lambda x: x.reshape(-1),
    "narrow": lambda x: x.narrow(-1, 0, max(1, x.shape[-1] // 2)),
    "detach": lambda x: x.detach(),
}
FRESH: dict[str, Callable[[tl.Tensor], tl.Tensor]] = {
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid() * 2 - 1,
    "exp": lambda x: (-x.abs()).exp(),
    "sum": lambda x: x.sum(0).tanh(),
    "mean": lambda x: x.mean(-1, keepdim=True),
    "amax": lambda x: x.amax(-1),
    "softmax": lambda x: x.softmax(-1),
    "cumsum": lambda x: x.cumsum(-1).tanh(),
    "flip": lambda x: x.flip(0),
    "cat": lambda x: tl.cat([x, x * 0.5]),
    "where": lambda x: tl.where(x > 0, x, -0.5 * x),
    "picked": lambda x: x[tl.tensor([0, -1, 0])],
    "gram": lambda x: (x.reshape(x.shape[0], -1) @ x.reshape(x.shape[0], -1).t()).tanh(),
    "noise": lambda x: x + 0.1 * tl.rand_like(x),
    "dropout": lambda x: tl.nn.functional.dropout(x, 0.3),
    "clone": lambda x: x.clone(),
}
BINARY: dict[str, Callable[[tl.Tensor, tl.Tensor], tl.Tensor]] = {
    "add": lambda x, y: (x + y) * 0.5,
    "mul": lambda x, y: x * y,
    "maximum": lambda x, y: tl.maximum(x, y),
    "lesser": lambda x, y: tl.where(x < y, x, y),
}
WRITES: dict[str, Callable[[tl.Tensor], Any]] = {
    "mul_": lambda x: x.mul_(0.75),
    "tanh_": lambda x: x.tanh_(),
    "zero_": lambda x: x.zero_(),
    "row =": lambda x: x.__setitem__(0, 0.25),
    "rows +=": lambda x: x.__setitem__(slice(1, None), x[1:] + 0.125),
    "mask =": lambda x: x.__setitem__(x > 0.4, 0.4),
    "indexed =": lambda x: x.__setitem__(tl.tensor([0, -1]), x[_row(x)] * 0.5),
}
JOINT_WRITES: dict[str, Callable[[tl.Tensor, tl.Tensor], Any]] = {
    "add_": lambda x, y: x.add_(y, alpha=0.5),
    "copy_": lambda x, y: x.copy_(y),
    "[...] =": lambda x, y: x.__setitem__(..., y * 0.5),
}
NAMES = sorted([*VIEWS, *FRESH, *BINARY, *WRITES, *JOINT_WRITES])


@pytest.fixture(autouse=True, scope="module")
def divided() -> Iterator[None]:
    """Small programs run on one worker, unless a number was asked for."""
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get("TINYGRAD_LITE_NUM_THREADS"):
            patch.setattr("tinygrad_lite.program.SMALL_STEP", 0)
            patch.setattr("tinygrad_lite.program.SMALL_CALL", 0)
        yield


programs = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 40), st.integers(0, 40)), min_size=5, max_size=30)


def _broadcasts(x: tl.Tensor, y: tl.Tensor, into: bool) -> bool:
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return not into or shape == tuple(x.shape)


def _apply(pool: list[tl.Tensor], step: Step) -> None:
    """Take the step on two tensors of the pool, unless their shapes do not suit it."""
    name, i, j = step
    x, y = pool[i % len(pool)], pool[j % len(pool)]
    if x.ndim == 0 or x.numel() == 0 or x.numel() > 200:
        return
    if name in WRITES:
        WRITES[name](x)
    elif name in JOINT_WRITES:
        if _broadcasts(x, y, into=True):
            JOINT_WRITES[name](x, y)
    elif name in BINARY:
        if _broadcasts(x, y, into=False):
            pool.append(BINARY[name](x, y))
    else:
        pool.append((VIEWS | FRESH)[name](x))


def _values(steps: Sequence[Step]) -> Callable[..., tuple[tl.Tensor, ...]]:
    def program(x: tl.Tensor, y: tl.Tensor) -> tuple[tl.Tensor, ...]:
        pool = [x * 1, y * 1]
        for step in steps:
            _apply(pool, step)
        return tuple(pool)

    return program


def _gradients(steps: Sequence[Step]) -> Callable[..., tuple[tl.Tensor, ...]]:
    def program(x: tl.Tensor, y: tl.Tensor) -> tuple[tl.Tensor, ...]:
        pool = _values(steps)(x, y)
        loss = sum((t * (0.5 + k % 3)).sum() for k, t in enumerate(pool))
        grads = tl.autograd.grad(loss, [x, y], allow_unused=True, materialize_grads=True)
        return (*(t.detach().clone() for t in pool), *grads)

    return program


def _run(program: Callable[..., Any], x: tl.Tensor, y: tl.Tensor) -> list[np.ndarray] | RuntimeError:
    """The results, or autograd's refusal: a value that it needs was overwritten, or nothing depends on x and y."""
    tl.manual_seed(7)
    try:
        return [t.numpy(force=True).copy() for t in program(x, y)]
    except RuntimeError as error:
        if not any(reason in str(error) for reason in REFUSALS):
            raise
        return error


@settings(max_examples=PROGRAMS, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs, st.booleans())
def test_compiled_as_eager(steps, with_gradients):
    program = (_gradients if with_gradients else _values)(steps)
    x, y = tl.tensor(X, requires_grad=with_gradients), tl.tensor(Y, requires_grad=with_gradients)
    expected = _run(program, x, y)
    found = _run(tl.compile(program), x, y)
    if isinstance(expected, RuntimeError):
        assert with_gradients
        assert isinstance(found, RuntimeError), f"eager raised {expected}"
        return
    assert not isinstance(found, RuntimeError), found
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5, err_msg=f"result {k}")
