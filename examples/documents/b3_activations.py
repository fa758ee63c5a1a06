"""B §3: activation functions."""

from diagrams import activations, save
from show import folder, heading, table

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.nn import functional as F

heading("Derivatives at 0, from the left and from the right")
FUNCTIONS = {
    "sigmoid": tl.sigmoid,
    "tanh": tl.tanh,
    "ReLU": F.relu,
    "LeakyReLU": F.leaky_relu,
    "GELU": F.gelu,
    "SiLU": F.silu,
}
rows = []
for name, fn in FUNCTIONS.items():
    x = tl.tensor([-1e-9, 1e-9], dtype=tl.float64, requires_grad=True)
    rows.append((name, *tl.autograd.grad(fn(x).sum(), x)[0].tolist()))
table(["", "left", "right"], rows)
print("ReLU and LeakyReLU have no derivative at 0")

heading("Ten sigmoids in a row")
x = y = tl.tensor(0.3, dtype=tl.float64, requires_grad=True)
for _ in range(10):
    y = y.sigmoid()
print("gradient", tl.autograd.grad(y, x)[0].item(), "at most", 0.25**10)

heading("GELU(x) is the mean of x · 1[Z ≤ x]")
tl.manual_seed(0)
z = tl.randn(100_000, 1, dtype=tl.float64)
x = tl.tensor([-1.0, -0.3, 0.5, 2.0], dtype=tl.float64)
table(
    ["x", "sampled", "GELU"], zip(x.tolist(), (x * (z <= x).double()).mean(0).tolist(), F.gelu(x).tolist(), strict=True)
)

heading("A gate multiplies: a linear-gated unit is exactly x1 · x2")
x = tl.randn(4, 2)
table(["x1", "x2", "gated unit"], [(a, b, (a * 1.0) * (b * 1.0) * 1.0) for a, b in x.tolist()])

heading("SwiGLU and GeGLU at d = 1, weights 1, 2, 3")
for name, kind in (("SwiGLU", nn.SwiGLU), ("GeGLU", nn.GeGLU)):
    layer = kind(1, 1)
    for p, v in ((layer.gate_proj, 1.0), (layer.up_proj, 2.0), (layer.down_proj, 3.0)):
        nn.init.constant_(p.weight, v)
    print(name, round(layer(tl.ones(1, 1)).item(), 6))

heading("SELU keeps a standard normal: constants 1.0507 and 1.6733, of neither document")
y = F.selu(tl.randn(100_000))
print("mean", round(y.mean().item(), 3), "variance", round(y.var().item(), 3))

save(activations(), folder() / "b3_activations.svg")
