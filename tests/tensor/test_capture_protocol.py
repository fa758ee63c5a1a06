"""What a Tensor tells the capture under way, seen by a stand-in for one."""

from __future__ import annotations

import pytest

import tinygrad_lite as tl
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ops import leaf


class Recorder:
    """Lifts handles to states and restores what was touched, as tl.compile does."""

    def __init__(self):
        self.lifted, self.touched, self.read, self.wrote = {}, {}, [], []

    def lift(self, tensor):
        if id(tensor) not in self.lifted:
            node = leaf.state(f"s{len(self.lifted)}", tensor._node.dtype, tensor._node.shape)
            node.grad = tensor._node.grad
            self.lifted[id(tensor)] = node
        return self.lifted[id(tensor)]

    def touch(self, tensor):
        self.touched.setdefault(id(tensor), (tensor, tensor._state()))

    def draws(self, count):
        return count

    def read_grad(self, tensor):
        self.read.append(tensor)

    def wrote_grad(self, tensor):
        self.touch(tensor)
        self.wrote.append(tensor)

    def __enter__(self):
        mode.trace = self
        return self

    def __exit__(self, *exc):
        mode.trace = None
        for tensor, state in self.touched.values():
            tensor._restore(state)


def test_handles_from_outside_are_lifted_once():
    a, b = tl.ones(2), tl.ones(2)
    with Recorder() as trace:
        out = a * b + a
        assert out._node.value is None and len(trace.lifted) == 2
    assert a._node.value is not None


def test_rebinding_is_touched_and_undone():
    a = tl.ones(2)
    with Recorder() as trace:
        a.add_(1)
        assert a._node.value is None and list(trace.touched) == [id(a)]
        assert a._node.inputs[0] is trace.lifted[id(a)]
    assert a.tolist() == [1, 1]


def test_views_from_before_follow_the_lifted_base():
    a = tl.zeros(2, 2)
    row = a[0]
    with Recorder() as trace:
        a.add_(1)
        row.mul_(2)
        assert [n.op.name for n in (a._node, row._read())] == ["slice_update", "reshape"]
        assert list(trace.lifted) == [id(a)]
        assert a[1]._base is a
    assert row.tolist() == [0, 0]
    a.fill_(3)
    assert row.tolist() == [3, 3]


def test_views_made_inside_stay_valid_outside():
    a = tl.zeros(2, 2)
    with Recorder():
        row = a[0]
    assert row.tolist() == [0, 0]


def test_a_whole_step():
    w = tl.ones(3, requires_grad=True)
    with Recorder() as trace:
        loss = (w * w).sum()
        loss.backward()
        assert w.grad._node.value is None and trace.wrote == [w]
        with tl.no_grad():
            w.sub_(w.grad * 0.1)
        assert w.is_leaf and w.requires_grad and w._node.value is None
        w.grad = None
    assert w.grad is None and w.tolist() == [1, 1, 1] and w.is_leaf and w.requires_grad


def test_backward_nodes_keep_phase_scope_and_line():
    w = tl.ones(3, requires_grad=True)
    with Recorder():
        with mode.set(scope="net.fc"):
            y = w.sin()
        y.sum().backward()
        node = w.grad._node
        assert (node.location.scope, node.location.phase) == ("net.fc", "backward")
        assert node.location.line == y._node.location.line


def test_existing_gradients_are_accumulated_in_place():
    w = tl.ones(3, requires_grad=True)
    w.sum().backward()
    kept = w.grad
    with Recorder() as trace:
        w.sum().backward()
        assert w.grad is kept and kept._node.value is None and w in trace.read
    assert kept.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.item(),
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        lambda x: bool(x),
        lambda x: float(x),
        lambda x: int(x),
        lambda x: [1, 2][x.long()],
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: x.long().bincount(),
        lambda x: x.unique(),
        lambda x: tl.one_hot(x.long()),
        lambda x: tl.masked_select(x, x > 0),
        lambda x: f"{x.sum():.2f}",
    ],
)
def test_values_cannot_be_read(read):
    x = tl.ones(1)
    with Recorder(), pytest.raises(tl.CaptureError, match=r"test_capture_protocol.py:\d+"):
        read(x)


def test_what_does_not_need_values_works():
    x = tl.tensor([3.0, -1.0, 2.0])
    with Recorder():
        x[x > 2] = 0.0
        for result in (
            x[tl.tensor([0, 1])],
            x[tl.tensor(1)],
            tl.tensor([1.0, 2.0]) + 1,
            tl.rand(3),
            tl.multinomial(x, 1),
        ):
            assert result._read().value is None
        assert "symbolic" in repr(x)


def test_leaked_tensors_say_so():
    a = tl.ones(2)
    with Recorder():
        out = a * 2
    for use in (lambda: out.item(), lambda: out + 1, lambda: out.numpy()):
        with pytest.raises(RuntimeError, match="compile"):
            use()


def test_requires_grad_inside():
    a = tl.ones(2)
    with Recorder():
        a.requires_grad_()
        (a * 3).sum().backward()
        assert a.grad._node.value is None
    assert not a.requires_grad and a._grad is None


def test_random_state_is_state():
    generator = tl.Generator().manual_seed(0)
    with Recorder() as trace:
        tl.rand(3, generator=generator)
        tl.rand(3, generator=generator)
        assert set(trace.lifted) == {id(generator.seed_value), id(generator.offset)}
        assert generator.offset._node.op.name == "add"
    assert generator.offset.item() == 0
