"""What a compiled call leaves: results, states, gradients and random numbers as eager mode would, or an error."""

from __future__ import annotations

import collections
import copy
import dataclasses
import gc
import pickle
import weakref

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn, optim
from tinygrad_lite.nn import functional as F


def weight(*values: float) -> tl.Tensor:
    return tl.tensor(list(values) or [1.0, 2.0, 3.0], requires_grad=True)


# ---- results ------------------------------------------------------------------------------------------------


def test_results_survive_the_next_call():
    compiled = tl.compile(lambda x: (x * 2, x.sum()))
    first = compiled(tl.ones(3))
    values = first[0].numpy()
    compiled(tl.zeros(3))
    assert first[0].tolist() == values.tolist() == [2, 2, 2] and first[1].item() == 3


def test_results_that_are_arguments_states_constants_views_and_duplicates():
    w = weight()

    def fn(x):
        y = x * 2
        return x, w, y, y, y[1:], y.reshape(3, 1), x[::2], tl.ones(2), w.detach(), tl.tensor([1, 2])

    compiled = tl.compile(fn)
    x = tl.tensor([1.0, 2.0, 3.0])
    for _ in range(2):
        for got, expected in zip(compiled(x), fn(x), strict=True):
            np.testing.assert_array_equal(got.detach().numpy(), expected.detach().numpy())
            assert got.dtype is expected.dtype
    results = compiled(x)
    assert results[2] is results[3]
    results[0].zero_()
    results[7].zero_()
    assert x.tolist() == [1, 2, 3] and w.tolist() == [1, 2, 3] and compiled(x)[7].tolist() == [1, 1]


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Output:
    loss: tl.Tensor
    logits: tl.Tensor | None = None
    steps: int = 3


def test_structures():
    def fn(x):
        return {
            "list": [x + 1, (x + 2,)],
            "pair": Pair(x + 3, None),
            "record": Output(x + 4),
            "ordered": collections.OrderedDict(a=x + 5),
            "default": collections.defaultdict(list, b=[x + 6]),
            "static": (1, "a", None, 2.5),
        }

    compiled = tl.compile(fn)
    for _ in range(2):
        got = compiled(tl.zeros(1))
        assert got["list"][0].item() == 1 and got["list"][1][0].item() == 2
        assert type(got["pair"]) is Pair and got["pair"].a.item() == 3 and got["pair"].b is None
        assert got["record"].loss.item() == 4 and got["record"].steps == 3
        assert got["ordered"]["a"].item() == 5 and got["default"]["b"][0].item() == 6 and got["default"]["new"] == []
        assert got["static"] == (1, "a", None, 2.5)
    assert tl.compile(lambda: None)() is None
    assert tl.compile(lambda record: record.loss * 2)(Output(tl.ones(1))).item() == 2


def test_keyword_arguments_and_nested_tensors():
    compiled = tl.compile(lambda batch, scale=1.0: batch["x"] * scale + batch["more"][0])
    batch = {"x": tl.ones(2), "more": [tl.ones(2)]}
    assert compiled(batch, scale=3.0).tolist() == [4, 4]
    assert compiled(batch).tolist() == [2, 2]


# ---- arguments ------------------------------------------------------------------------------------------------


def test_arguments_of_all_kinds():
    data = tl.arange(24).reshape(4, 6).float()
    compiled = tl.compile(lambda x, y: x + 2 * y)
    row = data[1]
    assert compiled(row, data[2]).tolist() == (data[1] + 2 * data[2]).tolist()
    assert compiled(data.t()[0], data.t()[1]).tolist() == (data.t()[0] + 2 * data.t()[1]).tolist()
    assert compiled(row, row).tolist() == (3 * row).tolist()
    assert compiled(row, data[2]).tolist() == (data[1] + 2 * data[2]).tolist()
    array = np.arange(12.0)[::2]
    assert compiled(tl.from_numpy(array), tl.from_numpy(array[::-1].copy())).shape == (6,)


