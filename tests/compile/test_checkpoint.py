"""Rematerialisation: the bits stay, the memory goes, and whoever looks is told. In captures and in eager mode."""

from __future__ import annotations

import functools
import itertools
import math
import os
import weakref
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tinygrad_lite as tl
from benchmarks.workload import WORKLOADS, make_step
from tests.compile.running import PlainProgram, verify_program
from tests.compile.test_random_graphs import check, random_cases
from tinygrad_lite import nn
from tinygrad_lite.budget import BudgetError, Policy, apply
from tinygrad_lite.capture import capture
from tinygrad_lite.guards import key_of
from tinygrad_lite.ir.diagram import diagram
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Location, Node
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.passes.cse import cse
from tinygrad_lite.ir.schedule.place import is_computed
from tinygrad_lite.ir.schedule.rematerialise import is_late, is_recomputed, rematerialise, settle, stays
from tinygrad_lite.ir.schedule.schedule import schedule
from tinygrad_lite.utils.checkpoint import checkpoint, checkpoint_sequential

F = nn.functional
EXAMPLES = int(os.environ.get("TINYGRAD_LITE_EXAMPLES", 20))


class Block(nn.Module):
    """Batch norm, which has running moments, dropout, which draws, and two products."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(width), nn.Dropout(0.3)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.drop(self.back(F.gelu(self.wide(self.norm(x)))))


def whole(blocks, x):
    for block in blocks:
        x = block(x)
    return x


def each(blocks, x):
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)
    return x


def sequential(blocks, x):
    return checkpoint_sequential(blocks, 3, x)


def nested(blocks, x):
    half = len(blocks) // 2
    return checkpoint(each, blocks[half:], checkpoint(each, blocks[:half], x))


def run(forward, compiled, depth=6, width=16, rows=32, **options):
    """Losses, gradients, running moments and the stream's place after two steps; the step."""
    tl.manual_seed(0)
    blocks = nn.ModuleList([Block(width) for _ in range(depth)])
    data = np.random.default_rng(0).standard_normal((rows, width)).astype(np.float32)

    def step(x):
        blocks.zero_grad()
        loss = (forward(list(blocks), x) ** 2).mean()
        loss.backward()
        return loss

    function = tl.compile(step, **options) if compiled else step
    losses = [function(tl.from_numpy(data)).item() for _ in range(2)]
    arrays = [p.grad.numpy().copy() for p in blocks.parameters()] + [b.numpy().copy() for b in blocks.buffers()]
    return [np.array(losses), *arrays, tl.get_rng_state().numpy().copy()], function


@functools.cache
def plain():
    """The compiled step without recomputation."""
    return run(whole, True)


def assert_same_bits(got, want):
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


# ---- segments that the user marks -----------------------------------------------------------------------


@pytest.mark.parametrize("forward", [each, sequential, nested])
def test_eager_segments_keep_every_bit(forward):
    assert_same_bits(run(forward, False)[0], run(whole, False)[0])


@pytest.mark.parametrize("forward", [each, pytest.param(nested, marks=pytest.mark.slow)])
def test_compiled_segments_keep_every_bit_and_take_less_memory(forward):
    want, without = plain()
    got, step = run(forward, True)
    assert_same_bits(got, want)
    assert step.memory().arena < 0.6 * without.memory().arena
    products = [n for n in step.graph("optimised").nodes if is_recomputed(n) and n.op.name == "matmul"]
    assert len(products) == {each: 6, nested: 14}[forward]  # nested: two of three blocks whole, then each block's first
    assert step.explain().recomputed["checkpoint()"]["values"] >= len(products)


def test_eager_mode_lets_go_and_computes_again():
    """Inside of a segment no array outlives the forward pass; backward makes them anew, and lets go of them again."""
    w = tl.randn(8, 8, requires_grad=True)
    inside = []

    def f(x):
        y = (x @ w).tanh()
        inside.append(weakref.ref(y._node))
        return y * 2

    x = tl.randn(8, 8)
    loss = checkpoint(f, checkpoint(f, x)).sum()
    nodes = [ref() for ref in inside]
    assert [n.value is None for n in nodes] == [True, True]
    loss.backward(retain_graph=True)
    first = w.grad.numpy().copy()
    assert [n.value is None for n in nodes] == [True, True]
    w.grad = None
    loss.backward()
    np.testing.assert_array_equal(w.grad.numpy(), first)


