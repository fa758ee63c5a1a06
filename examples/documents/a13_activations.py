"""A §13: activations, units that die, SwiGLU."""

import math

from diagrams import activations, save
from show import folder, heading, table

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models import arithmetic as ar
from tinygrad_lite.nn import functional as F

FUNCTIONS = {
    "sigmoid": tl.sigmoid,
    "tanh": tl.tanh,
    "ReLU": F.relu,
    "LeakyReLU 0.01": lambda x: F.leaky_relu(x, 0.01),
    "GELU": F.gelu,
    "SiLU": F.silu,
}

heading("Slopes; at a kink the library's choice")
rows = []
for name, fn in FUNCTIONS.items():
    x = tl.tensor([-3.0, -1.0, 0.0, 1.0], dtype=tl.float64, requires_grad=True)
    (g,) = tl.autograd.grad(fn(x).sum(), x)
    low = fn(tl.linspace(-6, 6, 12_001, dtype=tl.float64)).min()
    rows.append((name, *g.tolist(), low))
table(["", "at -3", "at -1", "at 0", "at 1", "lowest value"], rows)

heading("How a ReLU unit dies: share of z above 0, before and after one step of lr 0.5 on a gradient of 5")
rows = []
for mean in (0.5, 0.5 - 0.5 * 5):
    exact = 0.5 * (1 + math.erf(mean / math.sqrt(2)))
    rows.append((mean, exact, (tl.randn(100_000) + mean > 0).float().mean()))
table(["mean of z", "P(z > 0)", "sampled"], rows)

heading("A dead unit: change after 20 steps")
x = tl.rand(64, 2)
rows = []
for name, fn in (("ReLU", F.relu), ("LeakyReLU", lambda z: F.leaky_relu(z, 0.01)), ("GELU", F.gelu), ("SiLU", F.silu)):
    tl.manual_seed(0)
    unit = nn.Linear(2, 1)
    nn.init.constant_(unit.bias, -3.0)
    before, optimizer = unit.bias.item(), tl.optim.SGD(unit.parameters(), lr=0.5)
    for _ in range(20):
        (fn(unit(x)) - 1.0).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    rows.append((name, unit.bias.item() - before))
table(["activation", "bias moved by"], rows)

heading("Measuring: share of examples at exactly zero, per unit; two planted dead ones")
layer = nn.Linear(3, 4)
with tl.no_grad():
    layer.bias.copy_(tl.tensor([0.0, -100.0, 0.0, -100.0]))
print([round(v, 2) for v in (F.relu(layer(tl.randn(256, 3))) == 0).float().mean(0).tolist()])

heading("SwiGLU's inner width: 8/3 d rounded up to a multiple of 256")
rows = [(d, 8 / 3 * d, ar.d_ff(d), 3 * d * ar.d_ff(d) / (8 * d * d)) for d in (512, 768, 1024, 2048, 4096, 5120, 8192)]
table(["d", "8/3 d", "d_ff", "weights over 8 d²"], rows)

save(activations(), folder() / "a13_activations.svg")
