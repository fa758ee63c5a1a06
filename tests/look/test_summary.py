"""tl.summary and viz.architecture: shapes, parameters, work, receptive fields, what is drawn once, residual arrows."""

import json

import pytest

import tinygrad_lite as tl
from tinygrad_lite import models, nn, viz
from tinygrad_lite.errors import UserError
from tinygrad_lite.models import arithmetic
from tinygrad_lite.models.examples import example


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.relu = nn.ReLU()
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return self.relu(x + self.second(self.relu(self.first(x))))


def convolutional() -> nn.Module:
    blocks = nn.Sequential(Residual(8), Residual(8), Residual(8))
    stem = [nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*stem, blocks, nn.Flatten(), nn.Linear(8 * 8 * 8, 10))


# of the two that no ordinary memory holds, one layer, and a smaller table: all layers are alike
DEPTHS = {"llama2-7b": {"n_layer": 1}, "llama3-8b": {"n_layer": 1, "vocab_size": 32_000}}
LARGE = 30_000_000  # parameters


def sized(name):
    family = next(f for f in models.FAMILIES if name in f.PRESETS)
    large = arithmetic.parameters(family.PRESETS[name]) > LARGE
    return pytest.param(name, marks=pytest.mark.slow if large else ())


@pytest.mark.parametrize("name", [sized(name) for name in models.MODELS])
def test_a_summary_agrees_with_the_formulae(name):
    with nn.init.skip_random():
        model = models.build(name, **DEPTHS.get(name, {}))
    inputs = example(model, 2).inputs
    total = tl.summary(model, *inputs).total
    assert total.parameters == total.trainable == arithmetic.parameters(model.config)
    assert total.product_flops == arithmetic.product_flops(model.config, 2, inputs[0].shape[-1])


def test_rows_of_a_summary_by_part():
    model = models.build("gpt-small")
    config, tokens = model.config, 128
    found = tl.summary(model, tl.zeros((1, tokens), dtype=tl.int64))
    parts = arithmetic.ledger(config, tokens)
    blocks = [(found[f"blocks.{i}.attn"], found[f"blocks.{i}.mlp"]) for i in range(config.n_layer)]
    assert sum(a.product_flops for a, _ in blocks) == parts["attention"].flops
    assert sum(m.parameters for _, m in blocks) == parts["feedforward"].parameters
    assert found["head"].product_flops == parts["head"].flops
    assert found["blocks.0.mlp.fc"].outputs == (f"f32[1,{tokens},{4 * config.n_embd}]",)
    assert found["blocks"].calls == 0 and found["blocks.0"].calls == 1
    assert found["blocks"].flops == sum(found[f"blocks.{i}"].flops for i in range(config.n_layer))


def test_a_module_used_twice_counts_both():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Linear(3, 3)

        def forward(self, x):
            return self.one(self.one(x))

    found = tl.summary(Twice(), tl.zeros(5, 3))
    assert found["one"].product_flops == found.total.product_flops == 2 * 2 * 5 * 3 * 3 and found["one"].calls == 2


def test_receptive_fields_are_araujo_s():
    found = tl.summary(convolutional(), tl.zeros(1, 3, 32, 32))
    fields = {path: found[path].field for path in ("0", "1", "2", "3.0", "3.1.first", "3.2")}
    assert [(f.size[0], f.jump[0]) for f in fields.values()] == [(3, 2), (3, 2), (5, 4), (21, 4), (29, 4), (53, 4)]
    assert found["3.0.relu"].calls == 2


def test_frozen_parameters_are_marked():
    model = convolutional()
    model[0].requires_grad_(False)
    found = tl.summary(model, tl.zeros(1, 3, 32, 32))
    assert found["0"].trainable == 0 and found["0"].parameters == 224
    text = str(found)
    assert "224 frozen" in text and "part frozen" in text and "field / jump" in text and "0 numbers in buffers" in text
    assert len(found.to_text(depth=1).splitlines()) < len(text.splitlines())
    assert json.loads(json.dumps(found.to_dict()))["rows"][1]["field"] == {"size": [3, 3], "jump": [2.0, 2.0]}
    with pytest.raises(KeyError, match="no module 'none'"):
        found["none"]


def test_a_summary_leaves_captures_and_modes_alone():
    model = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5)).train()
    compiled = tl.compile(model)
    compiled(tl.zeros(3, 2))
    tl.summary(model, tl.zeros(5, 2))
    compiled(tl.zeros(3, 2))
    assert "1 capture(s)" in str(compiled.explain())
    assert model.training and not model._forward_hooks
    with pytest.raises(TypeError, match="summary takes a Module, not function"):
        tl.summary(lambda x: x, tl.zeros(1))


def test_hooks_go_where_the_model_raises():
    model = nn.Sequential(nn.Linear(2, 4))
    with pytest.raises(RuntimeError):
        tl.summary(model, tl.zeros(3, 7))
    assert not model._forward_hooks and not model[0]._forward_pre_hooks


def test_an_architecture_folds_blocks_and_marks_residuals(tmp_path):
    drawn = viz.architecture(convolutional(), tl.zeros(1, 3, 32, 32)).diagram()
    labels = [b.label for b in drawn.boxes.values()]
    assert labels.count("+") == 1
    assert any(label.startswith("first: Conv2d\n8 → 8, 3×3\n584 parameters\nsees 13, jump 4") for label in labels)
    assert any("relu: ReLU (use 2)" in label for label in labels)
    assert drawn.folded == {("3", "0"): (3, "2")}
    kinds = [e.kind for e in drawn.edges.values()]
    assert kinds.count("residual") == 1 and kinds.count("carried") == 2


def test_an_architecture_in_every_form(tmp_path):
    shown = viz.architecture(models.build("gpt-nano"), tl.zeros((1, 64), dtype=tl.int64))
    for extension in (".svg", ".png", ".dot", ".txt", ".json"):
        assert shown.save(tmp_path / f"x{extension}").stat().st_size > 500
    assert "thick edge: residual" in shown.to_dot()
    assert len(shown.diagram(depth=1).boxes) < len(shown.diagram().boxes)
    assert len(shown.diagram(fold=False).boxes) > len(shown.diagram().boxes)
    assert shown.to_networkx().number_of_nodes() == len(shown.diagram().boxes)
    with pytest.raises(UserError, match="architecture takes a Module, not int"):
        viz.architecture(3)


def test_names_of_a_model_are_text_in_a_drawing():
    model = nn.Sequential()
    model.add_module('<script>alert(1)</script>"', nn.Linear(2, 2))
    svg = viz.architecture(model, tl.zeros(1, 2)).to_svg()
    assert "<script" not in svg and "&lt;script&gt;" in svg


def test_a_gpt_of_48_layers_draws_quickly_and_small():
    import time

    model = models.build("gpt-nano", n_layer=48, n_embd=16)
    start = time.perf_counter()
    svg = tl.trace(model, tl.zeros((1, 64), dtype=tl.int64)).to_svg()
    seconds = time.perf_counter() - start
    assert "× 48" in svg and len(svg) < 200_000
    assert seconds < 10  # 5 s on a machine of its own