def test_what_a_tensor_holds_is_kept():
    held = []
    x = tl.ones(3, requires_grad=True)
    out = checkpoint(lambda v: held.append(v * 2) or held[0].exp().sin(), x)
    np.testing.assert_array_equal(held[0].detach().numpy(), [2, 2, 2])
    out.sum().backward()
    assert x.grad is not None


def test_second_derivatives_go_through_a_segment():
    def second(f):
        x = tl.tensor([0.3, -0.7], requires_grad=True)
        (g,) = tl.autograd.grad(f(x).sum(), x, create_graph=True)
        (h,) = tl.autograd.grad((g * g).sum(), x)
        return h.numpy()

    def f(x):
        return (x.sin() * x.exp()).tanh()

    np.testing.assert_array_equal(second(lambda x: checkpoint(f, x)), second(f))


def test_an_operand_that_was_overwritten_is_noticed():
    x = tl.ones(3, requires_grad=True)
    y = x * 1
    out = checkpoint(lambda v: v.exp().sin(), y)
    y.mul_(2)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation: exp .* computed again by checkpoint"):
        out.sum().backward()


def test_arguments_of_checkpoint():
    x = tl.ones(2, requires_grad=True)
    pair = checkpoint(lambda a, b, scale: {"sum": a + b, "scaled": a * scale}, x, x, scale=3.0, preserve_rng_state=True)
    assert pair["scaled"].tolist() == [3, 3]
    with pytest.raises(TypeError, match="context_fn"):
        checkpoint(tl.exp, x, context_fn=lambda: None)
    with pytest.raises(ValueError, match="2 functions cannot be cut into 3"):
        checkpoint_sequential([tl.exp, tl.sin], 3, x)
    with pytest.raises(TypeError, match="unexpected keywords: speed"):
        checkpoint_sequential([tl.exp, tl.sin], 1, x, speed=1)


# ---- what the compiler chooses --------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"checkpoint": "sqrt"}, {"memory_budget": 0.6}])
def test_chosen_values_keep_every_bit(options):
    want, without = plain()
    got, step = run(whole, True, **options)
    assert_same_bits(got, want)
    assert step.memory().arena <= 0.6 * without.memory().arena
    (what,) = (k for k in step.explain().recomputed if "=" in k)
    assert what in ('checkpoint="sqrt"', "memory_budget=0.6")
    assert "× the work" in step.explain()
    assert "recompute" in diagram(step.graph("optimised")).phases


def test_a_budget_in_bytes_and_one_that_is_no_constraint():
    _, without = plain()
    arena = without.memory().arena
    _, step = run(whole, True, memory_budget=int(0.7 * arena))
    assert step.memory().arena <= 0.7 * arena
    _, roomy = run(whole, True, memory_budget=1.0)
    assert roomy.memory().arena == arena
    assert roomy.explain().recomputed.keys() == without.explain().recomputed.keys()


@pytest.mark.slow
def test_a_budget_below_the_least_names_it_and_the_least_can_be_had():
    with pytest.raises(BudgetError, match=r"memory_budget=0\.01 asks for an arena of [\d,]+ bytes.* least") as caught:
        run(whole, True, memory_budget=0.01)
    least = int(str(caught.value).split("found is ")[1].split(" bytes")[0].replace(",", ""))
    _, step = run(whole, True, memory_budget=least)
    assert step.memory().arena <= least


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"checkpoint": "all"}, ValueError, "checkpoint is"),
        ({"checkpoint": "sqrt", "memory_budget": 0.5}, ValueError, "exclude one another"),
        ({"memory_budget": 1.5}, ValueError, "share of at most 1.0"),
        ({"memory_budget": 0}, ValueError, "share of at most 1.0"),
        ({"memory_budget": True}, TypeError, "share such as 0.5"),
        ({"memory_budget": "2GB"}, TypeError, "share such as 0.5"),
    ],
)
def test_policies_that_make_no_sense(options, error, message):
    with pytest.raises(error, match=message):
        tl.compile(lambda x: x, **options)


