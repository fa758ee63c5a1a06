"""Tensors from data, values and random numbers."""

from __future__ import annotations

import io

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite.utils.checkpoint import CheckpointError


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (3, "int64", ()),
        (3.5, "float32", ()),
        (True, "bool", ()),
        ([1, 2], "int64", (2,)),
        ([1, 2.5], "float32", (2,)),
        ([[True], [False]], "bool", (2, 1)),
        ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)),
        (np.float64(2), "float64", ()),
        (np.zeros((2, 2), np.int8), "int8", (2, 2)),
        (np.zeros((), np.float32), "float32", ()),
        (range(3), "int64", (3,)),
    ],
)
def test_dtype_of_data(data, dtype, shape):
    x = tl.tensor(data)
    assert (x.dtype.name, tuple(x.shape)) == (dtype, shape)


def test_tensors_of_tensors():
    assert tl.tensor([tl.tensor(1.5), tl.tensor(2.5)]).tolist() == [1.5, 2.5]
    x = tl.ones(2, requires_grad=True)
    assert not tl.tensor(x).requires_grad and tl.tensor(x, requires_grad=True).is_leaf
    assert tl.as_tensor(x) is x and tl.as_tensor([1, 2]).dtype is tl.int64


def test_dtype_arguments():
    assert tl.zeros(2, dtype=tl.long).dtype is tl.int64 and tl.float is tl.float32 and tl.double is tl.float64
    assert tl.ones(2, dtype=float).dtype is tl.float64 and tl.ones(2, dtype=bool).dtype is tl.bool
    for bad in ("float32", np.float32, 3):
        with pytest.raises(TypeError, match="dtype"):
            tl.zeros(2, dtype=bad)


def test_sizes():
    assert tl.zeros(2, 3).shape == tl.zeros((2, 3)).shape == tl.zeros([2, 3]).shape == tl.zeros(tl.Size((2, 3))).shape
    assert tl.zeros(()).shape == () and tl.Tensor(2, 3).shape == (2, 3) and tl.Tensor([1, 2]).dtype is tl.float32
    for bad in (("a",), (2.5,), (True,)):
        with pytest.raises(TypeError):
            tl.zeros(*bad)
    with pytest.raises(RuntimeError):
        tl.zeros(-1)


def test_unknown_arguments_are_type_errors():
    for call in (
        lambda: tl.zeros(2, size=3),
        lambda: tl.tensor([1], type=tl.float32),
        lambda: tl.rand(2, generator=3),
        lambda: tl.exp(3),
        lambda: tl.cat(tl.zeros(2)),
        lambda: tl.add(tl.zeros(2), "a"),
        lambda: tl.sum(tl.zeros(2), axes=0),
        lambda: tl.zeros(2).reshape("a"),
        lambda: tl.zeros(2).softmax("a"),
        lambda: tl.zeros(2).copy_(1),
        lambda: tl.manual_seed("a"),
        lambda: tl.tensor(object()),
        lambda: tl.tensor({}),
    ):
        with pytest.raises(TypeError):
            call()


def test_seeds_repeat_and_streams_move_on():
    tl.manual_seed(3)
    first = [tl.rand(4).tolist(), tl.randn(4).tolist(), tl.randint(0, 100, (4,)).tolist(), tl.randperm(6).tolist()]
    state = tl.get_rng_state()
    after = tl.rand(2).tolist()
    tl.manual_seed(3)
    again = [tl.rand(4).tolist(), tl.randn(4).tolist(), tl.randint(0, 100, (4,)).tolist(), tl.randperm(6).tolist()]
    assert first == again and first[0] != tl.rand(4).tolist() and tl.initial_seed() == 3
    tl.set_rng_state(state)
    assert tl.rand(2).tolist() == after
    tl.manual_seed(-1)
    tl.rand(1)


def test_generators_are_independent():
    a, b = tl.Generator().manual_seed(1), tl.Generator().manual_seed(1)
    x = tl.rand(5, generator=a)
    tl.rand(3)
    assert x.tolist() == tl.rand(5, generator=b).tolist()
    assert tl.randn(3, generator=a).tolist() == tl.randn(3, generator=b).tolist()


def test_distributions():
    tl.manual_seed(0)
    n = 40_000
    u, z = tl.rand(n), tl.randn(n, dtype=tl.float64)
    assert u.min().item() >= 0 and u.max().item() < 1 and abs(u.mean().item() - 0.5) < 0.01
    assert abs(z.mean().item()) < 0.02 and abs(z.std().item() - 1) < 0.02
    dice = tl.randint(1, 7, (n,))
    assert dice.dtype is tl.int64 and dice.unique().tolist() == [1, 2, 3, 4, 5, 6]
    assert abs(tl.bernoulli(tl.full((n,), 0.3)).mean().item() - 0.3) < 0.01
    assert abs(tl.normal(5.0, 2.0, (n,)).mean().item() - 5) < 0.05
    assert sorted(tl.randperm(50).tolist()) == list(range(50))
    x = tl.empty(n)
    assert abs(x.uniform_(-1, 3).mean().item() - 1) < 0.05 and abs(x.normal_(2, 3).std().item() - 3) < 0.05
    assert abs(x.exponential_(2.0).mean().item() - 0.5) < 0.02 and abs(x.bernoulli_(0.2).mean().item() - 0.2) < 0.01
    assert tl.rand_like(u).shape == u.shape and tl.randn_like(z).dtype is tl.float64


