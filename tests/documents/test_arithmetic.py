"""Figures that formulae decide: receptive fields, sizes, work and memory (A §1 to §4, §12, §13, §15; B §2)."""

from __future__ import annotations

import pytest

import tinygrad_lite as tl
from tests.documents.helpers import close, count_parameters
from tinygrad_lite import nn
from tinygrad_lite.models import arithmetic as ar
from tinygrad_lite.models.mlp import fold_network, shallow_network

# Kernels and strides of the eleven layers of A §3.
STACK = [(3, 1), (3, 1), (2, 2)] * 3 + [(3, 1), (3, 1)]
# The configuration of A §15.
D, HEADS, LAYERS, VOCAB = 4096, 32, 32, 128_000
GIB = 2**30


def ledger(kv_heads=HEADS, gated=False):
    """Of one block: linear layers without biases, norms with gain and bias."""
    inner = ar.d_ff(D) if gated else 4 * D
    return {
        "attention": ar.attention_parameters(D, HEADS, kv_heads),
        "feed_forward": (3 if gated else 2) * ar.linear_parameters(D, inner, bias=False),
        "norms": 2 * 2 * D,
    }


def part(name, **options):
    return ledger(**options)[name]


def whole(tied=True):
    return LAYERS * sum(ledger().values()) + VOCAB * D * (1 if tied else 2)


# Depth


def test_DEP_11_a_shallow_net_of_as_many_pieces():
    units = 2**20 - 1
    assert ar.shallow_pieces(units) == ar.fold_pieces(20) == 1_048_576
    assert ar.mlp_parameters((1, units, 1)) == 3 * units + 1 == 3_145_726


def test_DEP_12_region_bound():
    """The simplified form; agreement with the folds' 1,024 is a coincidence of it (DEP-13 has 1,536)."""
    assert ar.region_bound(2, 1, 10) == 1024
    assert ar.region_bound(1023, 1, 1) == 1023
    assert ar.region_bound_exact(2, 1, 10) == 1536


def test_constructed_networks_have_the_counted_sizes():
    assert count_parameters(fold_network(10)) == ar.mlp_parameters((1, *[2] * 10, 1)) == 61
    assert count_parameters(shallow_network(1023)) == ar.mlp_parameters((1, 1023, 1)) == 3070


# Dense and convolution


def test_DEN_03_a_dense_layer_on_pixels():
    assert ar.linear_parameters(150_528, 1000) == 150_529_000
    assert ar.linear_parameters(150_528, 1000, bias=False) == 150_528_000


def test_CNV_03_work_shrinks_less_than_parameters():
    conv = ar.conv_flops(3, 64, 3, 224, 224) // 2
    dense = ar.linear_parameters(150_528, 1000, bias=False)
    assert (conv, dense) == (86_704_128, 150_528_000)
    close(dense / conv, 1.736, 5e-4)
    assert 64 * 224 * 224 == 3_211_264


# Receptive field


def test_RF_01_eleven_layers():
    assert ar.receptive_field(STACK) == [
        (3, 1), (5, 1), (6, 2), (10, 2), (14, 2), (16, 4), (24, 4), (32, 4), (36, 8), (52, 8), (68, 8)
    ]  # fmt: skip


def wrong_order(layers):
    """The jump advanced before the field reads it."""
    r = j = 1
    for k, s in layers:
        j *= s
        r += (k - 1) * j
        yield r, j


def test_RF_02_the_other_order_is_wrong():
    wrong = list(wrong_order(STACK))
    assert wrong[-1] == (75, 8) and wrong[2][0] == 7
    assert ar.receptive_field(STACK)[2][0] == 6


def test_RF_03_a_pool_and_the_layer_after_it():
    assert ar.receptive_field([(5, 1), (2, 2), (3, 1)])[1:] == [(6, 2), (10, 2)]


def increments(kernel, stride, jumps):
    found = []
    for j in jumps:
        before, after = ar.receptive_field([(1, j), (kernel, stride)])
        found.append(after[0] - before[0])
    return found


def test_RF_04_a_convolutions_increments():
    assert increments(3, 1, (1, 2, 4, 8)) == [2, 4, 8, 16]


def test_RF_05_a_pools_increments():
    assert increments(2, 2, (1, 2, 4)) == [1, 2, 4]
    fields = [r for r, _ in ar.receptive_field(STACK)]
    assert [(fields[i - 1], fields[i]) for i in (2, 5, 8)] == [(5, 6), (14, 16), (32, 36)]


def test_RF_06_depth_for_a_whole_image():
    assert ar.depth_for_receptive_field(224) == 112
    assert [ar.receptive_field([(3, 1)] * n)[-1][0] for n in (112, 111)] == [225, 223]


