"""The formulae against what the library builds: parameters of modules, FLOPs and sizes in traced graphs."""

from __future__ import annotations

import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models import arithmetic as ar
from tinygrad_lite.models import build, llama
from tinygrad_lite.models.gpt import GPT, GPTConfig
from tinygrad_lite.models.mlp import MLP, MLPConfig


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def flops(graph, op: str) -> int:
    return sum(node.op.cost(node).flops for node in graph.nodes if node.op.name == op)


@pytest.mark.parametrize("sizes", [(3, 5), (2, 16, 16, 2), (1, 1023, 1)])
def test_perceptrons(sizes):
    assert ar.mlp_parameters(sizes) == count(MLP(MLPConfig(sizes)))
    assert ar.mlp_parameters(sizes, bias=False) == count(MLP(MLPConfig(sizes, bias=False)))


def test_convolutions():
    assert ar.conv_parameters(3, 8, 3) == count(nn.Conv2d(3, 8, 3))
    assert ar.conv_parameters(3, 8, (5,), bias=False) == count(nn.Conv1d(3, 8, 5, bias=False))
    graph = tl.trace(nn.Conv2d(3, 8, 3, padding=1, bias=False), tl.zeros(1, 3, 10, 12))
    work = sum(n.op.cost(n).flops for n in graph.nodes if n.op.name.startswith("conv"))
    assert work == 2 * ar.conv_multiply_adds(3, 8, 3, 10, 12)


@pytest.mark.parametrize("kind, layer", [("rnn", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM)])
def test_recurrences(kind, layer):
    assert ar.recurrent_parameters(kind, 6, 4) == count(layer(6, 4, one_bias=True))
    assert ar.recurrent_parameters(kind, 6, 4, biases=2) == count(layer(6, 4))
    state = layer(6, 4)(tl.zeros(3, 1, 6))[1]
    held = sum(s.numel() * s.element_size() for s in (state if isinstance(state, tuple) else (state,)))
    assert ar.recurrent_state_bytes(1, 4, kind) == held


@pytest.mark.parametrize("tied", [True, False])
def test_transformers(tied):
    d, layers, vocab, block = 16, 3, 11, 8
    model = GPT(GPTConfig(vocab, block, layers, 2, d, bias=False, tied=tied))
    built = ar.transformer_parameters(d, layers, vocab, norm="rms", final_norm=True, tied=tied)
    assert built + block * d == count(model)  # and the positions


def of_llama(config) -> int:
    return ar.transformer_parameters(
        config.n_embd,
        config.n_layer,
        config.vocab_size,
        d_ff=config.feedforward,
        gated=True,
        kv_width=config.kv_heads * config.head_dim,
        norm="rms",
        final_norm=True,
        tied=config.tied,
    )


def test_gated_transformers_with_shared_heads():
    assert of_llama(build("llama-tiny").config) == count(build("llama-tiny"))


@pytest.mark.parametrize("name, published", [("llama2-7b", 6_738_415_616), ("llama3-8b", 8_030_261_248)])
def test_published_sizes(name, published):
    assert of_llama(llama.PRESETS[name]) == published


def test_work_of_a_graph():
    """Of a block: 24 d² a token for its matrices, 4 n d for attention over n tokens."""
    d, layers, n = 16, 2, 8
    blocks, x = nn.Sequential(*GPT(GPTConfig(11, n, layers, 2, d, bias=False)).blocks), tl.zeros(1, n, d)
    matrices, scores = (layers * n * work for work in ar.block_flops_per_token(d, n))
    graph = tl.trace(lambda x: blocks(x), x)
    assert (flops(graph, "matmul"), flops(graph, "attention")) == (matrices, scores)
    assert ar.flops_per_token(ar.estimated_parameters(d, layers)) * n == matrices
    assert layers * 2 * ar.attention_multiply_adds(n, d) == scores


def test_caches_and_scores():
    cache = nn.KVCache(3, 2, 4, 10, 8)
    assert cache.nbytes() == 2 * 10 * ar.kv_bytes_per_token(3, 4, 8, bytes_each=4)
    assert ar.score_bytes(4, 10, bytes_each=4) == 4 * 10 * 10 * 4


def test_crossover_solves_its_equation():
    for d in (64, 4096):
        n = ar.attention_crossover(d)
        assert len(set(ar.block_flops_per_token(d, n))) == 1
    assert ar.attention_crossover(64, weights=8 * 64 * 64) == 4 * 64


def test_field_is_the_support_of_the_gradient():
    layers = [(3, 1), (3, 2), (2, 2), (3, 1, 2), (5, 1)]
    net = nn.Sequential(*[nn.Conv1d(1, 1, k, s, dilation=d[0] if d else 1, bias=False) for k, s, *d in layers])
    for p in net.parameters():
        nn.init.ones_(p)
    x = tl.zeros(1, 1, 200, requires_grad=True)
    (g,) = tl.autograd.grad(net(x)[0, 0, 5], x)
    touched = g[0, 0].nonzero()[:, 0]
    assert touched[-1].item() - touched[0].item() + 1 == ar.receptive_field(layers)[-1][0]


def test_depth_reaches_the_target():
    for target in (2, 3, 4, 223, 224, 225):
        n = ar.depth_for_field(target)
        assert ar.receptive_field([(3, 1)] * n)[-1][0] >= target
        assert n == 1 or ar.receptive_field([(3, 1)] * (n - 1))[-1][0] < target


def test_bad_arguments():
    with pytest.raises(ValueError, match="kind must be one of rnn, gru, lstm"):
        ar.recurrent_parameters("gur", 1, 1)
    with pytest.raises(ValueError, match="norm must be 'layer' or 'rms'"):
        ar.transformer_parameters(8, 1, 5, norm="batch")
