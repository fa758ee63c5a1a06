"""ONNX files of every preset run in onnxruntime and read back, with equal results; what cannot be exported says so."""

import numpy as np
import pytest

import tinygrad_lite as tl
import tinygrad_lite.nn.functional as F
from tinygrad_lite import models, nn
from tinygrad_lite.errors import UserError
from tinygrad_lite.models.examples import example

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

from tinygrad_lite.onnx import export, import_  # noqa: E402

pytestmark = pytest.mark.onnx

RNG = np.random.default_rng(0)
# of the two that no ordinary memory holds, one layer, and a smaller table: all layers are alike
DEPTHS = {"llama2-7b": {"n_layer": 1}, "llama3-8b": {"n_layer": 1, "vocab_size": 32_000}}
QUICK = {name for name in models.MODELS if "tiny" in name} | {"gpt-nano", "mlp-mnist"}
PRESETS = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in models.MODELS]


def drawn(x: tl.Tensor) -> tl.Tensor:
    """Noise of the same shape; ids stay within the smallest vocabulary, and differ."""
    if x.is_floating_point():
        return tl.from_numpy(RNG.standard_normal(tuple(x.shape)).astype(np.float32))
    return tl.from_numpy(RNG.integers(1, 3, tuple(x.shape)))


def fill(p: tl.Tensor, deviation: float) -> None:
    """Normal noise by NumPy: a large preset has a billion numbers."""
    p.data = tl.from_numpy(RNG.standard_normal(tuple(p.shape), np.float32) * np.float32(deviation))


def listed(results) -> list[np.ndarray]:
    results = results if isinstance(results, tuple) else (results,)
    return [r.detach().numpy() for r in results if isinstance(r, tl.Tensor)]


def ran(path, inputs) -> list[np.ndarray]:
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {f"input_{i}": x.numpy() for i, x in enumerate(inputs)})


def assert_agree(got, want) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(b).max(initial=0))))


def check(function, inputs, path) -> None:
    """onnxruntime and the imported module agree with eager."""
    want = listed(function(*inputs))
    export(function, inputs, path)
    assert_agree(ran(path, inputs), want)
    assert_agree(listed(import_(path)(*inputs)), want)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_agrees(name, tmp_path):
    with nn.init.skip_random():
        model = models.build(name, **DEPTHS.get(name, {})).eval()
    for p in model.parameters():
        if p.dim() > 1:
            fill(p, float(np.prod(p.shape[1:])) ** -0.5)
        elif not p.detach().numpy().any():  # zeros would hide whole branches
            fill(p, 0.1)
    batch = 2 if name in QUICK else 1
    with tl.no_grad():
        check(model, tuple(drawn(x) for x in example(model, batch).inputs), tmp_path / "model.onnx")