def test_arguments_written_in_place():
    def fn(x):
        x.add_(1)
        x[0] = 5.0
        return x.sum()

    compiled = tl.compile(fn)
    for _ in range(2):
        x, y = tl.zeros(3), tl.zeros(3)
        view = x[1:]
        assert compiled(x).item() == fn(y).item() == 7
        assert x.tolist() == y.tolist() == [5, 1, 1] and view.tolist() == [1, 1]
    rows, expected = tl.zeros(2, 3), tl.zeros(2, 3)
    compiled(rows[0]), fn(expected[0])
    assert rows.tolist() == expected.tolist() == [[5, 1, 1], [0, 0, 0]]
    both = tl.compile(lambda x, y: x.add_(y))
    both(tl.ones(2), tl.ones(2))
    for x, y in ((rows[0], rows[1]), (rows[0], rows[0][:])):
        with pytest.raises(tl.CaptureError, match="shares memory"):
            both(x[:2], y[:2])


def test_a_parameter_may_be_an_argument():
    w = weight()

    def step(p, x):
        loss = (p * w * x).sum()
        loss.backward()
        return loss

    def check(call):
        w.grad = None
        other = tl.ones(3, requires_grad=True)
        out = [call(other, tl.ones(3)).item(), other.grad.tolist(), w.grad.tolist()]
        w.grad = None
        return [*out, call(w, tl.ones(3)).item(), w.grad.tolist()]

    compiled = tl.compile(step)
    expected = check(step)
    for _ in range(2):
        assert check(compiled) == expected


def test_a_view_of_what_changes_is_refused():
    w = tl.ones(2, 3)
    compiled = tl.compile(lambda x: w.add_(x))
    compiled(tl.ones(3))
    with pytest.raises(tl.CaptureError, match="shares memory with another tensor"):
        compiled(w[0])
    compiled(w[0].clone())


# ---- states --------------------------------------------------------------------------------------------------


def test_states_change_in_place_and_alias_as_in_eager_mode():
    def run(wrap):
        w, v = tl.tensor([1.0, 2.0, 3.0, 4.0]), tl.tensor([0.0])
        view = w[1:3]

        def fn(x):
            w[:2] = w[2:] * x
            view.mul_(10)
            old = w.flip(0)
            w.copy_(old + v)
            v.add_(1)
            return old

        call = wrap(fn)
        outs = [call(tl.tensor(2.0)).tolist() for _ in range(3)]
        return outs, w.tolist(), v.tolist(), view.tolist()

    assert run(tl.compile) == run(lambda f: f)


def test_states_exchanged():
    a, b = tl.tensor([1.0, 2.0]), tl.tensor([3.0, 4.0])

    @tl.compile
    def swap():
        old = a.clone()
        a.copy_(b)
        b.copy_(old)

    for _ in range(3):
        swap()
    assert a.tolist() == [3, 4] and b.tolist() == [1, 2]


def test_two_programs_share_parameters_and_eager_code_changes_them():
    w = tl.zeros(3)
    add, double = tl.compile(lambda x: w.add_(x)), tl.compile(lambda: w.mul_(2))
    for _ in range(2):
        add(tl.ones(3))
        double()
        w.sub_(1)
    assert w.tolist() == [3, 3, 3]


# ---- gradients -------------------------------------------------------------------------------------------------


def losses(wrap, clear, steps=5, keep=False):
    """Steps of SGD with momentum; gradients, weights and losses after each."""
    w = tl.tensor([0.5, -1.0, 2.0], requires_grad=True)
    opt = optim.SGD([w], lr=0.1, momentum=0.9)

    def step(x):
        if clear is not None:
            opt.zero_grad(set_to_none=clear)
        loss = ((w * x - 1) ** 2).sum()
        loss.backward()
        opt.step()
        return loss

    call, held, seen = wrap(step), [], []
    for i in range(steps):
        seen.append((call(tl.full((3,), float(i))).item(), w.tolist(), w.grad.tolist()))
        if keep:
            held.append(w.grad)
    return seen, [g.tolist() for g in held], call


@pytest.mark.parametrize("clear", [True, False, None])
def test_gradients_cleared_zeroed_and_accumulated(clear):
    got, held, compiled = losses(tl.compile, clear, keep=clear is True)
    expected, held_too, _ = losses(lambda f: f, clear, keep=clear is True)
    got, expected = ([[loss, *w, *grad] for loss, w, grad in seen] for seen in (got, expected))
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    np.testing.assert_allclose(held, held_too, rtol=1e-5)
    assert sum(map(len, compiled._captures.values())) <= 2


