"""explain, profile and memory of a training step: what they say, what they add up to, what they leave alone."""

import json
from itertools import pairwise

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import models
from tinygrad_lite.cli.options import TrainOptions
from tinygrad_lite.cli.training import make_optimizer, training_step
from tinygrad_lite.ir.schedule.memory import verify_plan


@pytest.fixture(scope="module")
def nano():
    """gpt-nano's training step, captured, with what it trains and its arguments."""
    tl.manual_seed(0)
    model = models.build("gpt-nano", n_layer=2)
    options = TrainOptions()
    step = tl.compile(training_step(model, make_optimizer(model, options), options.clip))
    ids = tl.randint(0, 65, (4, 64))
    step(ids, ids)
    return model, step, ids


@pytest.fixture(scope="module")
def profile(nano):
    return nano[1].profile(20)


def test_times_add_up_to_the_measured_step(nano, profile):
    for attempt in range(3):  # other processes may take the processor away in between
        parts = sum(r.seconds + r.wait for r in profile.rows)
        assert parts + profile.rest == pytest.approx(profile.step)
        if abs(parts - profile.step) <= 0.05 * profile.step or attempt == 2:
            break
        profile = nano[1].profile(20)
    assert parts == pytest.approx(profile.step, rel=0.05)


def test_python_is_no_part_of_a_tiny_run():
    double = tl.compile(lambda x: (x @ x).sum())
    double(tl.randn(32, 32))
    shares = []
    for _ in range(5):  # other processes may take the processor away in between
        profile = double.profile(500)
        shares.append(profile.rest / profile.step)
    assert min(shares) < 0.1


def test_kernels_and_modules_hold_all_the_time(profile):
    total = sum(r.seconds for r in profile.rows)
    assert sum(r.seconds for r in profile.kernels) == pytest.approx(total)
    for depth in (0, 1, 3):
        assert sum(r.seconds for r in profile.by_module(depth)) == pytest.approx(total)
    names = [r.name for r in profile.modules]
    assert {"forward blocks.0.mlp", "backward blocks.1.attn", "optimiser (top)"} <= set(names)
    assert [r.seconds for r in profile.kernels] == sorted((r.seconds for r in profile.kernels), reverse=True)


def test_rates_follow_from_costs(nano, profile):
    products = [r for r in profile.rows if "matmul" in r.name]
    assert all(r.flops > 0 and r.gflops > 0 and r.gbytes > 0 and r.roofline > 0 for r in products)
    flops = sum(n.op.cost(n).flops for n in nano[1].graph("optimised").nodes if n.op.name == "matmul")
    assert sum(r.flops for r in products) == flops
    assert profile.peaks.flops > 1e9 and profile.peaks.bytes > 1e8


def test_a_profile_leaves_everything_as_it_was(nano):
    model, step, _ = nano
    before = {k: v.detach().numpy().copy() for k, v in model.state_dict().items()}
    step.profile(3)
    assert all(np.array_equal(v, model.state_dict()[k].detach().numpy()) for k, v in before.items())
    with pytest.raises(ValueError, match="profile needs at least 1 run, not 0"):
        step.profile(0)


def test_a_trace_has_one_row_a_worker(profile, tmp_path):
    events = json.loads(profile.save(tmp_path / "trace.json").read_text())["traceEvents"]
    bars = [e for e in events if e["ph"] == "X"]
    assert {e["tid"] for e in bars} == set(range(profile.workers))
    for worker in range(profile.workers):
        own = [e for e in bars if e["tid"] == worker]
        assert all(b["ts"] >= a["ts"] + a["dur"] - 0.01 for a, b in pairwise(own))
        assert own[-1]["ts"] + own[-1]["dur"] <= profile.step * 1.1e6
    assert any(e["args"].get("module") == "blocks.0.mlp.fc" for e in bars)


def test_a_profile_prints_and_plots(profile, tmp_path):
    text = str(profile)
    assert "s a run over 20" in text and "waiting at barriers" in text and "roofline" in text
    assert json.loads(json.dumps(profile.to_dict()))["runs"] == 20
    profile.plot(tmp_path / "profile.png")
    assert (tmp_path / "profile.png").stat().st_size > 5000


def test_memory_is_the_plan(nano, tmp_path):
    memory = nano[1].memory()
    verify_plan([life for life, _ in memory._lives], [at for _, at in memory._lives])
    assert memory.timeline[memory.peak] == max(memory.timeline) <= memory.live <= memory.arena
    assert all(b.first <= memory.peak <= b.last for b in memory.at_peak())
    assert sum(b.nbytes for b in memory.at_peak()) <= memory.timeline[memory.peak]
    assert memory.states == sum(s.type.nbytes for s in nano[1].graph("traced").states)
    assert "alive then:" in str(memory) and "blocks.0.mlp" in str(memory)
    assert json.loads(json.dumps(memory.to_dict()))["at_peak"]
    memory.plot(tmp_path / "memory.png")
    assert (tmp_path / "memory.png").stat().st_size > 5000


def test_explain_says_what_and_why(nano):
    explained = nano[1].explain()
    text = str(explained)
    for part in ("trace", "passes", "schedule", "kernels", "fused:", "not fused", "a matrix product", "memory: arena"):
        assert part in text
    assert "captured once" in text
    assert explained.costs["bytes_fused"] < explained.costs["bytes_unfused"]
    data = json.loads(json.dumps(explained.to_dict()))
    assert data["bill"]["distinct_kernels"] > 5 and len(data["passes"]) >= 7
    values = sum(r["values"] for r in data["borders"].values())
    assert values > 20


def test_explain_says_why_it_was_captured_again():
    compiled = tl.compile(lambda x, scale: x * scale)
    compiled(tl.ones(3), 2.0)
    compiled(tl.ones(3), 5.0)
    assert "captured again: new arguments" in str(compiled.explain())
    assert "2 capture(s)" in str(compiled.explain())


def test_recomputation_is_named():
    def twice(x, y):
        places = tl.arange(100.0)
        return x + places, y * places

    compiled = tl.compile(twice)
    compiled(tl.ones(100), tl.ones(5, 100))
    assert "made from an element's number" in str(compiled.explain())


def test_nothing_to_look_at_before_the_first_call():
    compiled = tl.compile(lambda x: x)
    for look in (compiled.graph, compiled.explain, compiled.profile, compiled.memory):
        with pytest.raises(RuntimeError, match="nothing has been captured yet"):
            look()
