"""Values that take over the memory of an operand: fewer bytes, and never before everyone has read it."""

from __future__ import annotations

import numpy as np

import tinygrad_lite as tl

X, W = tl.randn(64, 64), tl.randn(64, 64)
NBYTES = 64 * 64 * 4


def compiled_as_eager(fn, *args):
    compiled = tl.compile(fn)
    got = compiled(*args)
    pairs = zip(got, fn(*args), strict=True) if isinstance(got, tuple) else [(got, fn(*args))]
    for a, b in pairs:
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-4)
    return compiled


def taken_over(compiled) -> int:
    return len(compiled._latest().program.schedule.over)


def test_a_chain_of_products_and_functions_takes_two_arrays():
    def chain(x, w):
        for _ in range(5):
            x = ((x @ w) / 8).tanh()
        return (x * 2) @ w

    compiled = compiled_as_eager(chain, X, W)
    assert taken_over(compiled) == 5
    assert compiled.memory().arena < 2 * NBYTES + 4 * NBYTES // 2, "two at a time, and what products pack"


def test_what_is_read_again_later_stays():
    def fn(x, w):
        y = x @ w
        z = y.exp() / 100
        return z @ w + y

    assert taken_over(compiled_as_eager(fn, X / 8, W)) == 0


def test_what_the_same_loop_reads_elsewhere_stays():
    def fn(x, w):
        y = x @ w
        return (y + y.T) @ w

    assert taken_over(compiled_as_eager(fn, X, W)) == 0


def test_rows_that_are_summed_stay():
    def fn(x, w):
        y = x @ w
        return (y - y.mean(-1, keepdim=True)) @ w

    assert taken_over(compiled_as_eager(fn, X, W)) == 0


def test_another_type_does_not_fit():
    def fn(x, w):
        y = x @ w
        return (y > 0).sum(0), (y > 0).sum(1)

    assert taken_over(compiled_as_eager(fn, X, W)) == 0


def test_a_loop_reads_all_of_an_element_before_it_writes():
    """c takes over b, which d follows from: whichever is written first."""

    def fn(x, y, w):
        a, b = x @ w, y @ w
        c, d = a * x, b * x
        return c @ w, d @ w, a @ w

    compiled = compiled_as_eager(fn, X, W + 1, W)
    assert taken_over(compiled) >= 1


def test_of_nothing_nothing_is_taken_over():
    def fn(x, w):
        return ((x @ w).exp() @ w).tanh().sum(0)

    assert taken_over(compiled_as_eager(fn, X[:0], W)) == 0


def test_arguments_outputs_and_states_are_not_taken_over():
    seen = tl.zeros(64, 64)

    def fn(x, w):
        y = x @ w
        seen.copy_(y)
        return y.exp(), x.exp(), y

    x = X / 8
    before = x.numpy().copy()
    compiled = tl.compile(fn)
    outputs = [o.numpy().copy() for o in compiled(x, W)]
    np.testing.assert_array_equal(x.numpy(), before)
    np.testing.assert_allclose(seen.numpy(), outputs[2])
    np.testing.assert_allclose(outputs[0], np.exp(outputs[2]), rtol=1e-5)


def test_the_memory_plan_names_each_buffer_for_its_own_time():
    def fn(x, w):
        return ((x @ w).tanh() @ w).exp() @ w

    memory = compiled_as_eager(fn, X / 8, W / 8).memory()
    assert any(a.offset == b.offset and a.last < b.first for a in memory.buffers for b in memory.buffers)
    for i, alive in enumerate(memory.timeline):
        assert sum(b.nbytes for b in memory.alive(i)) <= alive
