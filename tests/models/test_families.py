"""Every family: published sizes, a tiny training step compiled as eager, drawings, and the properties it promises."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn, viz
from tinygrad_lite.models import FAMILIES, MODELS, build
from tinygrad_lite.models import encoder as encoders
from tinygrad_lite.models import mlp as mlps
from tinygrad_lite.models.dit import Block as DiTBlock
from tinygrad_lite.models.resnet import ResNet, ResNetConfig, from_torchvision, to_torchvision
from tinygrad_lite.models.vgg import VGG, VGGConfig
from tinygrad_lite.nn import functional as F

RNG = np.random.default_rng(0)


def draw(*shape: int) -> tl.Tensor:
    return tl.tensor(RNG.standard_normal(shape).astype(np.float32))


def ids(*shape: int, high: int = 11, low: int = 1) -> tl.Tensor:
    return tl.tensor(RNG.integers(low, high, shape))


def classes(model, x, y):
    return F.cross_entropy(model(x), y)


def texts(model, x, y):
    return model(x, y)[1]


PIXELS, TOKENS = (draw(2, 1, 8, 8), ids(2)), (ids(2, 7), ids(2, 7))
# tiny preset → loss of a batch, and the batch
STEPS = {
    "mlp-tiny": (classes, (draw(5, 2), ids(5, high=2, low=0))),
    "vgg-tiny": (classes, PIXELS),
    "resnet-tiny": (classes, (draw(2, 1, 8, 8), ids(2, high=10))),
    "unet-tiny": (classes, (draw(2, 1, 4, 4), ids(2, 4, 4, high=2, low=0))),
    "fpn-tiny": (classes, (draw(2, 1, 8, 8), ids(2, 8, 8, high=3, low=0))),
    "charrnn-tiny": (texts, TOKENS),
    "charlstm-tiny": (texts, TOKENS),
    "chargru-tiny": (texts, TOKENS),
    "encoder-tiny": (texts, TOKENS),
    "gpt-tiny": (texts, TOKENS),
    "llama-tiny": (texts, TOKENS),
    "t5-tiny": (lambda m, x, y: m(x, m.shifted(y), y)[1], (ids(2, 6), ids(2, 5))),
    "vit-tiny": (classes, PIXELS),
    "dit-tiny": (
        lambda m, x, noise, t, y: F.mse_loss(m(m.noised(x, t, noise), t, y), noise),
        (draw(2, 1, 4, 4), draw(2, 1, 4, 4), ids(2, high=10), ids(2, high=3)),
    ),
    "autoencoder-tiny": (lambda m, x: m(x)[1], (draw(2, 1, 8, 8),)),
    "vae-tiny": (lambda m, x: m(x)[1], (draw(2, 1, 8, 8),)),
}


def make(name: str) -> nn.Module:
    tl.manual_seed(5)
    model = build(name, num_classes=11) if name in ("vgg-tiny", "vit-tiny") else build(name)
    for p in model.parameters():  # zeros would hide whole branches
        if not p.detach().numpy().any():
            nn.init.normal_(p, std=0.1)
    return model


def test_every_family_has_a_tiny_preset():
    assert {name for name in MODELS if "tiny" in name} == set(STEPS)
    for family in FAMILIES:
        assert any("tiny" in name for name in family.PRESETS), family.__name__


@pytest.mark.parametrize("name", STEPS)
def test_training_steps_compiled(name):
    loss_of, batch = STEPS[name]
    runs = []
    for wrap in (lambda f: f, tl.compile):
        model = make(name)
        # of a gradient that is rounding alone, as a key's bias has it, eps makes next to no step
        optimizer = tl.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-6)

        def step(*batch: tl.Tensor, model: nn.Module = model, optimizer: tl.optim.AdamW = optimizer) -> tl.Tensor:
            loss = loss_of(model, *batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            return loss

        run = wrap(step)
        tl.manual_seed(9)
        losses = [run(*batch).item() for _ in range(3)]
        runs.append((losses, {n: v.numpy().copy() for n, v in model.state_dict().items()}))
    (eager, weights), (native, own) = runs
    np.testing.assert_allclose(native, eager, rtol=2e-5)
    assert eager[-1] < eager[0] or name == "vae-tiny"
    for key, value in weights.items():
        np.testing.assert_allclose(own[key], value, rtol=2e-3, atol=5e-4, err_msg=key)


@pytest.mark.parametrize("name", STEPS)
def test_drawings(name, tmp_path):
    loss_of, batch = STEPS[name]
    model = make(name)
    graph = tl.trace(lambda *b: loss_of(model, *b), *batch)
    path = viz.draw(graph, tmp_path / "model.dot")
    text = path.read_text()
    assert text.startswith("digraph") and "subgraph" in text
    assert tl.trace(lambda *b: loss_of(model, *b), *batch).to_text() == graph.to_text()


PUBLISHED = {
    "bert-base": 109_514_298,  # with the masked-language head, whose matrix is tied
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet20": 269_722,
    "resnet56": 853_018,
    "vgg16": 138_357_544,
    "vit-b16": 86_567_656,
    "t5-small": 60_506_624,
    "unet": 31_037_698,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes(name):
    with nn.init.skip_random():
        assert sum(p.numel() for p in build(name).parameters()) == PUBLISHED[name]


def pieces(net: nn.Module, grid: int) -> int:
    y = net(tl.arange(grid + 1).to(tl.float64).reshape(-1, 1) / grid).detach().numpy().ravel()
    slopes = np.diff(y)
    return 1 + int((np.abs(np.diff(slopes)) > 1e-9).sum())


def test_folds_double_and_units_add():
    for folds in (1, 2, 3, 5, 8):
        net = mlps.fold_network(folds).double()
        assert pieces(net, 2 ** (folds + 1)) == 2**folds
    x = tl.tensor([[0.0], [0.25], [0.5], [1.0]])
    np.testing.assert_array_equal(mlps.fold_network(1)(x).detach().numpy().ravel(), [1, 0.5, 0, 1])
    for units in (1, 3, 7):
        assert pieces(mlps.shallow_network(units).double(), 4 * (units + 1)) == units + 1
    assert sum(p.numel() for p in mlps.fold_network(10).parameters()) == 61


def test_residual_stacks_keep_the_gradient():
    tl.manual_seed(0)
    ratios = []
    for make_stack in (mlps.plain_stack, mlps.residual_stack):
        net = make_stack(30, 16, "tanh")
        net(draw(8, 16)).sum().backward()
        norms = [float(np.linalg.norm(layer.weight.grad.numpy())) for layer in net.layers]
        ratios.append(norms[0] / norms[-1])
    assert ratios[0] < 1e-3 < 0.1 < ratios[1]


def test_channels_last_and_global_pooling():
    model = VGG(VGGConfig((4, "M", 8, "M"), 5, 3, 8, head="gap", channels_last=True))
    assert model(draw(2, 8, 8, 3)).shape == (2, 5) == model(draw(2, 12, 16, 3)).shape
    with pytest.raises(ValueError, match=r"\(B, H, W, channels\) with 3 channels"):
        model(draw(2, 3, 8, 8))
    with pytest.raises(ValueError, match="8 x 8"):
        VGG(VGGConfig((4, "M"), 5, 3, 8, hidden=8))(draw(1, 3, 12, 12))


@pytest.mark.parametrize(("stem", "side"), [("canonical", 4), ("document", 4), ("cifar", 16)])
def test_stems(stem, side):
    model = ResNet(ResNetConfig((1,), (4,), 3, 3, stem=stem))
    assert model.maps(draw(1, 3, 16, 16))[0].shape == (1, 4, side, side)


def test_blocks_of_zero_are_left_out_unnoticed():
    config = ResNetConfig((2, 2), (4, 8), 3, 1, stem="cifar", zero_init_last=True)
    model = ResNet(config).eval()
    x = draw(2, 1, 8, 8)
    np.testing.assert_array_equal(model(x).detach().numpy(), model(x, skip=(1, 3)).detach().numpy())
    with pytest.raises(ValueError, match="block 2 changes the shape"):
        model(x, skip=(2,))
    for shortcut in ("pad", "projection"):
        assert ResNet(ResNetConfig((1, 1), (4, 8), 3, 1, True, "cifar", shortcut))(x).shape == (2, 3)
    assert ResNet(ResNetConfig((1, 1), (4, 8), 3, 1, stem="cifar", residual=False))(x).shape == (2, 3)


def test_torchvision_keys():
    model = build("resnet-tiny")
    state = to_torchvision(model.state_dict())
    assert {"conv1.weight", "bn1.running_mean", "layer2.0.downsample.0.weight", "fc.bias"} <= set(state)
    model.load_state_dict(from_torchvision(state))


def test_unet_needs_its_skips():
    with pytest.raises(ValueError, match="2 stages need sizes"):
        build("unet-tiny")(draw(1, 1, 5, 4))
    assert build("unet-tiny", up="transposed", channels_last=True)(draw(1, 4, 4, 1)).shape == (1, 4, 4, 2)
    assert build("unet-tiny", skips=False)(draw(1, 1, 4, 4)).shape == (1, 2, 4, 4)


def test_pyramid_levels():
    model = build("fpn-tiny")
    assert [tuple(p.shape) for p in model.predictions(draw(2, 1, 8, 8))] == [(2, 3, n, n) for n in (8, 4, 2)]
    with pytest.raises(ValueError, match="3 levels need sizes divisible by 4"):
        model(draw(1, 1, 6, 8))


def test_encoder_sees_both_sides_and_no_filler():
    config = encoders.PRESETS["encoder-tiny"]
    model = encoders.Encoder(config).eval()
    x = ids(1, 6)
    vectors = model(x)
    probe = tl.zeros(1, 6, config.width).requires_grad_()
    handle = model.drop.register_forward_hook(lambda m, a, out: out + probe)
    model(x)[0, 3].pow(2).sum().backward()
    handle.remove()
    assert np.all(np.abs(probe.grad.numpy()[0]).sum(1) > 0)
    padded = tl.cat([x, tl.zeros(1, 3, dtype=tl.int64)], 1)
    np.testing.assert_allclose(model(padded)[:, :6].detach().numpy(), vectors.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        model.pooled(padded).detach().numpy(), vectors.mean(1).detach().numpy(), rtol=1e-4, atol=1e-5
    )
    assert encoders.SequenceClassifier(config, 4)(x).shape == (1, 4)
    assert encoders.SequenceClassifier(config, 4, pool="mean")(x).shape == (1, 4)
    retriever = encoders.Retriever(config)
    np.testing.assert_allclose((retriever(x).detach().numpy() ** 2).sum(1), 1, rtol=1e-5)
    retriever.loss(ids(3, 4), ids(3, 5)).backward()
    assert encoders.CrossEncoder(config)(x, ids(1, 4)).shape == (1,)
    for norm in ("pre", "sandwich"):
        assert build("encoder-tiny", norm=norm)(x)[0].shape == (1, 6, 13)


def test_masking_tokens():
    x = RNG.integers(1, 50, (200, 50))
    x[:, -5:] = 0
    hidden, targets = encoders.mask_tokens(x, mask=99, vocab_size=50, seed=3)
    chosen = targets != -100
    assert chosen[:, :-5].mean() == pytest.approx(0.15, abs=0.01) and not chosen[:, -5:].any()
    assert (hidden[chosen] == 99).mean() == pytest.approx(0.8, abs=0.03)
    np.testing.assert_array_equal(hidden[~chosen], x[~chosen])
    np.testing.assert_array_equal(targets[chosen], x[chosen])


def test_adaptive_blocks_start_as_the_identity():
    block, x = DiTBlock(16, 2), draw(2, 5, 16)
    np.testing.assert_array_equal(block(x, draw(2, 16)).detach().numpy(), x.numpy())


def test_variational_code_is_drawn_in_training_only():
    model, x = build("vae-tiny"), draw(2, 1, 8, 8)
    assert not np.array_equal(*(model(x)[0].detach().numpy() for _ in range(2)))
    model.eval()
    np.testing.assert_array_equal(*(model(x)[0].detach().numpy() for _ in range(2)))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mlp-tiny", {"sizes": (3,)}, "two or more"),
        ("mlp-tiny", {"activation": "swish"}, "swish"),
        ("mlp-tiny", {"init": "best"}, "best"),
        ("vgg-tiny", {"image": 3}, "leave nothing of image size 3"),
        ("resnet-tiny", {"blocks": (1,)}, "1 stages and 2 widths"),
        ("resnet-tiny", {"stem": "none"}, "stem"),
        ("unet-tiny", {"channels": (4,)}, "two stages"),
        ("charlstm-tiny", {"cell": "mgu"}, "mgu"),
        ("charlstm-tiny", {"tied": True}, "embed equal to hidden 12, not 8"),
        ("encoder-tiny", {"heads": 3}, "heads 3 does not divide width 16"),
        ("llama-tiny", {"n_kv_head": 3}, "n_kv_head 3 does not divide n_head 4"),
        ("llama-tiny", {"n_head": 16}, "even head width, not 1"),
        ("t5-tiny", {"heads": 5}, "heads 5 does not divide width 16"),
        ("vit-tiny", {"patch": 3}, "patch 3 does not divide image 8"),
        ("dit-tiny", {"heads": 3}, "heads 3 does not divide width 16"),
        ("autoencoder-tiny", {"image": 6}, "do not divide image 6"),
    ],
)
def test_bad_configurations(name, options, message):
    with pytest.raises(ValueError, match=message):
        build(name, **options)


def test_too_long_sequences():
    for name, limit in (("llama-tiny", 16), ("encoder-tiny", 12), ("gpt-tiny", 16)):
        with pytest.raises(ValueError, match=f"{limit + 1} tokens exceeds .* {limit}"):
            build(name)(ids(1, limit + 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: build("gpt-tiny")(ids(1, 1), cache=build("gpt-tiny").make_cache(1)), "cache needs the positions"),
        (lambda: build("llama-tiny")(ids(1, 1), cache=build("llama-tiny").make_cache(1)), "cache needs the positions"),
        (lambda: build("gpt-tiny")(ids(1, 4)[0]), r"GPT: token ids have shape \(batch, length\), not \(4,\)"),
        (
            lambda: build("encoder-tiny").encoder(ids(2, 4), types=ids(2, 5)),
            r"Encoder: types have shape \(2, 5\), the ids \(2, 4\)",
        ),
    ],
)
def test_calls_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_tools_come_with_the_package():
    """Without an import of their own, as the documentation names them."""
    script = "import tinygrad_lite as tl; print(tl.models.pretrained.from_pretrained, tl.models.generate.generate)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "from_pretrained" in done.stdout
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tl.models.nothing
