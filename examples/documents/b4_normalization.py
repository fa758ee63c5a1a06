"""B §4: normalization, and where in a block it stands."""

from diagrams import block, norm_axes, save
from show import folder, heading, table

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.nn import functional as F

heading("By hand: [2, -1, 3, 0], ε = 0")
x = tl.tensor([2.0, -1, 3, 0])
layer, rms = F.layer_norm(x, (4,), eps=0.0), F.rms_norm(x, (4,), eps=0.0)
table(["norm", "centre", "scale", "output", "its mean"], [
    ("LayerNorm", x.mean(), x.std(correction=0), layer, layer.mean()),
    ("RMSNorm", 0.0, x.square().mean().sqrt(), rms, rms.mean()),
    ("GroupNorm, 2 groups", "", "", F.group_norm(x.reshape(1, 4), 2, eps=0.0)[0], 0.0),
])  # fmt: skip

heading("The zoo on (2, 8, 5): does example 0 change when example 1 does?")
a = tl.randn(2, 8, 5)
b = tl.cat([a[:1], 5 * tl.randn(1, 8, 5)])
condition = tl.randn(2, 3)
adaptive = nn.AdaGroupNorm(2, 8, 3)
nn.init.normal_(adaptive.proj.weight)
zoo = {
    "BatchNorm": nn.BatchNorm1d(8),
    "LayerNorm": nn.LayerNorm(5),
    "RMSNorm": nn.RMSNorm(5),
    "GroupNorm": nn.GroupNorm(2, 8),
    "AdaGN": lambda x: adaptive(x, condition),
}
table(["norm", "depends on its batch"], [(n, bool((f(a)[0] != f(b)[0]).any().item())) for n, f in zoo.items()])

heading("Identity path at initialisation: what is left of the input after n additions of unit variance")
rows = []
tl.manual_seed(0)
first = F.layer_norm(tl.randn(512, 256), (256,))
post = pre = first
for n in range(1, 25):
    write = tl.randn(512, 256)
    post, pre = F.layer_norm(post + write, (256,)), pre + write
    if n in (1, 2, 4, 8, 24):
        rows.append((n, (post * first).mean(), 0.5 ** (n / 2), (pre * first).mean()))
table(["additions", "post-norm", "0.5^(n/2)", "pre-norm"], rows)

heading("Pre-norm: the output is the input plus every branch")
branches = nn.ModuleList([nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.Tanh()) for _ in range(6)])
x = start = tl.randn(3, 8, dtype=tl.float32)
written = []
for f in branches:
    written.append(f(x))
    x = x + written[-1]
print("difference", (x - start - sum(written)).abs().max().item())

heading("An outlier channel and eight bits: mean error of the other channels")
rows = []
for times in (1, 10, 100):
    v = tl.randn(256, 16)
    v[:, 0] *= times
    scale = v.abs().max() / 127
    rows.append((times, ((v / scale).round() * scale - v)[:, 1:].abs().mean()))
table(["channel 0 times", "error"], rows)

numbers = tl.tensor([[4.0, 1, -1, 4], [1, 0, 3, 0], [3, 0, 6, 3]])
save(norm_axes(numbers), folder() / "b4_axes.svg")
save(block("post", "pre", "sandwich"), folder() / "b4_blocks.svg")