def test_without_backward_there_is_nothing_to_compute_again():
    @tl.compile(memory_budget=0.5)
    def forward(x):
        return (x @ x).exp() @ x

    with pytest.raises(BudgetError, match=r"memory_budget=1\.0\)"):
        forward(tl.ones(64, 64))


# ---- the figures: plans without native code ----------------------------------------------------------------


def optimised(step, *args) -> Graph:
    """The graph of one call, after the passes."""
    tensors = []
    key_of(args, tensors)
    return pipeline.run(capture(step, args, {}, tensors).graph)


def flops(graph: Graph) -> int:
    return sum(n.op.cost(n).flops for n in graph.nodes)


@pytest.mark.slow
def test_sqrt_of_64_equal_blocks():
    """At most 2.2 · √64 / 64 of the activations, and 34 % more FLOPs."""

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(256, 256)

        def forward(self, x):
            return x + F.gelu(self.linear(x))

    model = nn.Sequential(*[Residual() for _ in range(64)])

    def step(x):
        model.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        return loss

    graph = optimised(step, tl.randn(512, 256))
    choice = apply(graph, Policy("sqrt"), 2)
    assert choice.planned <= 2.2 * math.sqrt(64) / 64 * choice.plain
    assert flops(choice.graph) <= 1.34 * flops(graph)


@pytest.mark.slow
@pytest.mark.parametrize("name,share", [("gpt-mid", 0.5), ("resnet8", 0.62)])
def test_less_memory_for_a_workload(name, share):
    """At most 15 % more work; the chart in docs/performance.md has the times."""
    workload = WORKLOADS[name]
    model = workload.build(tl)
    step = make_step(tl, model, True).fn
    graph = optimised(step, *map(tl.from_numpy, workload.batch(np.random.default_rng(0))))
    choice = apply(graph, Policy(memory_budget=share), 2)
    assert choice.planned <= share * choice.plain
    assert choice.work <= 1.15
    assert flops(choice.graph) <= 1.15 * flops(graph)


# ---- the mechanism --------------------------------------------------------------------------------------


def in_two_phases(graph: Graph, cut: int) -> Graph:
    """`graph` as if what comes after its first `cut` nodes were the backward pass."""
    number = itertools.count()

    def visit(node: Node, inputs: tuple[Node, ...]) -> Node:
        phase = "forward" if next(number) < cut else "backward"
        return Node(node.op, inputs, node.attrs, node.type, Location("here.py", 1, phase=phase))

    return graph.rebuild(visit)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(random_cases, st.integers(0, 30), st.integers(1, 2), st.data())
def test_any_values_may_be_dropped(case, cut, workers, data):
    plan = schedule(in_two_phases(case.graph, cut))
    settle(plan.graph, plan.groups)
    early = [n for n in plan.graph.nodes if is_computed(n) and not is_late(n) and not stays(n)]
    dropped = {id(n) for n in early if data.draw(st.booleans())}
    again = rematerialise(plan.graph, dropped, "test")
    assert not any(id(i) in dropped for n in again.nodes if is_late(n) for i in n.inputs)
    assert sum(map(is_recomputed, cse(again, Counter()).nodes)) == sum(map(is_recomputed, again.nodes))
    program = PlainProgram(again, workers, 0)
    verify_program(program)
    kernels = [{n.kernel.number if n.kernel else -2 for n in g.nodes} for g in program.schedule.groups]
    assert all(len(numbers) == 1 for numbers in kernels)
    settled = [numbers.pop() for numbers in kernels if numbers != {-2}]
    assert len(set(settled)) == len(settled)
    check(case, program)