@pytest.mark.parametrize("hold", ["tensor", "array", "detached", "view", "row", "memoryview"])
def test_gradients_that_somebody_holds_keep_their_values(hold):
    w = weight()
    keep = {
        "tensor": lambda g: g,
        "array": lambda g: g.numpy(),
        "detached": lambda g: g.detach(),
        "view": lambda g: g[1:],
        "row": lambda g: g.numpy()[1:],
        "memoryview": lambda g: memoryview(g.numpy()),
    }[hold]

    @tl.compile
    def step(x):
        w.grad = None
        (w * x).sum().backward()

    step(tl.ones(3))
    held = keep(w.grad)
    step(tl.full((3,), 5.0))
    assert set(held.tolist()) == {1.0} and w.grad.tolist() == [5, 5, 5]
    assert w.grad is w.grad


def test_gradients_that_nobody_looks_at_take_no_memory_of_their_own():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(16)])

    @tl.compile
    def step(x):
        model.zero_grad()
        model(x).sum().backward()

    step(tl.ones(256, 64))
    program = step._last.program
    inside = [np.shares_memory(output, program.arena) for output in program.outputs]
    assert np.mean(inside) > 0.7, "all but the first of backward"
    first = [p.grad for p in model.parameters()]
    step(tl.zeros(256, 64))
    assert not np.shares_memory(first[0].numpy(), program.arena) and first[0].abs().sum() > 0
    assert (model[0][0].weight.grad == 0).all()


def test_a_run_that_fails_leaves_no_gradients_that_it_wrote_over():
    w, v = weight(), weight()

    @tl.compile
    def step(x, i):
        w.grad = v.grad = None
        (w * x + v).sum().backward()
        return x[i]

    step(tl.ones(3), tl.tensor(1))
    seen = w.grad
    with pytest.raises(IndexError):
        step(tl.full((3,), 2.0), tl.tensor(7))
    assert w.grad is seen and seen.tolist() == [1, 1, 1] and v.grad is None
    step(tl.full((3,), 2.0), tl.tensor(2))
    assert w.grad.tolist() == [2, 2, 2] and v.grad.tolist() == [1, 1, 1]


def test_gradients_are_copied_with_the_module_before_the_next_run():
    model = nn.Linear(2, 1)

    @tl.compile
    def step(x):
        model.zero_grad()
        model(x).sum().backward()

    step(tl.ones(1, 2))
    twin = copy.deepcopy(model)
    step(tl.full((1, 2), 3.0))
    assert twin.weight.grad.tolist() == [[1, 1]] and model.weight.grad.tolist() == [[3, 3]]


def test_accumulation_follows_the_gradient_of_the_moment():
    def run(wrap):
        w = weight()
        call = wrap(lambda x: (w * x).sum().backward())
        seen = []
        for clear in (False, False, True, False, True, False, False):
            if clear:
                w.grad = None
            call(tl.ones(3))
            seen.append(w.grad.tolist())
        w.grad = tl.full((3,), 7.0)
        call(tl.ones(3))
        own = w.grad
        call(tl.ones(3))
        return [*seen, w.grad.tolist(), own.tolist()]

    assert run(tl.compile) == run(lambda f: f)


def test_gradients_of_arguments():
    def step(x, y):
        (x * y).sum().backward()

    compiled = tl.compile(step)
    a, b = weight(), weight(4.0, 5.0, 6.0)
    compiled(a, tl.ones(3))
    compiled(b, tl.full((3,), 2.0))
    compiled(a, tl.full((3,), 3.0))
    compiled(b, tl.full((3,), 1.0))
    assert a.grad.tolist() == [4, 4, 4] and b.grad.tolist() == [3, 3, 3]


def test_clipping_and_hooks():
    def run(wrap):
        w = weight()
        w.register_hook(lambda g: g * 2)

        def step(x):
            w.grad = None
            (w * w * x).sum().backward()
            return nn.utils.clip_grad_norm_([w], 1.0)

        call = wrap(step)
        norms = [call(tl.ones(3)).item() for _ in range(2)]
        return [*norms, *w.grad.tolist()]

    np.testing.assert_allclose(run(tl.compile), run(lambda f: f), rtol=1e-6)


def test_backward_on_a_result_says_where_it_belongs():
    w = weight()
    loss = tl.compile(lambda: (w * 2).sum())()
    assert loss.requires_grad
    with pytest.raises(RuntimeError, match="backward\\(\\) was called on the result of a compiled function"):
        loss.backward()
    assert w.grad is None
    assert not loss.detach().requires_grad


