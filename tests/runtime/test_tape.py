"""Tapes on one and more workers: order, barriers, counters, threads, interrupts, forks."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinygrad_lite.backends.numba.compiler import load_kernels
from tinygrad_lite.runtime import workers
from tinygrad_lite.runtime.arena import aligned, poison
from tinygrad_lite.runtime.tape import Instruction, Tape, even_parts

ADD = """
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    x, y = i64_at(w[0]), i64_at(w[1])
    for i in range(lo, hi):
        y[i] = x[w[2] - 1 - i] + 1
"""
SPIN = """
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    for i in range(lo, hi):
        w[0] += atomic_load(args) & 1
"""


COUNT = """
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    for i in range(lo, hi):
        w[i] += 1
"""
UNEVEN = """
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    for i in range(lo, hi):
        for k in range(w[worker]):
            w[8 + 8 * worker] += atomic_load(args) & 1
"""


@pytest.fixture(scope="module")
def kernels():
    return load_kernels({"add": ADD, "spin": SPIN, "count": COUNT, "uneven": UNEVEN})


@pytest.fixture
def pool():
    yield workers.pool()
    workers.pool().divide([0.5, 0.5])


def reversing_tape(kernels, n, steps, count):
    """Each step reads what the other workers wrote in the step before."""
    buffers = [np.zeros(n, np.int64), np.zeros(n, np.int64)]
    args = [np.array([buffers[i].ctypes.data, buffers[1 - i].ctypes.data, n]) for i in (0, 1)]
    parts = even_parts(n, count)
    tape = Tape([Instruction(kernels["add"], args[i % 2].ctypes.data, parts) for i in range(steps)], count)
    return tape, buffers, args


@settings(deadline=None)  # the first example starts the pool
@given(st.integers(1, 200), st.integers(1, 40), st.lists(st.floats(0.05, 1), min_size=2, max_size=5))
def test_however_divided_each_element_has_one_worker(kernels, extent, grain, speeds):
    counts = np.zeros(extent, np.int64)
    parts = even_parts(extent, len(speeds), grain)
    tape = Tape([Instruction(kernels["count"], counts.ctypes.data, parts, grain=grain)], len(speeds))
    workers.pool().divide([s / sum(speeds) for s in speeds])
    tape.run()
    assert (counts == 1).all()


def test_the_faster_worker_gets_more(kernels, pool):
    words = np.array([10, 30, *[0] * 30])  # turns an element
    instruction = Instruction(kernels["uneven"], words.ctypes.data, ((0, 4000), (4000, 8000)), grain=16)
    tape = Tape([instruction] * 20, 2)
    pool.divide([0.5, 0.5])
    for _ in range(100):
        tape.run()
    assert pool.shares(2)[0] > 0.6


@pytest.mark.parametrize("count", [1, 2, 3])
def test_barriers_order_the_instructions(kernels, count):
    tape, buffers, _args = reversing_tape(kernels, 30, 40, count)
    for run in range(1, 50):
        tape.run()
        assert (buffers[0] == 40 * run).all() and (buffers[1] == 40 * run - 1).all()


def test_counters_add_up_until_reset(kernels):
    tape, *_keep = reversing_tape(kernels, 1000, 4, 2)
    tape.run()
    first = tape.ticks.copy()
    assert (first > 0).all() and tape.ticks.shape == tape.barrier_ticks.shape == (2, 4)
    tape.run()
    assert (tape.ticks > first).all() and (tape.barrier_ticks[:, :3] > 0).all()
    tape.reset_ticks()
    assert not tape.ticks.any() and not tape.barrier_ticks.any()


def test_empty_shares_are_skipped():
    tape = Tape([Instruction(1, 0, ((3, 3), (5, 4)), barrier=False)] * 3, 2)  # address 1 would crash
    tape.run()


@pytest.mark.parametrize("count", [1, 2])
def test_an_empty_tape_runs(count):
    Tape([], count).run()


def test_parts_must_match_the_workers():
    with pytest.raises(ValueError, match="1 parts for 2 workers"):
        Tape([Instruction(1, 0, ((0, 1),))], 2)


def test_tapes_may_die_right_after_a_run(kernels):
    for _ in range(300):
        tape, buffers, _args = reversing_tape(kernels, 8, 3, 2)
        tape.run()
        assert (buffers[1] == 3).all()
        del tape


@pytest.mark.parametrize("extent,count,grain", [(10, 3, 1), (0, 2, 1), (1, 4, 1), (100, 3, 16), (5, 2, 8)])
def test_even_parts_cover_the_extent_once(extent, count, grain):
    parts = even_parts(extent, count, grain)
    assert len(parts) == count
    assert [i for lo, hi in parts for i in range(lo, hi)] == list(range(extent))
    assert all(lo % grain == 0 for lo, hi in parts if lo < hi)


def test_python_threads_take_turns(kernels):
    jobs = [reversing_tape(kernels, 64, 20, 1 + i % 2) for i in range(4)]

    def work(tape):
        for _ in range(100):
            tape.run()

    threads = [threading.Thread(target=work, args=(job[0],)) for job in jobs]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all((buffers[0] == 2000).all() for _, buffers, _ in jobs)


def test_idle_workers_use_no_cpu(kernels):
    tape, *_keep = reversing_tape(kernels, 8, 2, 2)
    tape.run()
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.1


def test_an_interrupt_surfaces_after_the_run(kernels, request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    word = np.array([1], np.int64)
    rounds = 1 << 27
    tape = Tape([Instruction(kernels["spin"], word.ctypes.data, ((0, rounds), (0, 0)))] * 2, 2)
    timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        tape.run()
        time.sleep(1)
    timer.join()
    check, buffers, _args = reversing_tape(kernels, 8, 4, 2)
    check.run()
    assert (buffers[0] == 4).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking with threads is the point
def test_a_forked_child_makes_its_own_workers(kernels):
    tape, buffers, _args = reversing_tape(kernels, 30, 4, 2)
    tape.run()
    child = os.fork()
    if child == 0:
        tape.run()
        os._exit(0 if (buffers[0] == 8).all() else 1)
    deadline = time.monotonic() + 20
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 0
    tape.run()
    assert (buffers[0] == 8).all()


def test_number_of_threads(monkeypatch):
    monkeypatch.setattr(workers, "_threads", None)
    monkeypatch.setenv("TINYGRAD_LITE_NUM_THREADS", "3")
    assert workers.get_num_threads() == 3
    workers.set_num_threads(2)
    assert workers.get_num_threads() == 2
    for bad in (0, -1, True, 2.0, 10**6):
        with pytest.raises(ValueError, match="from 1 to"):
            workers.set_num_threads(bad)
    monkeypatch.setattr(workers, "_threads", None)
    monkeypatch.setenv("TINYGRAD_LITE_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="many"):
        workers.get_num_threads()
    monkeypatch.delenv("TINYGRAD_LITE_NUM_THREADS")
    assert workers.get_num_threads() == min(workers.usable_cores(), workers.MAX_WORKERS)


@pytest.mark.parametrize("nbytes", [0, 1, 64, 1000])
def test_arena_is_aligned_and_zeroed(nbytes):
    memory = aligned(nbytes)
    assert memory.nbytes == nbytes and not memory.any()
    assert not nbytes or memory.ctypes.data % 64 == 0
    poison(memory)
    assert np.isnan(memory[: nbytes // 8 * 8].view(np.float32)).all()
