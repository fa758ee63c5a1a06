"""Compiled functions on one and several workers: the same bits every time, from any thread, and after a fork."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.backends.numba.compiler import Kernels
from tinygrad_lite.capture import capture
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.models.gpt import GPT, GPTConfig
from tinygrad_lite.nn import functional as F
from tinygrad_lite.program import Program
from tinygrad_lite.runtime.workers import pool

Step = Callable[[tl.Tensor, tl.Tensor], tl.Tensor]


@pytest.fixture
def divided(monkeypatch):
    """Let the smallest program use every worker; returns a function that sets their number."""
    before = tl.get_num_threads()
    monkeypatch.setattr("tinygrad_lite.program.SMALL_STEP", 0)
    monkeypatch.setattr("tinygrad_lite.program.SMALL_CALL", 0)
    yield tl.set_num_threads
    tl.set_num_threads(before)


def training(build: Callable[[], nn.Module]) -> tuple[nn.Module, Step]:
    """A model and its compiled training step."""
    tl.manual_seed(0)
    model = build()
    optimizer = tl.optim.AdamW(model.parameters(), lr=1e-2)

    @tl.compile
    def step(x, y):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy((out[0] if isinstance(out, tuple) else out).reshape(y.numel(), -1), y.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return model, step


def gpt() -> nn.Module:
    return GPT(GPTConfig(11, 16, 2, 2, 16, dropout=0.1))


def convolutional() -> nn.Module:
    # no bias before the norm: its gradient is 0 but for rounding, which AdamW would make steps of
    layers = [nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 16, 5))


def batch(build: Callable[[], nn.Module], size: int) -> tuple[tl.Tensor, tl.Tensor]:
    rng = np.random.default_rng(size)
    if build is gpt:
        return tl.tensor(rng.integers(0, 11, (size, 16))), tl.tensor(rng.integers(0, 11, (size, 16)))
    x = rng.standard_normal((size, 3, 8, 8)).astype(np.float32)
    return tl.tensor(x), tl.tensor(rng.integers(0, 5, size))


def trained(build: Callable[[], nn.Module], steps: int = 4) -> list[np.ndarray]:
    """Losses and parameters after a few steps from one seed."""
    model, step = training(build)
    losses = [step(*batch(build, 6)).numpy() for _ in range(steps)]
    return [*losses, *(p.numpy(force=True).copy() for p in model.parameters())]


@pytest.mark.parametrize("build", [pytest.param(gpt, marks=pytest.mark.slow), convolutional])
def test_the_same_bits_for_a_number_of_workers(build, divided):
    found = {}
    for workers in (1, 2, 3):
        divided(workers)
        first, second = trained(build), trained(build)
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)
        found[workers] = first
    for workers in (2, 3):
        for a, b in zip(found[workers], found[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("build", [pytest.param(gpt, marks=pytest.mark.slow), convolutional])
def test_the_same_bits_however_the_work_is_divided(build, divided):
    divided(3)
    found = []
    for shares in ([1 / 3] * 3, [0.1, 0.6, 0.3], [0.45, 0.05, 0.5]):
        pool().divide(shares)
        found.append(trained(build))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


class Planned(Program):
    """All but machine code."""

    def _load(self) -> None:
        self.kernels = Kernels({call.source: 0 for call in self.calls})


def kernels_of(build: Callable[[], nn.Module], size: int) -> set[str]:
    """Sources of a training step's kernels but products, a family of few of which sizes choose."""
    _, step = training(build)
    given = list(batch(build, size))
    program = Planned(pipeline.run(capture(step.fn, tuple(given), {}, given).graph), 2)
    return {call.source for call in program.calls if call.group.kind != "matmul"}


@pytest.mark.parametrize("build", [gpt, convolutional])
def test_odd_batch_sizes_share_kernels(build, divided):
    known = kernels_of(build, 12)
    assert len(known) > 15
    for size in (7, 8, 3):
        assert kernels_of(build, size) <= known, f"batch size {size} has kernels of its own"


def test_another_batch_size_compiles_nothing(divided):
    divided(2)
    layer, norm = nn.Linear(4, 3), nn.LayerNorm(3)
    loss = tl.compile(lambda x: norm(layer(x)).mean())
    for size in (12, 7):
        loss(tl.ones(size, 4))
    assert set(loss.explain().bill["origins"]) == {"memory"}


def test_threads_run_programs_of_their_own_at_once(divided):
    divided(2)

    def work(number: int) -> None:
        total = tl.zeros(1000)

        @tl.compile
        def advance(x):
            total.add_(x * number)
            return total.sum()

        for turn in range(1, 31):
            results[number].append(advance(tl.ones(1000)).item() == 1000 * number * turn)

    results: list[list[bool]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(len(r) == 30 and all(r) for r in results)


def test_threads_share_a_compiled_function(divided):
    divided(2)
    weight = tl.randn(64, 64)
    product = tl.compile(lambda x: (x @ weight).relu())
    inputs = [tl.randn(8 + i, 64) for i in range(4)]
    wanted = [(x @ weight).relu().numpy() for x in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(30):
            if not np.allclose(product(inputs[number]).numpy(), wanted[number], rtol=1e-4, atol=1e-4):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking with threads is the point
def test_a_forked_child_runs_and_compiles(divided):
    divided(2)
    double = tl.compile(lambda x: x * 2 + 1)
    x = tl.arange(200, dtype=tl.float32)
    wanted = double(x).numpy()
    child = os.fork()
    if child == 0:
        other = tl.compile(lambda x: (x * 3).sum())
        fine = np.array_equal(double(x).numpy(), wanted) and other(x).item() == 3 * 199 * 100
        os._exit(0 if fine else 1)
    deadline = time.monotonic() + 30
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 0
    np.testing.assert_array_equal(double(x).numpy(), wanted)


def test_no_thread_is_busy_after_a_step(divided):
    divided(2)
    step = tl.compile(lambda x: (x @ x).sum())
    step(tl.ones(64, 64))
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.25, "a worker that spins takes all of the time"