# ---- random numbers -----------------------------------------------------------------------------------------


def test_random_numbers_equal_eager_ones():
    def fn(x):
        return F.dropout(x, 0.5), F.dropout(x, 0.5), tl.rand(3), tl.rand(2)

    compiled, x = tl.compile(fn), tl.ones(100)
    for call in (compiled, fn):
        tl.manual_seed(5)
        runs = [[t.numpy() for t in call(x)] for _ in range(3)]
        runs.append([tl.rand(4).numpy()])
        if call is compiled:
            first = runs
    for got, expected in zip(first, runs, strict=True):
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    tl.manual_seed(5)
    np.testing.assert_array_equal(compiled(x)[0].numpy(), first[0][0])


# ---- errors ----------------------------------------------------------------------------------------------------


def test_an_exception_leaves_everything_as_it_was():
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    opt = optim.AdamW(model.parameters(), lr=0.1)

    def step(x):
        opt.zero_grad()
        model(x).sum().backward()
        opt.step()
        raise KeyError("the user's own")

    model(tl.ones(1, 3)).sum().backward()
    before = [(p.tolist(), p.grad.tolist()) for p in model.parameters()]
    state = tl.get_rng_state().tolist()
    with pytest.raises(KeyError, match="the user's own"):
        tl.compile(step)(tl.ones(2, 3))
    assert [(p.tolist(), p.grad.tolist()) for p in model.parameters()] == before
    assert tl.get_rng_state().tolist() == state
    model(tl.ones(1, 3)).sum().backward()


@pytest.mark.parametrize("read", ["item", "tolist", "numpy", "__bool__", "__float__"])
def test_reading_values_names_the_line(read):
    def fn(x):
        return getattr(x.sum(), read)()

    line = fn.__code__.co_firstlineno + 1
    with pytest.raises(tl.CaptureError, match=rf"test_capture.py:{line}"):
        tl.compile(fn)(tl.ones(3))


def test_a_tensor_that_leaked_says_so():
    leaked = []

    def fn(x):
        leaked.append(x * 2)
        return leaked[0] + x

    compiled = tl.compile(fn)
    compiled(tl.ones(2))
    with pytest.raises(RuntimeError, match=r"made inside tl\.compile and has no value outside"):
        leaked[0].numpy()
    with pytest.raises(RuntimeError, match="used outside its capture"):
        leaked[0] + 1
    with pytest.raises(tl.CaptureError, match=r"test_capture.py:\d+.*an earlier capture made"):
        compiled(tl.ones(2))


def test_history_from_outside_is_refused():
    w = weight()
    outside = w * 2
    found = tl.compile(lambda: outside + 1)()
    assert found.tolist() == [3, 5, 7]
    with pytest.raises(RuntimeError, match="result of a compiled function"):
        found.sum().backward()
    with pytest.raises(tl.CaptureError, match="carries history"):
        tl.compile(lambda x: x + 1)(outside)
    assert tl.compile(lambda x: x + 1)(outside.detach()).tolist() == [3, 5, 7]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bad_index_leaves_the_state(workers, monkeypatch):
    monkeypatch.setattr("tinygrad_lite.program.SMALL_STEP", 0 if workers == 2 else 10**9)
    table = nn.Embedding(5, 4)
    opt = optim.AdamW(table.parameters(), lr=0.1)

    @tl.compile
    def step(ids, targets):
        opt.zero_grad()
        loss = F.cross_entropy(table(ids), targets)
        loss.backward()
        opt.step()
        return loss

    good = tl.tensor([1, 2, 3])
    for _ in range(2):
        step(good, tl.tensor([0, 1, 2]))

    def everything():
        return [t.tolist() for t in (table.weight, table.weight.grad, *opt.state[table.weight].values())]

    before = everything()
    for bad, where in ((9, "ids"), (-1, "ids"), (4, "targets"), (-1, "targets")):
        ids, targets = ([1, bad, 3], [0, 1, 2]) if where == "ids" else ([1, 2, 3], [0, bad, 2])
        with pytest.raises(IndexError, match=r"out of range for a dimension of size \d .*test_capture.py:\d+"):
            step(tl.tensor(ids), tl.tensor(targets))
        assert everything() == before
    loss = step(good, tl.tensor([0, -100, 2]))
    assert np.isfinite(loss.item()) and everything() != before


