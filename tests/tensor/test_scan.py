"""tl.scan: what a loop gives equals the loop written out, eagerly and compiled, to second order."""

from __future__ import annotations

import json
import pickle
from typing import NamedTuple

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite.interpreter import evaluate
from tinygrad_lite.ir.equality import first_difference, graph_key
from tinygrad_lite.ir.export import from_dict, to_dict
from tinygrad_lite.ir.parse import ParseError, parse
from tinygrad_lite.ir.text import to_text
from tinygrad_lite.ir.verify import verify


def unrolled(fn, init, xs=None, length=None, reverse=False):
    """scan by a Python loop over a single tensor, or nothing."""
    steps = range(len(xs) if xs is not None else length)
    carry, ys = init, {}
    for t in reversed(steps) if reverse else steps:
        carry, ys[t] = fn(carry, None if xs is None else xs[t])
    return carry, tl.stack([ys[t] for t in steps])


def operands(steps=5, dtype=np.float64):
    rng = np.random.default_rng(0)
    shapes = ((steps, 2, 3), (2, 3), (3, 3), (3,))
    return [tl.tensor(rng.normal(size=s).astype(dtype), requires_grad=True) for s in shapes]


def recurrent(scan, x, h, w, b, **options):
    def step(h, x):
        h = tl.tanh(x + h @ w.t() + b)
        return h, h * h

    return scan(step, h, x, **options)


def masked(scan, x, h, w, b, **options):
    """Comparisons, selections, a clone, an in-place write to a value of the step's own."""

    def step(h, x):
        y = (x @ w).clone()
        y += h
        return tl.where(y > 0, y, h * 0.5), tl.maximum(y, b)

    return scan(step, h, x, **options)


def accumulating(scan, x, h, w, b, **options):
    """Consts whose cotangents are no products: they are added up in a carry."""
    return scan(lambda h, x: (h * tl.sigmoid(b) + x * tl.cos(b * x), (h * w.sum()).sum(0)), h, x, **options)


STEPS = {"recurrent": recurrent, "masked": masked, "accumulating": accumulating}


def value_and_gradients(f, scan, inputs, order=2, **options):
    h, ys = f(scan, *inputs, **options)
    total = (h * h).sum() + (ys * tl.cos(ys.detach() * 0 + 1)).sum() + ys[0].sum()
    results = [h, ys]
    if order:
        grads = tl.autograd.grad(total, inputs, create_graph=order > 1, allow_unused=True, materialize_grads=True)
        results += grads
        if order > 1:
            again = sum((g * g).sum() for g in grads)
            results += tl.autograd.grad(again, inputs, allow_unused=True, materialize_grads=True)
    return [r.detach() for r in results]


def assert_close(got, want, tolerance=1e-10):
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_equals_the_loop_written_out(name, reverse, steps):
    inputs = operands(steps)
    f = STEPS[name]
    want = value_and_gradients(f, unrolled, inputs, reverse=reverse)
    assert_close(value_and_gradients(f, tl.scan, inputs, reverse=reverse), want)


@pytest.mark.parametrize("name", STEPS)
def test_compiled_equals_eager(name):
    inputs = operands()
    f = STEPS[name]
    compiled = tl.compile(lambda *given: value_and_gradients(f, tl.scan, given, reverse=True))
    want = value_and_gradients(f, unrolled, inputs, reverse=True)
    for _ in range(2):
        assert_close(compiled(*inputs), want)


def test_a_thousand_steps():
    inputs = operands(1000, np.float32)

    def step(*given):
        return value_and_gradients(recurrent, tl.scan, given, order=1)

    want = value_and_gradients(recurrent, unrolled, inputs, order=1)
    assert_close(step(*inputs), want, 2e-3)
    assert_close(tl.compile(step)(*inputs), want, 2e-3)


def test_graph_and_program_do_not_grow_with_the_steps():
    def sizes(steps):
        inputs = operands(steps)
        compiled = tl.compile(lambda *given: value_and_gradients(recurrent, tl.scan, given))
        compiled(*inputs)
        program = compiled._last.program
        return len(compiled.graph("traced")), len(compiled.graph()), len(program.calls), len(program.kernels)

    assert sizes(100) == sizes(1000)
    assert all(abs(a - b) <= 3 for a, b in zip(sizes(10), sizes(1000), strict=True))  # small constants are folded


class State(NamedTuple):
    h: tl.Tensor
    c: tl.Tensor


def test_structures():
    def step(carry, x):
        state, counts = carry
        h = state.h + x["a"] * x["b"][0]
        new = State(h, state.c * 2)
        return (new, [counts[0] + 1]), {"h": h, "none": None, "pair": (state.c, counts[0])}

    xs = {"a": tl.arange(4.0).reshape(4, 1), "b": (tl.ones(4, 2),)}
    start = (State(tl.zeros(2), tl.ones(1)), [tl.tensor(2**40)])
    for run in (tl.scan, tl.compile(lambda *given: tl.scan(step, *given))):
        given = (step, start, xs) if run is tl.scan else (start, xs)
        (state, counts), ys = run(*given)
        assert isinstance(state, State)
        assert state.h.tolist() == [6, 6]
        assert state.c.tolist() == [16]
        assert (counts[0].item(), counts[0].dtype) == (2**40 + 4, tl.int64)
        assert ys["none"] is None
        assert ys["h"].shape == (4, 2)
        assert ys["pair"][0].tolist() == [[1], [2], [4], [8]]
        assert ys["pair"][1].tolist() == [2**40 + i for i in range(4)]


