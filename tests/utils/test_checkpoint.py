"""Checkpoints keep every bit of a tree, and refuse every damaged file in one line."""

import json
import os

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tinygrad_lite.utils import checkpoint
from tinygrad_lite.utils.checkpoint import CheckpointError


@pytest.fixture
def tree():
    rng = np.random.default_rng(0)
    return {
        "model": {"wte.weight": rng.standard_normal((4, 3)).astype(np.float32), "scalar": np.array(2, np.float32)},
        "optimizer": {
            "state": {0: {"step": 7.0, "exp_avg": rng.standard_normal(5)}, 3: {}},
            "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.99), "params": [0, 3], "nesterov": False, "foreach": None}],
        },
        "characters": "aé\n漢😀",
        "numpy_scalar": np.int64(3),
        "transposed": np.arange(6).reshape(2, 3).T,
        "$odd": True,
        "mask": np.array([True, False]),
    }


def assert_same(left, right):
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            assert_same(a, b)
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        np.testing.assert_array_equal(left, right)
    else:
        assert left == right


def test_round_trip(tmp_path, tree):
    path = tmp_path / "c.safetensors"
    checkpoint.save(path, tree)
    tree["numpy_scalar"] = 3
    assert_same(checkpoint.load(path), tree)
    assert os.listdir(tmp_path) == ["c.safetensors"]


def test_equal_trees_are_equal_files(tmp_path, tree):
    for name in "ab":
        checkpoint.save(tmp_path / name, tree)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_other_readers_find_the_arrays_by_path(tmp_path, tree):
    checkpoint.save(tmp_path / "c.safetensors", tree)
    arrays = load_file(tmp_path / "c.safetensors")
    np.testing.assert_array_equal(arrays["model.wte.weight"], tree["model"]["wte.weight"])
    assert "optimizer.state.0.exp_avg" in arrays


def test_what_a_checkpoint_cannot_hold_is_named_and_nothing_is_written(tmp_path):
    with pytest.raises(TypeError, match=r"object \(at model\.x\)"):
        checkpoint.save(tmp_path / "c.safetensors", {"model": {"x": object()}})
    assert not os.listdir(tmp_path)


def test_two_arrays_of_one_path_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"path a\.b"):
        checkpoint.save(tmp_path / "c.safetensors", {"a.b": np.zeros(1), "a": {"b": np.zeros(1)}})


def test_a_failed_write_keeps_the_old_file(tmp_path, tree, monkeypatch):
    path = tmp_path / "c.safetensors"
    checkpoint.save(path, {"step": 1})
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(CheckpointError, match=r"cannot write.*No space left"):
        checkpoint.save(path, tree)
    assert checkpoint.load(path) == {"step": 1}
    assert os.listdir(tmp_path) == ["c.safetensors"]


def test_a_folder_that_is_not_there(tmp_path, tree):
    with pytest.raises(CheckpointError, match="cannot write"):
        checkpoint.save(tmp_path / "no" / "c.safetensors", tree)
    with pytest.raises(CheckpointError, match="cannot read"):
        checkpoint.load(tmp_path / "no" / "c.safetensors")
    with pytest.raises(CheckpointError):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("keep", [0, 3, 8, 100, -1])
def test_a_truncated_file_is_refused_in_one_line(tmp_path, tree, keep):
    path = tmp_path / "c.safetensors"
    checkpoint.save(path, tree)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="not a whole safetensors file") as info:
        checkpoint.load(path)
    assert "\n" not in str(info.value)


def test_someone_elses_safetensors_file_is_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    save_file({"w": np.zeros(2)}, path)
    with pytest.raises(CheckpointError, match="not a checkpoint of tinygrad_lite"):
        checkpoint.load(path)
    save_file({"w": np.zeros(2)}, path, {checkpoint.KEY: '{"version": 99}'})
    with pytest.raises(CheckpointError, match="version 99"):
        checkpoint.load(path)


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 1, "tree": {"w": {"$tensor": "lost"}}}',
        '{"version": 1, "tree": {"w": {"$items": 3}}}',
        "{",
        "3",
        "{}",
    ],
)
def test_a_damaged_tree_is_refused(tmp_path, text):
    path = tmp_path / "c.safetensors"
    save_file({"w": np.zeros(2)}, path, {checkpoint.KEY: text})
    with pytest.raises(CheckpointError, match="is damaged"):
        checkpoint.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("a"), "a is missing"),
        (lambda s: s.update(c=np.zeros(1)), "c is unknown"),
        (lambda s: s.update(a=np.zeros((2, 2))), r"a is float64\[2, 2\], expected float64\[3\]"),
        (lambda s: s.update(a=np.zeros(3, np.float32)), "a is float32"),
    ],
)
def test_another_architecture_is_named_by_its_first_difference(change, message):
    expected = {"a": np.zeros(3), "b": np.zeros(2)}
    found = dict(expected)
    checkpoint.check_arrays(expected, found, "c.safetensors")
    change(found)
    with pytest.raises(CheckpointError, match=f"c.safetensors holds another architecture: {message}"):
        checkpoint.check_arrays(expected, found, "c.safetensors")


def test_metadata_is_plain_json(tmp_path, tree):
    from safetensors import safe_open

    del tree["$odd"]
    checkpoint.save(tmp_path / "c.safetensors", tree)
    with safe_open(tmp_path / "c.safetensors", framework="numpy") as file:
        assert json.loads(file.metadata()[checkpoint.KEY])["tree"]["characters"] == tree["characters"]