def test_a_negative_power_of_integers():
    compiled = tl.compile(lambda x, y: x**y)
    assert compiled(tl.tensor([2, -3]), tl.tensor([10, 3])).tolist() == [1024, -27]
    with pytest.raises(RuntimeError, match="integers to negative integer powers"):
        compiled(tl.tensor([2, 3]), tl.tensor([1, -1]))


# ---- models ------------------------------------------------------------------------------------------------------


def test_a_compiled_model_is_still_the_model():
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    compiled = tl.compile(model)
    assert compiled.state_dict().keys() == model.state_dict().keys()
    assert [p is q for p, q in zip(compiled.parameters(), model.parameters(), strict=True)] == [True] * 4
    compiled.eval()
    x = tl.ones(5, 3)
    out = compiled(x)
    np.testing.assert_allclose(out.detach().numpy(), model(x).detach().numpy(), rtol=1e-6)
    with pytest.raises(AttributeError):
        compiled.no_such_thing  # noqa: B018
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other(x).detach().numpy().round(5), out.detach().numpy().round(5))
        with tl.no_grad():
            next(iter(other.parameters())).fill_(0)
    np.testing.assert_array_equal(compiled(x).detach().numpy(), out.detach().numpy())


def test_nested_compiled_functions_become_part_of_the_outer():
    w = weight()
    inner = tl.compile(lambda x: w * x)

    @tl.compile
    def step(x):
        w.grad = None
        inner(x).sum().backward()

    step(tl.full((3,), 2.0))
    assert w.grad.tolist() == [2, 2, 2]


def test_dropped_functions_are_freed():
    def make(model, opt):
        @tl.compile
        def step(x):
            opt.zero_grad()
            loss = model(x).sum()
            loss.backward()
            opt.step()
            return loss

        step(tl.ones(2, 3))
        return weakref.ref(step._last.program), weakref.ref(step._last.graph), weakref.ref(step)

    model = nn.Linear(3, 3)
    refs = make(model, optim.SGD(model.parameters(), lr=0.1))
    gc.collect()
    assert [r() for r in refs] == [None] * 3
    ref = weakref.ref(model)
    del model
    gc.collect()
    assert ref() is None


def test_verify_finds_a_seeded_fault():
    w = tl.tensor([1.0, 2.0, 3.0])

    def fn(x):
        w.add_(x)
        return w * 2

    compiled = tl.compile(fn, verify=True)
    assert compiled(tl.ones(3)).tolist() == [4, 6, 8]
    program = compiled._last.program
    run = program._run_tape

    def faulty(turns):
        run(turns)
        program.outputs[0][1] += 1

    program._run_tape = faulty
    message = r"output 0: compiled .* differs from interpreted .* at \[1\].*test_capture.py"
    with pytest.raises(RuntimeError, match=message):
        compiled(tl.ones(3))


def test_assigned_values_are_not_shared():
    x, z, w = tl.ones(2), tl.zeros(2), tl.zeros(2, requires_grad=True)
    z[:] = x
    with tl.no_grad():
        w[:] = x
    assert not x.requires_grad
    tl.compile(lambda: x.add_(1))()
    assert z.tolist() == w.tolist() == [1, 1] and x.tolist() == [2, 2]

    @tl.compile
    def step(given):
        with tl.no_grad():
            w[:] = given
        return given * 1

    assert not step(tl.zeros(2)).requires_grad and w.tolist() == [0, 0]


def test_a_detached_view_of_a_tensor_with_history_is_a_state_like_any_other() -> None:
    a = tl.tensor([1.0, 2.0], requires_grad=True)
    outside = a * 2
    kept = outside.detach()
    compiled = tl.compile(lambda y: (y * kept).sum())
    assert compiled(tl.tensor([3.0, 4.0])).item() == 22.0

    def with_history(y: tl.Tensor) -> tl.Tensor:
        loss = (y * outside).sum()
        loss.backward()
        return loss

    with pytest.raises(tl.CaptureError, match="carries history"):
        tl.compile(with_history)(tl.tensor([3.0, 4.0]))


def test_hyper_parameters_keep_their_precision() -> None:
    weight = tl.nn.Parameter(tl.ones(3, dtype=tl.float64))
    optimizer = tl.optim.SGD([weight], lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()

    tl.compile(step)()
    assert weight.tolist() == [0.9, 0.9, 0.9]
