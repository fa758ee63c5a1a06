"""Views alias their base and in-place writes go through them: PyTorch's answers, written down."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tinygrad_lite as tl


def values(x):
    return x.detach().numpy().tolist()


def test_writing_through_a_view_changes_the_base():
    a = tl.arange(6).reshape(2, 3)
    a[0].add_(10)
    assert values(a) == [[10, 11, 12], [3, 4, 5]]
    a.t()[2].mul_(2)
    assert values(a) == [[10, 11, 24], [3, 4, 10]]


def test_writing_to_the_base_shows_in_its_views():
    a = tl.arange(6)
    row, column, part = a.view(2, 3)[1], a.view(2, 3).t()[0], a[::2]
    a.mul_(10)
    assert (values(row), values(column), values(part)) == ([30, 40, 50], [0, 30], [0, 20, 40])


def test_one_view_sees_what_another_wrote():
    a = tl.zeros(4)
    b, c = a.view(2, 2), a[1:3]
    b[1].fill_(7)
    assert values(c) == [0, 7]
    c.add_(1)
    assert values(b) == [[0, 1], [8, 7]]


@pytest.mark.parametrize(
    ("make", "written"),
    [
        (lambda x: x.view(4), [1, 1, 1, 1]),
        (lambda x: x.t(), [1, 1, 1, 1]),
        (lambda x: x[:, 1], [0, 1, 2, 1]),
        (lambda x: x[None, 1:, ::2], [0, 1, 1, 3]),
        (lambda x: x.unsqueeze(0).squeeze(), [1, 1, 1, 1]),
        (lambda x: x.narrow(0, 1, 1), [0, 1, 1, 1]),
        (lambda x: x.select(1, 0), [1, 1, 1, 3]),
        (lambda x: x.detach()[0], [1, 1, 2, 3]),
        (lambda x: x.data, [1, 1, 1, 1]),
        (lambda x: x.split(1, 1)[1], [0, 1, 2, 1]),
        (lambda x: x.chunk(2)[0], [1, 1, 2, 3]),
        (lambda x: x.unbind(1)[1], [0, 1, 2, 1]),
        (lambda x: x.flatten(), [1, 1, 1, 1]),
        (lambda x: x.permute(1, 0), [1, 1, 1, 1]),
        (lambda x: x.reshape(4), [1, 1, 1, 1]),
        (lambda x: x.contiguous(), [1, 1, 1, 1]),
        (lambda x: x.expand(2, 2), [1, 1, 1, 1]),
        (lambda x: x.to(tl.float32), [1, 1, 1, 1]),
        (lambda x: x.t().reshape(4), [0, 1, 2, 3]),  # copies from here on
        (lambda x: x.clone(), [0, 1, 2, 3]),
        (lambda x: x[[0, 1]], [0, 1, 2, 3]),
        (lambda x: x.flip(0), [0, 1, 2, 3]),
        (lambda x: x.t().contiguous(), [0, 1, 2, 3]),
        (lambda x: x.double(), [0, 1, 2, 3]),
        (lambda x: tl.tensor(x), [0, 1, 2, 3]),
        (lambda x: x + 0, [0, 1, 2, 3]),
        (lambda x: x.floor(), [0, 1, 2, 3]),
    ],
)
def test_what_is_a_view(make, written):
    a = tl.arange(4).float().view(2, 2)
    make(a).fill_(1)
    assert values(a.view(4)) == written


def test_views_of_expanded_tensors_cannot_be_written():
    with pytest.raises(RuntimeError, match="single memory location"):
        tl.zeros(2, 1).expand(2, 3)[0].add_(1)


def test_the_same_value_kept_when_the_layout_allows():
    a = tl.arange(12).view(3, 4)
    assert a.stride() == (4, 1) and a.t().stride() == (1, 4) and a[:, ::2].stride() == (4, 2)
    assert a.t().is_contiguous() is False and a[1:].is_contiguous()
    assert a[:, :2].reshape(-1).stride() == (1,)
    assert a[0].view(2, 2).t().stride() == (1, 2)
    assert a.expand(2, 3, 4).stride() == (0, 4, 1)
    with pytest.raises(RuntimeError, match="reshape"):
        a.t().view(12)
    with pytest.raises(RuntimeError, match="reshape"):
        a[:, :2].view(6)
    assert a[:, :2].view(3, 2, 1).shape == (3, 2, 1)
    assert a.t().view(2, 2, 3).shape == (2, 2, 3)


def test_inplace_methods_return_the_tensor_itself():
    a = tl.ones(3)
    assert a.add_(1) is a and a.mul_(3).sub_(1).div_(2) is a
    assert values(a) == [2.5, 2.5, 2.5]
    b = a
    a += 1
    a -= 0.5
    a *= 2
    a /= 3
    a **= 2
    assert b is a
    assert values(a) == [4, 4, 4]
    assert values(a.zero_()) == [0, 0, 0]
    assert values(a.copy_(tl.arange(3))) == [0, 1, 2] and a.dtype is tl.float32
    assert values(a.clamp_(min=1).neg_()) == [-1, -1, -2]
    assert values(tl.tensor([5, 7]).remainder_(4)) == [1, 3]
    assert values(tl.zeros(3).masked_fill_(tl.tensor([True, False, True]), 2)) == [2, 0, 2]


def test_inplace_keeps_the_dtype_or_refuses():
    a = tl.ones(2)
    a.add_(tl.ones(2, dtype=tl.float64))
    assert a.dtype is tl.float32
    with pytest.raises(RuntimeError, match="can't be cast"):
        tl.ones(2, dtype=tl.int64).add_(0.5)
    with pytest.raises(RuntimeError, match="broadcast shape"):
        tl.ones(2).add_(tl.ones(3, 2))
    n = tl.ones(2, dtype=tl.int8)
    n += 100
    assert n.dtype is tl.int8 and n.tolist() == [101, 101]


def test_inplace_on_leaves():
    w = tl.ones(3, requires_grad=True)
    for write in (lambda: w.add_(1), lambda: w[:2].zero_(), lambda: w.__setitem__(0, 1.0), lambda: w.view(3).fill_(2)):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            write()
    with tl.no_grad():
        w.add_(1)
        w[0] = 5.0
    assert w.is_leaf and w.requires_grad and values(w) == [5, 2, 2]
    w.data.mul_(2)
    w.detach()[1] = 0.0
    assert w.is_leaf and w.requires_grad and values(w) == [10, 0, 4]
    (w * w).sum().backward()
    assert values(w.grad) == [20, 0, 8]


def test_gradients_flow_through_written_views():
    w = tl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    a = w * 1
    a[1:].mul_(10)
    a[0] = a[2] * 2
    (a * tl.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert values(a) == [60, 20, 30]
    assert values(w.grad) == [0, 100, 1020]


def test_a_tensor_without_grad_gets_history_by_writing():
    w = tl.tensor([2.0], requires_grad=True)
    out = tl.zeros(3)
    view = out[:2]
    view[0] = w[0] * 3
    assert out.requires_grad and view.requires_grad and not out.is_leaf
    out.sum().backward()
    assert values(w.grad) == [3]


def test_writes_outside_autograd_keep_the_history():
    w = tl.tensor([1.0, 2.0], requires_grad=True)
    y = w * 3
    with tl.no_grad():
        y.add_(100)
    assert y.requires_grad and values(y) == [103, 106]
    y.data.zero_()
    assert y.requires_grad and values(y) == [0, 0]
    y.sum().backward()
    assert values(w.grad) == [3, 3]


def test_a_detached_alias_written_with_history():
    w = tl.tensor([1.0], requires_grad=True)
    h = tl.zeros(1)
    d = h.detach()
    d.add_(w * 2)
    assert d.requires_grad and not h.requires_grad and values(h) == [2]
    d.sum().backward()
    assert values(w.grad) == [2]


def test_views_made_without_grad_stay_without():
    w = tl.ones(3, requires_grad=True)
    y = w * 1
    with tl.no_grad():
        view = y[:2]
    y.mul_(2)
    assert not view.requires_grad and values(view) == [2, 2]


def test_assigning_data():
    w = tl.zeros(3, requires_grad=True)
    w.data = tl.ones(2)
    assert w.is_leaf and w.requires_grad and w.shape == (2,)
    (w * 3).sum().backward()
    assert values(w.grad) == [3, 3]
    with pytest.raises(TypeError):
        w.data = 3


def test_numpy_shares_and_tensor_copies():
    array = np.zeros(3, np.float32)
    shared, copied, also = tl.from_numpy(array), tl.tensor(array), tl.as_tensor(array)
    array[0] = 5
    assert values(shared) == [5, 0, 0] and values(also) == [5, 0, 0] and values(copied) == [0, 0, 0]
    assert shared.numpy() is array
    with pytest.raises(TypeError):
        tl.from_numpy([1, 2])
    with pytest.raises(TypeError):
        tl.from_numpy(np.zeros(2, np.complex64))


def test_copies_and_pickles():
    w = tl.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    twin = copy.deepcopy(w)
    with tl.no_grad():
        twin.add_(1)
    assert values(w) == [1, 2] and values(twin) == [2, 3] and twin.requires_grad and values(twin.grad) == [2, 4]
    again = pickle.loads(pickle.dumps(w))
    assert again.requires_grad and again.is_leaf and values(again) == [1, 2]
    assert pickle.loads(pickle.dumps(tl.tensor(3.0))).shape == ()
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(w * 2)
    with pytest.raises(TypeError, match="leaf"):
        pickle.dumps(w * 2)


def test_conversions_and_questions():
    a = tl.tensor([[1.5, -2.0]])
    assert (a.size(), a.size(0), a.dim(), a.ndim, a.numel(), len(a)) == ((1, 2), 1, 2, 2, 2, 1)
    assert a.shape.numel() == 2 and a.shape[1:] == (2,) and isinstance(a.shape[:1], tl.Size)
    assert a.long().tolist() == [[1, -2]] and a.bool().tolist() == [[True, True]] and a.int().dtype is tl.int32
    assert a.to(tl.float64).dtype is tl.float64 and a.to("cpu") is a and a.float() is a and a.cpu() is a
    assert a.to(tl.zeros(1, dtype=tl.int8)).dtype is tl.int8 and a.type(tl.int16).dtype is tl.int16
    assert a.type_as(tl.zeros(1, dtype=tl.float64)).dtype is tl.float64
    assert a.element_size() == 4 and a.nbytes == 8 and str(a.device) == "cpu" and a.is_floating_point()
    assert float(a[0, 0]) == 1.5 and int(a[0, 1]) == -2 and bool(a[0, 0]) and f"{a[0, 0]:.2f}" == "1.50"
    assert [0, 1, 2][tl.tensor(1)] == 1 and a.new_ones(2).dtype is tl.float32
    assert a.T.shape == (2, 1) and a.mT.shape == (2, 1)
    assert len({a, a.clone()}) == 2 and 1.5 in a and a.item is not None
    assert np.asarray(a).dtype == np.float32 and np.array(a, np.float64).dtype == np.float64
    assert (np.ones(2, np.float32) * a).tolist() == [[1.5, -2.0]] and isinstance(np.float32(2) * a, tl.Tensor)
    assert (a == None) is False and (a != "x") is True  # noqa: E711
    for bad in (lambda: a.to("cuda"), lambda: a.cuda(), lambda: tl.zeros(1, device="cuda")):
        with pytest.raises(RuntimeError, match="CPU"):
            bad()
    with pytest.raises(TypeError):
        a.to(3)
    assert not tl.cuda.is_available() and tl.device("cpu") == tl.device("cpu:0").__class__("cpu")


COPIES = {
    "repeat": lambda x: x.repeat(1, 1),
    "tile": lambda x: tl.tile(x, (1, 1)),
    "repeat_interleave": lambda x: tl.repeat_interleave(x, 1, 0),
    "cat": lambda x: tl.cat([x]),
    "diag": lambda x: tl.diag(x),
    "roll": lambda x: tl.roll(x, 0, 0),
    "pad": lambda x: tl.nn.functional.pad(x, (0, 0)),
    "pixel_shuffle": lambda x: tl.nn.functional.pixel_shuffle(x.view(1, 1, 3, 4), 1),
    "pixel_unshuffle": lambda x: tl.nn.functional.pixel_unshuffle(x.view(1, 1, 3, 4), 1),
    "channel_shuffle": lambda x: tl.nn.functional.channel_shuffle(x.view(1, 3, 2, 2), 1),
    "unfold": lambda x: tl.nn.functional.unfold(x.view(1, 1, 3, 4), 1),
    "sum": lambda x: x[:, :1].sum(1),
}


@pytest.mark.parametrize("name", COPIES)
def test_what_is_no_view_has_memory_of_its_own_also_where_it_changes_nothing(name):
    x = tl.arange(12.0).reshape(3, 4).clone()
    assert not np.shares_memory(COPIES[name](x).numpy(), x.numpy())


@pytest.mark.parametrize(
    "view", [lambda x: x[:, :1].squeeze(1), lambda x: x.t().unsqueeze(0), lambda x: x[1:].view(-1), lambda x: x[1].t()]
)
def test_views_show_what_is_written_to_the_array(view):
    x = tl.zeros(3, 4)
    view(x).numpy()[...] = 1
    assert x.sum().item() == view(x).numel()


def test_a_write_is_noticed_through_a_broadcast_of_what_needs_no_gradient():
    def gradient(w):
        x = tl.ones(4)
        y = w * x  # the gradient of w reads x
        x.mul_(2)
        return tl.autograd.grad(y.sum(), w)[0]

    for function in (gradient, tl.compile(gradient)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            function(tl.ones(3, 4, requires_grad=True))