def test_RF_07_downsampling_buys_context():
    assert ar.receptive_field(STACK)[-1][0] == 68
    assert ar.receptive_field([(3, 1)] * 8)[-1][0] == 17


def test_RF_08_dilation():
    assert ar.receptive_field([(3, 1, d) for d in (1, 2, 4, 8)]) == [(3, 1), (7, 1), (15, 1), (31, 1)]
    assert [r for r, _ in ar.receptive_field([(3, 1)] * 4)] == [3, 5, 7, 9]
    assert [ar.span(3, d) for d in (1, 2, 4, 8)] == [3, 5, 9, 17]


def test_RF_09_stem_of_the_document():
    assert ar.receptive_field([(7, 2), (3, 1), (3, 2)]) == [(7, 2), (11, 2), (15, 4)]


def test_RF_10_stem_of_resnet():
    """Of the 8 pixels more than three plain layers see, 4 are the larger kernel's and 4 the strides'."""
    assert ar.receptive_field([(3, 1)] * 3)[-1][0] == 7
    assert ar.receptive_field([(7, 1), (3, 1), (3, 1)])[-1][0] == 11
    assert ar.receptive_field([(7, 2), (3, 2)])[-1] == (11, 4)


@pytest.mark.parametrize("variant, layers", [("document", [(7, 2), (3, 1), (3, 2)]), ("canonical", [(7, 2), (3, 2)])])
def test_built_stems_see_what_is_counted(variant, layers):
    from tinygrad_lite.models.resnet import ResNet, ResNetConfig

    stem = ResNet(ResNetConfig((1,), (4,), 10, 1, stem=variant)).stem.eval()
    for p in stem.parameters():
        nn.init.ones_(p)
    x = tl.ones(1, 1, 65, 65, requires_grad=True)
    y = stem(x)
    (g,) = tl.autograd.grad(y[0, 0, 8, 8], x)
    assert y.shape[2] == 17
    field, jump = ar.receptive_field(layers)[-1]
    rows = (g[0, 0] != 0).any(0).nonzero()[:, 0]
    seen = rows[-1].item() - rows[0].item() + 1
    assert seen == field if variant == "document" else 7 <= seen <= field  # a maximum passes one gradient on
    assert jump == 4


# Embeddings


def test_EMB_01_table():
    assert VOCAB * D == 524_288_000
    assert ar.transformer_parameters(D, 1, VOCAB) - ar.estimate(1, D) == 524_288_000


def test_EMB_02_share_of_the_model():
    close(VOCAB * D / whole(), 0.07525, 1e-4)
    close(2 * VOCAB * D / whole(tied=False), 0.140, 1e-3)


def test_EMB_03_saved_by_tying():
    assert whole(tied=False) - whole() == 524_288_000


# Gated feed-forwards


