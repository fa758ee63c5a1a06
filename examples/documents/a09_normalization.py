"""A §9: one formula, different axes."""

from diagrams import norm_axes, save
from show import folder, heading, table

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.nn import functional as F

x = tl.tensor([[[4.0, 1, -1, 4], [1, 0, 3, 0], [3, 0, 6, 3]], [[2, 2, 4, 0], [0, 3, 0, 1], [2, 0, 6, 4]]])


def batch(x):
    return F.batch_norm(x.reshape(-1, 4), None, None, training=True, eps=0.0).reshape(x.shape)


def layer(x):
    return F.layer_norm(x, (4,), eps=0.0)


heading("24 numbers: a mean a token, or a mean a channel")
flat = x.reshape(6, 4)
table(["token", "numbers", "mean", "sd"], [(i, r, r.mean(), r.std(correction=0)) for i, r in enumerate(flat)])
table(["channel", "mean", "sd"], [(i, c.mean(), c.std(correction=0)) for i, c in enumerate(flat.T)])

heading("Change one number of example 0; look at example 1")
changed = x.clone()
changed[0, 2, 2] = 12.0
table(
    ["", "LayerNorm", "BatchNorm"],
    [(name, layer(v)[1, 0], batch(v)[1, 0]) for name, v in (("before", x), ("after", changed))],
)

heading("Why not in a transformer: BatchNorm of example 1's first token")
padded = tl.cat([x, tl.zeros(2, 2, 4)], 1)
real = tl.arange(5).expand(2, 5) < 3
masked = F.batch_norm(padded.transpose(1, 2), None, None, training=True, eps=0.0, mask=real).transpose(1, 2)
table(
    ["beside", "output"],
    [
        ("its batch", batch(x)[1, 0]),
        ("padding", batch(padded)[1, 0]),
        ("padding, masked", masked[1, 0]),
        ("nobody", batch(x[1:])[0, 0]),
    ],
)

heading("Running statistics and evaluation")
norm = nn.BatchNorm1d(4)
for _ in range(50):
    norm(flat)
print("running mean", [round(v, 3) for v in norm.running_mean.tolist()])
norm.eval()
print("a batch of one:", [round(v, 3) for v in norm(flat[:1])[0].tolist()])

heading("Accumulated micro-batches against one batch: largest difference of gradients")
rows = []
for name, of in (("LayerNorm", layer), ("BatchNorm", batch)):
    weight = tl.randn(4, 4, requires_grad=True, dtype=tl.float64)

    def grad(parts, of=of, weight=weight):
        return sum(tl.autograd.grad((of(p.double()) @ weight).pow(3).sum(), weight)[0] for p in parts)

    rows.append((name, (grad([x]) - grad([x[:1], x[1:]])).abs().max()))
table(["norm", "difference"], rows)

heading("RMSNorm: one reduction, no bias")
table(["norm", "parameters at 4,096", "[4, 1, -1, 4]"], [
    ("LayerNorm", sum(p.numel() for p in nn.LayerNorm(4096).parameters()), layer(x)[0, 0]),
    ("RMSNorm", sum(p.numel() for p in nn.RMSNorm(4096).parameters()), F.rms_norm(x, (4,), eps=0.0)[0, 0]),
])  # fmt: skip

save(norm_axes(flat), folder() / "a09_axes.svg")
