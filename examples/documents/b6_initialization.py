"""B §6: initial scales."""

import math

from show import heading, table

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models.gpt import GPT, GPTConfig

init = nn.init
SCHEMES = {
    "LeCun, 1/n": init.lecun_normal_,
    "Xavier, 2/(n + m)": init.xavier_normal_,
    "He, 2/n": lambda w: init.kaiming_normal_(w, nonlinearity="relu"),
    "orthogonal": init.orthogonal_,
    "GPT-2, 0.02²": lambda w: init.normal_(w, std=0.02),
}

heading("Variance of a 256 × 256 weight, and second moments after ten layers")
rows = []
for name, fill in SCHEMES.items():
    tl.manual_seed(0)
    weights = [fill(tl.empty(256, 256)) for _ in range(10)]
    x = tl.randn(128, 256)
    linear = relu = tanh = x
    for w in weights:
        linear, relu, tanh = linear @ w.T, (relu @ w.T).relu(), (tanh @ w.T).tanh()
    rows.append((name, weights[0].var(), *(v.square().mean() for v in (linear, relu, tanh))))
table(["scheme", "variance", "linear", "ReLU", "tanh"], rows)
print("He over Xavier under ReLU: 2 a layer,", 2**10, "after ten")

heading("GPT-2: projections that end a residual branch are scaled by 1/√2L")
rows = []
for depth in (12, 24, 32):
    model = GPT(GPTConfig(65, 16, depth, 2, 32))
    ends = [p for name, p in model.named_parameters() if name.endswith("proj.weight")]
    rows.append((depth, len(ends), 0.02 / math.sqrt(2 * depth), tl.cat([p.flatten() for p in ends]).std()))
table(["L", "tensors", "0.02/√2L", "drawn"], rows)
print("factor at L = 32:", 1 / math.sqrt(2 * 32))
