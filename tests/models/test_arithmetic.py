"""Formulae against built models and their recorded graphs, and against published sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models import arithmetic as A
from tinygrad_lite.models import build, encoder, gpt, llama, mlp, resnet, t5, vgg, vit
from tinygrad_lite.models.examples import example


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mlp-tiny", {}),
        ("mlp-tiny", {"bias": False}),
        ("gpt-tiny", {}),
        ("gpt-tiny", {"tied": False, "bias": False}),
        ("llama-tiny", {}),
        ("llama-tiny", {"tied": True, "qk_norm": True, "n_kv_head": 1}),
        ("encoder-tiny", {}),
        ("encoder-tiny", {"norm": "sandwich"}),
        ("vit-tiny", {}),
        ("vit-tiny", {"pool": "mean"}),
        ("vgg-tiny", {"batch_norm": True}),
        ("vgg-tiny", {"head": "gap"}),
        ("resnet-tiny", {"bottleneck": True}),
        ("resnet-tiny", {"shortcut": "pad", "stem": "document"}),
        ("resnet-tiny", {"residual": False, "stem": "canonical"}),
        ("unet-tiny", {"skips": False}),
        ("unet-tiny", {"up": "transposed", "channels": (4, 8, 16)}),
        ("charlstm-tiny", {"one_bias": True, "layers": 2}),
        ("chargru-tiny", {"tied": True, "embed": 12}),
        ("t5-tiny", {"gated": True, "tied": False, "head_dim": 5}),
    ],
)
def test_parameters_of_built_models(name, options):
    model = build(name, **options)
    assert A.parameters(model.config) == count(model)
    inputs = example(model, 3).inputs
    graph = tl.trace(model, *inputs)
    assert A.product_flops(model.config, 3, inputs[0].shape[-1]) == A.graph_flops(graph)


def test_published_sizes():
    assert A.parameters(gpt.PRESETS["gpt2"]) == 124_439_808
    assert A.parameters(llama.PRESETS["llama2-7b"]) == 6_738_415_616
    assert A.parameters(llama.PRESETS["llama3-8b"]) == 8_030_261_248
    assert A.encoder_parameters(encoder.PRESETS["bert-base"], head=False)["total"] == 109_482_240 - 768 * 768 - 768
    assert A.parameters(vit.PRESETS["vit-b16"]) == 86_567_656
    assert A.parameters(t5.PRESETS["t5-small"]) == 60_506_624 and A.parameters(t5.PRESETS["t5-base"]) == 222_903_552
    vggs = {"vgg11": 132_863_336, "vgg13": 133_047_848, "vgg16": 138_357_544, "vgg19": 143_667_240}
    assert {name: A.parameters(vgg.PRESETS[name]) for name in vggs} == vggs
    resnets = {"resnet18": 11_689_512, "resnet34": 21_797_672, "resnet50": 25_557_032, "resnet101": 44_549_160}
    assert {name: A.parameters(resnet.PRESETS[name]) for name in resnets} == resnets
    with pytest.raises(TypeError, match="no ledger for a int; there are some for MLPConfig, VGGConfig"):
        A.parameters(3)


def test_an_example_s_size():
    config = gpt.PRESETS["gpt-tiny"]
    assert A.product_flops(config) == A.product_flops(config, 1, config.block_size) == A.product_flops(config, 2) // 2
    parts = A.ledger(config, 4)
    assert sum(s.flops for name, s in parts.items() if name != "total") == parts["total"].flops


def test_layers():
    for layer, expected in (
        (nn.Linear(7, 5), A.linear_parameters(7, 5)),
        (nn.Conv2d(3, 64, 3), A.conv_parameters(3, 64, 3)),
        (nn.Conv2d(3, 4, (1, 5), bias=False), A.conv_parameters(3, 4, (1, 5), bias=False)),
        (nn.LSTM(6, 5), A.recurrent_parameters("lstm", 6, 5, biases=2)),
        (nn.GRU(6, 5, one_bias=True), A.recurrent_parameters("gru", 6, 5)),
        (nn.RNN(6, 5, one_bias=True), A.recurrent_parameters("rnn", 6, 5)),
        (nn.Attention(12, 4, 2), A.attention_parameters(12, 4, 2)),
        (nn.SwiGLU(96), 3 * 96 * A.d_ff(96)),
    ):
        assert count(layer) == expected, layer
    assert (A.d_ff(4096), A.d_ff(5120), A.d_ff(768)) == (11008, 13824, 2048)


def test_rules_of_thumb():
    assert A.estimate(40, 5120) == 12 * 40 * 5120**2
    assert A.transformer_parameters(64, 2, 100) == 2 * 12 * 64**2 + 6400
    assert A.transformer_parameters(64, 2, 100, tied=False) == 2 * 12 * 64**2 + 12800
    assert A.crossover(4096) == 24576
    d, n = 32, A.crossover(32)
    assert A.attention_flops(n, d) == n * A.flops_per_token(12 * d * d)
    assert A.kv_bytes_per_token(32, 32, 128) == 524_288 and A.kv_bytes_per_token(32, 8, 128) == 131_072
    assert A.kv_bytes(32, 8, 128, 8192, 2, 1) == 8192 * 131_072


def trained(model: nn.Module, *batch: tl.Tensor):
    def step(*batch: tl.Tensor) -> tl.Tensor:
        loss = model(*batch)[1] if len(batch) == 2 else (model(*batch) ** 2).sum()
        loss.backward()
        return loss

    return tl.trace(step, *batch, train=True)


@pytest.mark.parametrize("name", ["gpt-tiny", "llama-tiny"])
def test_products_of_a_graph(name):
    model, ids = build(name), tl.zeros(3, 8, dtype=tl.int64)
    graph = trained(model, ids, ids)
    forward, backward = (A.graph_flops(graph, phase, attention=False) for phase in ("forward", "backward"))
    assert forward == A.matmul_flops(model.config, 3, 8)
    assert forward + backward == A.matmul_flops(model.config, 3, 8, train=True)
    scores = A.graph_flops(graph, "forward") - forward
    assert scores == 3 * A.attention_flops(8, model.config.n_embd, model.config.n_layer)


def test_products_of_convolutions():
    graph = tl.trace(nn.Conv2d(3, 5, 3, padding=1), tl.zeros(2, 3, 8, 6))
    assert A.graph_flops(graph) == 2 * A.conv_flops(3, 5, 3, 8, 6)
    assert A.graph_parameters(graph) == A.conv_parameters(3, 5, 3)


def test_scores_grow_with_the_square():
    graphs = [tl.trace(build("gpt-tiny"), tl.zeros(1, n, dtype=tl.int64)) for n in (8, 16)]
    few, many = (A.graph_flops(g) - A.graph_flops(g, attention=False) for g in graphs)
    assert many == 4 * few


def test_activation_bytes():
    sizes = (3, 5, 7, 2)
    net = mlp.MLP(mlp.MLPConfig(sizes, "tanh"))
    saved = A.saved_bytes(trained(net, tl.zeros(4, 3)))
    assert saved == A.mlp_activation_bytes(sizes, 4) + 4 * 2 * 4  # the loss reads the output again

    def kept(layers: int, batch: int, n: int) -> int:
        model, ids = build("gpt-tiny", n_layer=layers), tl.zeros(batch, n, dtype=tl.int64)
        return A.saved_bytes(trained(model, ids, ids))

    for batch, n in ((1, 8), (2, 8), (2, 16)):
        formula = A.transformer_activation_bytes(batch, n, 16, 1, 2, recorded=True)
        assert kept(3, batch, n) - kept(2, batch, n) == formula.total
    unfused = A.transformer_activation_bytes(2, 8, 16, 3, 2, fused=False)
    assert unfused.scores == 2 * 2 * 8 * 8 * 3 * 4 and unfused.total == unfused.scores + 14 * 2 * 8 * 16 * 3 * 4


def test_caches_and_states():
    model = build("llama-tiny")
    c = model.config
    assert model.make_cache(3, 10).nbytes() == A.kv_bytes(c.n_layer, c.kv_heads, c.head_dim, 10, 3, 4)
    rnn = build("charlstm-tiny")
    assert rnn.state_bytes() == A.recurrent_state_bytes("lstm", 12)


def test_serial_steps():
    rnn, ids = build("charrnn-tiny"), [tl.zeros(1, n, dtype=tl.int64) for n in (5, 50)]
    short, long = (A.critical_path(tl.trace(lambda x: rnn(x)[0], x)) for x in ids)
    assert long - short == 45
    model = build("gpt-tiny", block_size=64)
    short, long = (A.critical_path(tl.trace(lambda x: model(x)[0], x)) for x in ids)
    assert long == short == 2 * 5 + 1  # qkv, attention, proj, fc, proj a block, and the head


def test_checkpoint_cost():
    cost = A.checkpoint_cost(100)
    assert (cost["segments"], cost["alive"]) == (10, 20) and cost["ratio"] == pytest.approx(4 / 3)


STACK = [(3, 1), (3, 1), (2, 2)] * 3 + [(3, 1), (3, 1)]


def test_receptive_fields():
    found = A.receptive_field(STACK)
    assert found == [
        (3, 1), (5, 1), (6, 2), (10, 2), (14, 2), (16, 4), (24, 4), (32, 4), (36, 8), (52, 8), (68, 8),
    ]  # fmt: skip
    assert [r for r, _ in A.receptive_field([(3, 1, d) for d in (1, 2, 4, 8)])] == [3, 7, 15, 31]
    assert A.receptive_field([(7, 2), (3, 1), (3, 2)]) == [(7, 2), (11, 2), (15, 4)]
    assert A.depth_for_receptive_field(224) == 112 and A.span(3, 8) == 17
    assert A.conv_size(224, 3, 2, 1) == 112
    with pytest.raises(ValueError, match="axis of 2 keeps nothing with kernel 3"):
        A.conv_size(2, 3)


@pytest.mark.parametrize("padding", [0, 1])
def test_receptive_field_is_the_gradients_support(padding):
    layers = [(3, 1, 1), (2, 2, 1), (3, 1, 2), (3, 1, 1)]
    modules = [nn.Conv1d(1, 1, k, s, padding=padding, dilation=d, bias=False) for k, s, d in layers]
    for module in modules:
        nn.init.ones_(module.weight)
    x = tl.ones(1, 1, 80).requires_grad_()
    y = nn.Sequential(*modules)(x)
    y[0, 0, y.shape[2] // 2].backward()
    seen = np.flatnonzero(x.grad.numpy())
    assert seen[-1] - seen[0] + 1 == A.receptive_field(layers)[-1][0]


def test_pieces():
    assert A.region_bound(2, 1, 10) == 1024 == A.fold_pieces(10) and A.region_bound(1023, 1, 1) == 1023
    assert A.region_bound_exact(2, 1, 10) == 1536 and A.region_bound_exact(2, 1, 5) == 48
    assert A.region_bound_exact(7, 1, 1) == A.shallow_pieces(7)
