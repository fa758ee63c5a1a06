"""A §11: dropout."""

import math

from show import heading, table

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.nn import functional as F

tl.manual_seed(0)
heading("A unit of value 2 under p = 0.1, a million times")
x = tl.full((1_000_000,), 2.0)
y, classic = F.dropout(x, 0.1), nn.ClassicDropout(0.1)
table(
    ["", "measured", "expected"],
    [("survivor", y.max(), 2 / 0.9), ("share alive", (y != 0).float().mean(), 0.9), ("mean", y.mean(), 2.0),
     ("variance", y.var(), 0.1 / 0.9 * 4), ("classic form's mean", classic(x).mean(), 1.8),
     ("and in evaluation", classic.eval()(x).mean(), 1.8)],
)  # fmt: skip
print("subnetworks of 512 units: 2^512 =", f"{float(2**512):.4g}")

heading("Dropout before or after BatchNorm, p = 0.5: running variance, and the spread in evaluation")
rows, x = [], tl.randn(50_000, 1)
for name in ("before", "after"):
    norm = nn.BatchNorm1d(1, momentum=1.0, affine=False)
    net = nn.Sequential(nn.Dropout(0.5), norm) if name == "before" else nn.Sequential(norm, nn.Dropout(0.5))
    net(x)
    net.eval()
    rows.append((name, norm.running_var, net(x).std()))
table(["dropout", "running variance", "sd in evaluation"], rows)
print("1/√2 =", round(1 / math.sqrt(2), 4))

heading("Evaluation leaves the input as it is")
layer = nn.Dropout(0.5).eval()
print(bool((layer(x) == x).all().item()))
