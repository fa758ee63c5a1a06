"""A §15: what a transformer weighs, computes and keeps."""

from show import heading, table

from tinygrad_lite.models import arithmetic as ar
from tinygrad_lite.models import gpt, llama

D, HEADS, LAYERS, VOCAB, N = 4096, 32, 32, 128_000, 7e9

heading("Parameters, d = 4,096, 32 blocks, 128,000 tokens")
block = ar.attention_parameters(D, HEADS) + ar.linear_parameters(D, 4 * D, False) * 2 + 4 * D
rows = [
    ("attention, 4 d²", ar.attention_parameters(D, HEADS)),
    ("feed-forward, 8 d²", 2 * ar.linear_parameters(D, 4 * D, False)),
    ("two norms", 4 * D),
    ("block", block),
    ("32 blocks", LAYERS * block),
    ("12 L d²", ar.estimate(LAYERS, D)),
    ("embedding", VOCAB * D),
    ("tied", LAYERS * block + VOCAB * D),
    ("untied", LAYERS * block + 2 * VOCAB * D),
    ("tied, with a final norm", LAYERS * block + VOCAB * D + 2 * D),
]
table(["part", "parameters"], rows)

heading("Rule 1: work a token")
table(["", "FLOPs"], [("forward, 2 N", ar.flops_per_token(N)), ("training, 6 N", ar.flops_per_token(N, train=True))])

heading("Rule 2: where attention costs as much as the matrices")
table(
    ["against", "context"],
    [("all matrices", ar.crossover(D)), ("feed-forward alone", 4 * D), ("all, average causal context", 12 * D)],
)

heading("Rule 3: key-value cache")
rows = []
for name, heads, size in (
    ("all heads, 16 bits", 32, 2),
    ("8 groups", 8, 2),
    ("one head", 1, 2),
    ("all heads, 8 bits", 32, 1),
):
    token = ar.kv_bytes_per_token(LAYERS, heads, 128, size)
    rows.append(
        (
            name,
            token,
            ar.kv_bytes(LAYERS, heads, 128, 8192, bytes_=size) / 2**30,
            ar.attention_parameters(D, HEADS, heads),
        )
    )
table(["", "bytes a token", "GiB at 8,192", "attention weights a block"], rows)

heading("Rule 4: a claimed size")
print("40 layers of 5,120:", f"{ar.estimate(40, 5120):,}")

heading("Published models by the same formulae")
presets = {**gpt.PRESETS, **llama.PRESETS}
table(["model", "parameters"], [(name, ar.parameters(c)) for name, c in presets.items()])
