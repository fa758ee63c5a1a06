"""Long chains, many batch axes, threads, forks, poisoned memory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.compile.running import PlainProgram, assert_same
from tinygrad_lite.interpreter import evaluate
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import float32
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import movement, reduce
from tinygrad_lite.ops.contract import matmul
from tinygrad_lite.ops.leaf import input
from tinygrad_lite.ops.movement import expand
from tinygrad_lite.program import Program


def test_a_chain_of_20000_additions():
    start = time.perf_counter()
    w = tl.ones(4, requires_grad=True)

    @tl.compile
    def chain(x):
        y = w * x
        for _ in range(10_000):
            y = y + x
            y = y * 1.0001
        y.sum().backward()
        return y.detach()

    got, x = chain(tl.ones(4)), 1.0
    for _ in range(10_000):
        x = (x + 1) * 1.0001
    np.testing.assert_allclose(got.numpy(), [x] * 4, rtol=1e-3)
    np.testing.assert_allclose(w.grad.numpy(), [1.0001**10_000] * 4, rtol=1e-3)
    assert len(chain._last.program.kernels) < 200
    assert time.perf_counter() - start < 60


@pytest.mark.parametrize("workers", [1, 2])
def test_products_with_many_batch_axes(workers):
    left, right = input("a", float32, (2, 1, 3, 1, 2, 3, 4)), input("b", float32, (1, 2, 1, 3, 2, 4, 5))
    with mode.set(trace=object()):
        batch = (2, 2, 3, 3, 2)
        out = matmul(expand(left, (*batch, 3, 4)), expand(right, (*batch, 4, 5)))
    graph = Graph("batches", (left, right), (), (out,))
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=n.shape).astype(np.float32) for n in (left, right)]
    expected, _ = evaluate(graph, arrays)
    for program in (PlainProgram(graph, workers), Program(graph, workers)):
        assert_same(graph, program.run(arrays), expected)


@pytest.mark.parametrize("axes", [(0, 2), (0,), (2,), (0, 1, 2), (1, 2)])
def test_long_sums_keep_their_digits(axes):
    x = input("x", float32, (300, 3, 700))
    with mode.set(trace=object()):
        y = movement.permute(x, (2, 1, 0)) if axes == (1, 2) else x
        out = reduce.sum(y, axes)
    array = np.random.default_rng(0).uniform(0, 1, x.shape).astype(np.float32)
    (got,) = Program(Graph("sums", (x,), (), (out,)), 1).run([array])
    exact = np.asarray(array.transpose(2, 1, 0) if axes == (1, 2) else array, np.float64).sum(axes)
    assert np.abs(got / exact - 1).max() < 2e-6


def test_barriers_on_real_threads():
    x = input("x", float32, (257, 130))
    with mode.set(trace=object()):
        y = ew.mul(ew.add(x, 1.0), x)
        out = matmul(movement.transpose(y, 0, 1), y)
        outs = (out, reduce.sum(out, 0), reduce.max(y, 1), reduce.sum(y, 0))
    graph = Graph("shares", (x,), (), outs)
    array = np.random.default_rng(0).normal(size=x.shape).astype(np.float32)
    expected, _ = evaluate(graph, [array])
    for workers in (1, 2, 3):
        program = Program(pipeline.run(graph), workers)
        for _ in range(50):
            assert_same(graph, program.run([array]), expected)


def test_threads_calling_the_same_and_other_programs():
    w = tl.zeros(3)
    shared = tl.compile(lambda x: x * 2 + 1)
    counting = tl.compile(lambda: w.add_(1))
    failures = []

    def work(number):
        own = tl.compile(lambda x: x - number)
        for i in range(100):
            if shared(tl.full((5,), float(i))).tolist() != [2 * i + 1] * 5:
                failures.append(("shared", i))
            if own(tl.full((5,), float(i))).tolist() != [i - number] * 5:
                failures.append(("own", i))
            counting()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures and w.tolist() == [400] * 3


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_runs_programs_of_its_parent():
    w = tl.ones(64, 64)
    compiled = tl.compile(lambda x: (w @ x).tanh().sum())
    expected = compiled(tl.ones(64, 64)).item()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write, repr(compiled(tl.ones(64, 64)).item()).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert float(os.read(read, 100)) == expected == compiled(tl.ones(64, 64)).item()
    os.close(read), os.close(write)


@pytest.mark.skipif(bool(os.environ.get("TINYGRAD_LITE_POISON")), reason="runs in it")
def test_poisoned_memory_changes_nothing():
    """The samples and random graphs again, all memory filled with NaN before each run."""
    files = [os.path.join(os.path.dirname(__file__), f) for f in ("test_random_graphs.py", "test_capture.py")]
    environment = {**os.environ, "TINYGRAD_LITE_POISON": "1", "TINYGRAD_LITE_EXAMPLES": "30"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=os.getcwd())
    assert done.returncode == 0, done.stdout[-3000:]