def test_GLU_01_target_width():
    close([8 / 3 * 4096, 8 / 3 * 4096 / 256], [10_922.667, 42.667], 1e-3)
    assert -(-8 * 4096 // (3 * 256)) == 43


def test_GLU_02_rounded_width():
    assert ar.d_ff(4096) == 43 * 256 == 11_008
    assert nn.SwiGLU(96).d_ff == 256
    assert 4 * 4096 == 16_384


def test_GLU_04_what_rounding_costs():
    gated, plain = part("feed_forward", gated=True), part("feed_forward")
    assert (gated, plain) == (135_266_304, 134_217_728)
    close(gated / plain - 1, 0.0078, 5e-5)


def test_GLU_05_widths_of_the_rule():
    assert [ar.d_ff(d) for d in (512, 768, 1024, 2048, 5120, 8192)] == [1536, 2048, 2816, 5632, 13_824, 22_016]


# The transformer of A §15


def test_PAR_01_attention():
    assert part("attention") == 67_108_864 == 4 * 16_777_216


def test_PAR_02_feed_forward():
    assert part("feed_forward") == 134_217_728


def test_PAR_03_norms():
    assert part("norms") == 16_384


def test_PAR_04_blocks():
    block = part("attention") + part("feed_forward") + part("norms")
    assert (block, LAYERS * block) == (201_342_976, 6_442_975_232)
    assert ar.estimate(LAYERS, D) == 6_442_450_944


def test_PAR_05_tied():
    assert whole() == 6_967_263_232 and round(whole() / 1e9, 2) == 6.97


def test_PAR_06_untied():
    assert whole(tied=False) == 7_491_551_232


def test_PAR_07_with_the_final_norm():
    """A §8 calls it mandatory, A §15 leaves it out."""
    assert whole() + 2 * D == 6_967_271_424


def test_PAR_08_work_of_generating():
    assert ar.flops_per_token(7e9) == 1.4e10


def test_PAR_09_work_of_training():
    assert ar.flops_per_token(7e9, train=True) == 4.2e10


def attention_work(n):
    """A token's share of one layer's scores and sums over n tokens."""
    return ar.attention_flops(n, D) // n


def test_PAR_10_crossover():
    assert ar.crossover(D) == 6 * D == 24_576
    assert attention_work(24_576) == ar.flops_per_token(ar.estimate(1, D)) == 24 * D * D


def test_PAR_11_crossover_with_the_feed_forward_alone():
    """Below 24,576 tokens all matrices together outweigh attention; the feed-forward alone does below 16,384."""
    assert attention_work(16_384) == ar.flops_per_token(part("feed_forward"))
    assert 4 * D == 16_384


def test_PAR_12_crossover_at_the_average_context():
    """A causal token sees half the context on average."""
    assert attention_work(49_152 // 2) == ar.flops_per_token(ar.estimate(1, D))
    assert 12 * D == 49_152


def test_PAR_13_cache():
    assert ar.kv_bytes_per_token(LAYERS, HEADS, 128) == 524_288 == 512 * 1024


def test_PAR_14_cache_of_8192_tokens():
    assert 8192 * ar.kv_bytes_per_token(LAYERS, HEADS, 128) == 4 * GIB


def test_PAR_15_grouped_queries():
    assert 8 * 128 == 1024
    token = ar.kv_bytes_per_token(LAYERS, 8, 128)
    assert (token, 8192 * token) == (131_072, GIB)
    assert ar.kv_bytes_per_token(LAYERS, HEADS, 128) == 4 * token


def test_PAR_16_weights_of_grouped_queries():
    assert part("attention", kv_heads=8) == 41_943_040
    assert part("attention", kv_heads=1) == 34_603_008
    assert part("attention", kv_heads=8) + part("feed_forward") + part("norms") == 176_177_152


def test_PAR_17_one_key_head():
    token = ar.kv_bytes_per_token(LAYERS, 1, 128)
    assert (token, 8192 * token) == (16_384, 128 * 2**20)
    assert ar.kv_bytes_per_token(LAYERS, HEADS, 128) == 32 * token


def test_PAR_18_eight_bits():
    token = ar.kv_bytes_per_token(LAYERS, HEADS, 128, bytes_=1)
    assert (token, 8192 * token) == (262_144, 2 * GIB)


def test_PAR_19_a_claimed_size():
    assert ar.estimate(40, 5120) == 12_582_912_000


def test_PAR_20_head_and_inner_width():
    assert (D // HEADS, 4 * D) == (128, 16_384)


@pytest.mark.parametrize("tied, want", [(True, 1680), (False, 1760)])
def test_PAR_21_a_model_small_enough_to_build(tied, want):
    """Two blocks of width 8, ten tokens; the built one has a final norm besides."""
    assert ar.transformer_parameters(8, 2, 10, tied=tied) + 2 * 2 * 2 * 8 == want  # and the norms
    blocks = []
    for _ in range(2):
        attention, feed = nn.Attention(8, 2), nn.FeedForward(8, bias=False)
        blocks += [nn.Residual(attention, 8), nn.Residual(feed, 8)]
    table = nn.Embedding(10, 8)
    head = nn.Linear(8, 10, bias=False)
    if tied:
        head.weight = table.weight
    assert count_parameters(nn.ModuleList([table, *blocks, head])) == want


def test_PAR_22_scores_of_a_layer():
    """h · n², whatever the width: the document's n² d is the work."""
    kept = ar.transformer_activation_bytes(1, 8192, D, 1, HEADS, bytes_=2, fused=False)
    assert kept.scores == HEADS * 8192**2 * 2 == 4 * GIB


# Memory


def stored_bytes(batch, tokens, width, layers):
    """Bytes that a chain of tanh layers keeps for its backward pass: one tensor a layer."""

    def step(x):
        y = x = x.detach().requires_grad_(True)
        for _ in range(layers):
            y = y.tanh()
        return tl.autograd.grad(y.sum(), x)[0]

    graph = tl.trace(step, tl.zeros(batch, tokens, width), train=True)
    return sum(4 * node.type.size for node in graph.nodes if node.op.name == "tanh")


def test_MEM_03_activations():
    sizes = (2, 4, 8, 3)
    linear = ar.transformer_activation_bytes(*sizes, heads=2).linear
    for i in range(4):
        doubled = tuple(2 * n if i == k else n for k, n in enumerate(sizes))
        assert ar.transformer_activation_bytes(*doubled, heads=2).linear == 2 * linear
        assert stored_bytes(*doubled) == 2 * stored_bytes(*sizes)


def test_checkpointing_by_arithmetic():
    cost = ar.checkpoint_cost(64)
    assert cost["alive"] == 16
    close(cost["ratio"], 1.3333, 1e-4)