def test_without_xs():
    last, ys = tl.scan(lambda c, _: (c * 2, c), tl.tensor(1.0), length=5)
    assert last.item() == 32
    assert ys.tolist() == [1, 2, 4, 8, 16]
    last, ys = tl.scan(lambda c, x: (c, None), tl.tensor(1.0), tl.zeros(0, 3))
    assert (last.item(), ys) == (1, None)
    nothing, ys = tl.scan(lambda c, x: (c, x + 1), None, tl.arange(3))
    assert (nothing, ys.tolist()) == (None, [1, 2, 3])


def test_gradients_do_not_pass_detach_and_no_grad():
    def loop(scan, stop):
        z = tl.tensor([1.0, 2.0], requires_grad=True)

        def step(c, _):
            return c * z + stop(c), c

        last, ys = scan(step, z * 1, length=3)
        (last.sum() + ys.sum()).backward()
        return z.grad

    def under_no_grad(c):
        with tl.no_grad():
            return c * c

    for stop in (lambda c: (c * c).detach(), under_no_grad):
        assert loop(tl.scan, stop).tolist() == loop(unrolled, stop).tolist()


def test_reads_tensors_of_the_function_around_it():
    def f(x):
        scale = (x * 2).sum()  # symbolic in a capture
        view = x[0]
        last, _ = tl.scan(lambda c, row: (c + row * scale + view, None), tl.zeros(3), x)
        return last

    x = tl.randn(4, 3)
    want = (x * 2).sum() * x.sum(0) + 4 * x[0]
    assert_close([f(x), tl.compile(f)(x)], [want, want], 1e-5)


def test_scan_within_a_scan():
    def table(scan, x):
        def row(c, xs):
            last, ys = scan(lambda a, v: (tl.tanh(a + v), a * v), c, xs)
            return last, ys.sum()

        last, ys = scan(row, tl.zeros((), dtype=tl.float64), x)
        return last + (ys * ys).sum()

    x = tl.tensor(np.random.default_rng(1).normal(size=(3, 4)), requires_grad=True)
    results = []
    for run in (lambda x: table(unrolled, x), lambda x: table(tl.scan, x)):
        (g,) = tl.autograd.grad(run(x), x, create_graph=True)
        results.append([run(x).detach(), g.detach(), tl.autograd.grad((g * g).sum(), x)[0]])
    compiled = tl.compile(lambda x: tl.autograd.grad(table(tl.scan, x), x)[0])
    assert_close(results[1], results[0])
    assert_close([compiled(x)], [results[0][1]])


def test_results_require_grad_where_they_depend_on_what_does():
    w = tl.ones(2, requires_grad=True)

    def step(carry, x):
        a, b = carry
        return (a * w, b + x), (a.detach(), b * 2, a + b)

    (a, b), ys = tl.scan(step, (tl.ones(2), tl.zeros(2)), tl.ones(3, 2))
    assert [t.requires_grad for t in (a, b, *ys)] == [True, False, False, False, True]
    with tl.no_grad():
        assert not tl.scan(step, (tl.ones(2), tl.zeros(2)), tl.ones(3, 2))[0][0].requires_grad


def test_results_have_memory_of_their_own():
    last, ys = tl.scan(lambda c, x: (c + x, c + x), tl.zeros(2), tl.ones(3, 2))
    last += 1
    assert ys[2].tolist() == [3, 3]
    assert last.tolist() == [4, 4]


def written_out(fn, init, xs):
    carry, ys = init, []
    for row in xs.unbind():
        carry, y = fn(carry, row)
        ys.append(y)
    return carry, tl.stack(ys)


@pytest.mark.parametrize("compiled", [False, True])
def test_tensors_from_outside_that_the_step_changes(compiled):
    def loop(scan):
        tl.manual_seed(3)
        count, total = tl.zeros((), dtype=tl.int64), tl.zeros(2)

        def step(c, x):
            count.add_(1)
            total[0] += x.sum()
            noise = tl.rand(2)
            return c * 0.5 + noise, tl.nn.functional.dropout(x, 0.5) * count

        def run(xs):
            last, ys = scan(step, tl.zeros(2), xs)
            return last, ys, last + tl.rand(2)

        xs = tl.arange(8.0).reshape(4, 2)
        run = tl.compile(run) if compiled else run
        results = [*run(xs), *run(xs)]
        return [r.numpy() for r in (*results, count, total)], tl.get_rng_state().tolist()

    (got, state), (want, expected) = loop(tl.scan), loop(written_out)
    assert state == expected
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-6)