X = drawn(tl.zeros(2, 3, 4))
FUNCTIONS = {
    "arithmetic": lambda x: (
        x + 1,
        x - x.exp(),
        x * 2,
        x / 3,
        -x,
        x.abs() ** 0.5,
        tl.maximum(x, -x),
        tl.minimum(x, -x),
    ),
    "elementwise": lambda x: (
        x.sin(),
        x.cos(),
        x.tanh(),
        x.erf(),
        x.sigmoid(),
        x.sign(),
        x.floor(),
        x.ceil(),
        x.round(),
    ),
    "roots": lambda x: (x.abs().sqrt(), x.abs().rsqrt(), x.abs().log1p(), x.expm1(), x.abs().log()),
    "comparisons": lambda x: (
        x > 0,
        x >= 0,
        x < 0,
        x <= 0,
        x == x,
        x != x,
        ~(x > 0),
        (x > 0) & (x < 1),
        (x > 0) | (x < 1),
    ),
    "reductions": lambda x: (x.sum(), x.sum(1), x.mean((0, 2)), x.max(1)[0], x.min(2)[0], x.prod(1), (x > 0).any(1)),
    "logic": lambda x: ((x > 0).all(2), x.argmax(1), x.argmin(2), tl.where(x > 0, x, 0.0)),
    "movement": lambda x: (
        x.reshape(6, 4),
        x.permute(2, 0, 1),
        x[:, ::2],
        x.flip(1),
        x.flip((0, 2)),
        F.pad(x, (1, 2, 0, 1)),
    ),
    "joining": lambda x: (tl.cat([x, x], 1), tl.stack([x, x]), x.unsqueeze(1).expand(2, 5, 3, 4), x[:, 1], x[..., -1]),
    "indexing": lambda x: (x[:, tl.tensor([2, -1, 0])], tl.gather(x, 2, tl.zeros((2, 3, 1), dtype=tl.int64) + 3)),
    "casts": lambda x: (x.long(), x.double(), (x > 0).float(), x.to(tl.int32) + 1),
    "products": lambda x: (x @ x.transpose(1, 2), x.softmax(-1), F.layer_norm(x, (4,)), x.log_softmax(1)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "constants": lambda x: (x + tl.arange(4), tl.ones(2), x * tl.tensor([1.0, 2.0, 3.0, 4.0])),
    "pools": lambda x: (F.max_pool1d(x, 2, 1), F.avg_pool1d(x, 3, 2, 1)),
    "transposed": lambda x: F.conv_transpose1d(x, tl.ones(3, 2, 3), stride=2, padding=1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operators(name, tmp_path):
    check(FUNCTIONS[name], (X,), tmp_path / "f.onnx")


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_loops_in_both_directions(kind, tmp_path):
    tl.manual_seed(1)
    model = kind(3, 4, num_layers=2, bidirectional=True).eval()

    def outputs(x):
        y, state = model(x)
        return (y, *(state if isinstance(state, tuple) else (state,)))

    check(outputs, (drawn(tl.zeros(5, 2, 3)),), tmp_path / "r.onnx")


def test_a_module_is_exported_in_evaluation_mode(tmp_path):
    model = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5)).train()
    path = export(model, tl.ones(1, 2), tmp_path / "m.onnx")
    assert model.training
    made = onnx.load(str(path))
    assert {"0.weight", "0.bias"} <= {i.name for i in made.graph.initializer}
    assert [i.name for i in made.graph.input] == ["input_0"]


def test_an_imported_model_trains(tmp_path):
    path = export(nn.Sequential(nn.Linear(2, 3), nn.Tanh()), tl.ones(4, 2), tmp_path / "m.onnx")
    model = import_(path)
    assert (
        sorted(n for n, _ in model.named_parameters()) == ["_0_bias", "_0_weight"] or len(list(model.parameters())) == 2
    )
    model(tl.ones(4, 2)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_what_cannot_be_exported_says_so(tmp_path):
    with pytest.raises(UserError, match=r"uniform has no counterpart in ONNX here, asked for at .*test_onnx\.py:\d+"):
        export(lambda x: x + tl.rand(3), tl.ones(3), tmp_path / "x.onnx")
    total = tl.zeros(3)
    with pytest.raises(UserError, match="ONNX models keep no state"):
        export(lambda x: total.add_(x), tl.ones(3), tmp_path / "x.onnx")
    with pytest.raises(UserError, match="cannot write"):
        export(lambda x: x + 1, tl.ones(3), tmp_path / "none" / "x.onnx")


def test_large_weights_go_to_a_file_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr("tinygrad_lite.onnx.exporting.LARGEST", 100)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).eval()
    x = drawn(tl.zeros(5, 3))
    check(model, (x,), tmp_path / "large.onnx")
    assert (tmp_path / "large.onnx.data").stat().st_size == 4 * sum(p.numel() for p in model.parameters())
    assert (tmp_path / "large.onnx").stat().st_size < 1500
    (tmp_path / "large.onnx.data").unlink()
    with pytest.raises(UserError, match=r"is no ONNX model|cannot read"):
        import_(tmp_path / "large.onnx")


def test_what_is_no_onnx_file(tmp_path):
    with pytest.raises(UserError, match="cannot read"):
        import_(tmp_path / "none.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    with pytest.raises(UserError, match="is no ONNX model"):
        import_(tmp_path / "bad.onnx")


def test_unknown_operators_are_named(tmp_path):
    helper = onnx.helper
    value = helper.make_tensor_value_info
    node = helper.make_node("Hardmax", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [value("x", 1, [2, 2])], [value("y", 1, [2, 2])])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(tmp_path / "h.onnx")
    )
    with pytest.raises(UserError, match="operators that cannot be imported: Hardmax; known are Add"):
        import_(tmp_path / "h.onnx")


def test_a_call_with_other_inputs(tmp_path):
    model = import_(export(lambda x: x + 1, tl.ones(3), tmp_path / "x.onnx"))
    with pytest.raises(TypeError, match="the model takes 1 inputs, not 2"):
        model(tl.ones(3), tl.ones(3))