def test_multinomial():
    tl.manual_seed(0)
    p = tl.tensor([[0.1, 0.0, 0.9], [1.0, 0.0, 0.0]])
    draws = tl.multinomial(p, 5000, replacement=True)
    assert draws.shape == (2, 5000) and draws.dtype is tl.int64
    assert (draws[1] == 0).all() and not (draws == 1).any() and abs((draws[0] == 2).float().mean().item() - 0.9) < 0.02
    without = tl.multinomial(tl.tensor([0.5, 0.2, 0.3]), 3)
    assert sorted(without.tolist()) == [0, 1, 2]
    for bad in (tl.tensor([-1.0, 2.0]), tl.tensor([0.0, 0.0]), tl.tensor([float("nan"), 1.0]), tl.tensor([1, 2])):
        with pytest.raises(RuntimeError):
            tl.multinomial(bad, 1)
    with pytest.raises(RuntimeError, match="without replacement"):
        tl.multinomial(tl.tensor([0.5, 0.5]), 3)


def test_dropout():
    tl.manual_seed(0)
    x = tl.ones(10_000, requires_grad=True)
    y = tl.dropout(x, 0.25)
    assert abs((y == 0).float().mean().item() - 0.25) < 0.02 and abs(y.mean().item() - 1) < 0.03
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    assert tl.dropout(x, 1.0).abs().sum().item() == 0 and tl.dropout(x, 0.5, training=False) is x


def test_like_and_ranges():
    x = tl.ones(2, 3, dtype=tl.float64)
    assert tl.zeros_like(x).dtype is tl.float64 and tl.ones_like(x, dtype=tl.int8).dtype is tl.int8
    assert tl.full((2,), True).dtype is tl.bool and tl.full((2,), 2.0).tolist() == [2, 2]
    assert tl.full((2,), tl.tensor(3.0)).tolist() == [3, 3]
    assert tl.arange(3).tolist() == [0, 1, 2] and tl.arange(1, 2, 0.5).tolist() == [1, 1.5]
    assert tl.linspace(0, 1, 5)[-1].item() == 1 and tl.linspace(3, 9, 1).tolist() == [3]
    assert tl.eye(2).tolist() == [[1, 0], [0, 1]]


def test_save_and_load(tmp_path):
    tree = {"w": tl.randn(2, 3), "step": 4, "parts": [tl.arange(3), {"name": "x"}]}
    tl.save(tree, tmp_path / "a.safetensors")
    back = tl.load(tmp_path / "a.safetensors")
    assert back["step"] == 4 and back["w"].tolist() == tree["w"].tolist() and back["parts"][0].dtype is tl.int64
    with pytest.raises(TypeError, match="dict"):
        tl.save([1], tmp_path / "b")


def test_file_objects(tmp_path):
    tree = {"w": tl.randn(2, 3), "half": tl.ones(2, dtype=tl.bfloat16), "step": 4}
    memory = io.BytesIO()
    tl.save(tree, memory)
    tl.save(tree, tmp_path / "a.safetensors")
    assert memory.getvalue() == (tmp_path / "a.safetensors").read_bytes()
    memory.seek(0)
    with open(tmp_path / "a.safetensors", "rb") as file:
        for back in (tl.load(memory), tl.load(file)):
            assert back["step"] == 4 and back["w"].tolist() == tree["w"].tolist() and back["half"].dtype is tl.bfloat16
    with pytest.raises(CheckpointError, match=r"^the BytesIO is not a whole safetensors file"):
        tl.load(io.BytesIO(b"PK something else"))


def test_files_of_other_libraries_load(tmp_path):
    """Keys as they are, every dtype, integers and scalars too: a state dict that PyTorch saved."""
    from safetensors.numpy import save_file

    norm = tl.nn.BatchNorm1d(3)
    norm(tl.randn(4, 3))
    state = {name: value.detach().numpy() for name, value in norm.state_dict().items()}
    state["running_var"] = tl.tensor(state["running_var"]).to(tl.bfloat16).numpy()
    save_file(state, tmp_path / "a.safetensors", metadata={"format": "pt"})
    found = tl.load(tmp_path / "a.safetensors")
    assert found.keys() == state.keys() and found["running_var"].dtype is tl.bfloat16
    again = tl.nn.BatchNorm1d(3)
    again.load_state_dict(found)
    assert again.num_batches_tracked.item() == 1 and again.running_mean.tolist() == norm.running_mean.tolist()
    assert again.running_var.dtype is tl.float32


@pytest.mark.torch
def test_weights_go_between_the_libraries_as_files(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    theirs, ours = (lib.nn.Sequential(lib.nn.Conv2d(1, 2, 3), lib.nn.BatchNorm2d(2)) for lib in (torch, tl))
    save_file(theirs.state_dict(), tmp_path / "a.safetensors")
    ours.load_state_dict(tl.load(tmp_path / "a.safetensors"))
    tl.save(ours.state_dict(), tmp_path / "b.safetensors")
    back = load_file(tmp_path / "b.safetensors")
    assert all(torch.equal(back[name], value) for name, value in theirs.state_dict().items())


def test_public_names_exist():
    for name in tl.__all__:
        if name not in ("models", "compile", "trace", "get_num_threads", "set_num_threads", "viz", "newaxis"):
            assert getattr(tl, name) is not None
    assert "Any" not in tl.__all__ and "np" not in tl.__all__
    with pytest.raises(AttributeError):
        tl.no_such_name  # noqa: B018