def test_batch_norm_within_a_step():
    tl.manual_seed(0)
    ours, theirs = tl.nn.BatchNorm1d(3), tl.nn.BatchNorm1d(3)
    x = tl.randn(4, 5, 3)
    got = tl.scan(lambda c, row: (c, ours(row)), None, x)[1]
    want = tl.stack([theirs(row) for row in x.unbind()])
    assert_close([got.detach(), ours.running_var], [want.detach(), theirs.running_var], 1e-5)
    assert ours.num_batches_tracked.item() == 4


# ---- errors ---------------------------------------------------------------------------------------------------

X, H = tl.ones(3, 2), tl.zeros(2)
_parameter = tl.ones(2, requires_grad=True)


def _writes(c, x):
    with tl.no_grad():
        _parameter.add_(x)
    return c, None


ERRORS = {
    "shape": (
        lambda: tl.scan(lambda c, x: (c.sum(), None), H, X),
        TypeError,
        r"carry is f32\[2\] before .* f32\[\] after",
    ),
    "dtype": (
        lambda: tl.scan(lambda c, x: ((c[0], c[1].double()), None), (H, H), X),
        TypeError,
        r"carry\[1\] is f32\[2\]",
    ),
    "structure": (lambda: tl.scan(lambda c, x: ((c, c), None), H, X), TypeError, r"\['carry'\].*\['carry\[0\]'"),
    "no pair": (lambda: tl.scan(lambda c, x: c, H, X), TypeError, "must return"),
    "no tensor": (lambda: tl.scan(lambda c, x: (c, 1.0), H, X), TypeError, "y must be a Tensor.*float"),
    "number": (lambda: tl.scan(lambda c, x: (c, x), 0.0, X), TypeError, "init must be a Tensor"),
    "lengths": (
        lambda: tl.scan(lambda c, x: (c, None), H, (X, X[:2])),
        ValueError,
        r"xs\[0\] has 3 steps, xs\[1\] has 2",
    ),
    "length": (lambda: tl.scan(lambda c, x: (c, None), H, X, length=4), ValueError, "length has 4 steps, xs has 3"),
    "negative": (lambda: tl.scan(lambda c, x: (c, None), H, length=-1), ValueError, "length must be"),
    "scalar": (lambda: tl.scan(lambda c, x: (c, None), H, tl.tensor(1.0)), ValueError, "xs is a scalar"),
    "neither": (lambda: tl.scan(lambda c, x: (c, None), H), ValueError, "give xs or length"),
    "write": (lambda: tl.scan(_writes, H, X), RuntimeError, "requires grad. Hand it on"),
    "value": (lambda: tl.scan(lambda c, x: (c * c.sum().item(), None), H, X), tl.CaptureError, "test_scan.py"),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("compiled", [False, True])
def test_errors(name, compiled):
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        (tl.compile(lambda: call()) if compiled else call)()
    assert _parameter.tolist() == [1, 1]


# ---- the graph as text ------------------------------------------------------------------------------------------


def graph_of(steps=4):
    return tl.trace(
        lambda *given: value_and_gradients(recurrent, tl.scan, given, order=1), *operands(steps), train=True
    )


def test_bodies_print_parse_and_pickle():
    graph = verify(graph_of())
    text = to_text(graph)
    assert "body={\n    %0 = input" in text
    for again in (parse(text), pickle.loads(pickle.dumps(graph)), from_dict(json.loads(json.dumps(to_dict(graph))))):
        assert first_difference(again, graph) is None
        assert graph_key(again) == graph_key(graph)
    values = [n.attrs for n in graph.args]
    args = [np.random.default_rng(2).normal(size=a["shape"]) for a in values]
    for a, b in zip(evaluate(parse(text), args)[0], evaluate(graph, args)[0], strict=True):
        np.testing.assert_array_equal(a, b)


def test_bodies_count_in_equality():
    graph = graph_of()
    other = parse(to_text(graph).replace("tanh", "sigmoid"))
    assert first_difference(graph, other) is not None
    assert graph_key(graph) != graph_key(other)


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("return %2, %2", "return %2", "scan"),  # a result fewer than the type says
        ("%2 = add %0, %1", "%2 = add %0, %9", "expected a value defined above, found %9"),
        ("carries=1", "carries=3", "do not fit"),
        ("\n  } carries", "\n  carries", "expected a value such as"),
    ],
)
def test_errors_in_bodies_have_a_place(old, new, problem):
    text = """graph g {
  %0 = input "c" : f32[2]
  %1 = input "x" : f32[3,2]
  %2 = scan %0, %1 body={
    %0 = input "c" : f32[2]
    %1 = input "x" : f32[2]
    %2 = add %0, %1
    return %2, %2
  } carries=1 xs=1 length=3 reverse=false history=[true] : f32[14]
  return %2
}
"""
    parse(text)
    with pytest.raises(ParseError, match=problem):
        parse(text.replace(old, new))
