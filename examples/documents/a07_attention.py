"""A §7: attention as a lookup by content."""

import math

import numpy as np
from diagrams import attention_pipeline, save
from show import folder, heading, table

import tinygrad_lite as tl
from tinygrad_lite import nn, viz
from tinygrad_lite.models import arithmetic as ar
from tinygrad_lite.nn import functional as F
from tinygrad_lite.nn.positions import RotaryPositions, sinusoids

TOKENS = ["the", "cat", "sat", "on"]
q = tl.tensor([[1.0, 2, 0, 1]])
k = tl.tensor([[0.0, 0, 1, 0], [1, 2, 0, 1], [0, 1, 0, 1], [1, 0, 0, 0]])
v = tl.tensor([[0.1, 0.0, 0.2, 0.0], [0.9, 0.2, 0.1, 0.4], [0.2, 0.8, 0.0, 0.3], [0.0, 0.1, 0.7, 0.1]])

heading("What the third token reads")
raw = (q @ k.T)[0]
scaled = raw / math.sqrt(4)
before = scaled.masked_fill(tl.tensor([False, False, False, True]), -math.inf).softmax(0)
after = scaled.softmax(0) * tl.tensor([1.0, 1, 1, 0])
rows = list(
    zip(
        TOKENS,
        *(
            c.tolist()
            for c in (raw, scaled, scaled.exp(), scaled.softmax(0), before, after, raw.softmax(0), (raw / 4).softmax(0))
        ),
        strict=False,
    )
)
sums = [
    "sum",
    "",
    "",
    *(c.sum() for c in (scaled.exp(), scaled.softmax(0), before, after, raw.softmax(0), (raw / 4).softmax(0))),
]
table(["token", "q·k", "÷ 2", "exp", "weight", "masked", "masked late", "unscaled", "÷ 4"], [*rows, sums])
print("out", F.scaled_dot_product_attention(q, k, v)[0].tolist())

heading("Why the square root: two keys a separation s apart")
rows = []
for name, s in (("unscaled, d_k = 128", math.sqrt(128)), ("scaled", 1.0)):
    x = tl.tensor(s, dtype=tl.float64, requires_grad=True)
    p = tl.stack([x, 0 * x]).softmax(0)[0]
    rows.append((name, s, p, tl.autograd.grad(p, x)[0]))
table(["", "s", "winner's weight", "slope"], rows)
tl.manual_seed(0)
raw = (tl.randn(20_000, 128) * tl.randn(20_000, 128)).sum(-1)
table(
    ["scores", "standard deviation"],
    [("raw", raw.std()), ("÷ √128", (raw / math.sqrt(128)).std()), ("÷ 128", (raw / 128).std())],
)

heading("Heads cost nothing: parameters at d = 64")
table(["heads", "parameters"], [(h, sum(p.numel() for p in nn.Attention(64, h).parameters())) for h in (1, 4, 64)])

heading("Order is unseen without positions or a mask: largest change after permuting input and output back")
x, order = tl.randn(1, 6, 8), [3, 0, 5, 1, 4, 2]
positions = tl.tensor(sinusoids(6, 8).tolist())
rows = []
for name, layer, added in (
    ("plain", nn.Attention(8, 2), 0),
    ("causal", nn.Attention(8, 2, causal=True), 0),
    ("with positions", nn.Attention(8, 2), positions),
):
    rows.append((name, (layer(x[:, order] + added) - layer(x + added)[:, order]).abs().max()))
table(["attention", "change"], rows)

heading("Rotary positions: the score follows the offset")
rotary, pairs = RotaryPositions(4), [0, 2, 1, 3]
rows = []
for at in ([5, 3], [12, 10], [2, 0], [5, 4]):
    a, b = (rotary(t[:1, pairs], tl.tensor(at[i : i + 1])) for i, t in enumerate((q, k[2:3])))
    rows.append((*at, (a * b).sum()))
table(["query at", "key at", "score"], rows)

heading("Cost of scores, n tokens, d = 4,096, 32 heads in 16 bits")
rows = [(n, ar.attention_flops(n, 4096), 32 * n * n * 2) for n in (1024, 2048, 8192)]
table(["n", "FLOPs a layer", "bytes a layer"], rows)

save(attention_pipeline(), folder() / "a07_attention.svg")


def written_out(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    mask = tl.ones(*scores.shape[-2:], dtype=tl.bool).triu(1)
    return scores.masked_fill(mask, float("-inf")).softmax(-1) @ v


graph = tl.trace(written_out, *[tl.zeros(1, 1, 4, 4)] * 3)
try:
    viz.draw(graph, folder() / "a07_graph.svg")
except viz.NoRenderer as missing:
    print(missing)
assert np.allclose(written_out(q, k, v)[0], v[0])  # one query sees one key under a causal mask
