"""A §5: the gradient through time is an exponential."""

import math

from diagrams import model
from show import folder, heading, table

import tinygrad_lite as tl
from tinygrad_lite import nn


def scalar(weight, drive=0.0):
    """h = tanh(weight · h + x), the inputs held at `drive`."""
    rnn = nn.RNN(1, 1).double()
    for p in rnn.parameters():
        nn.init.zeros_(p)
    nn.init.constant_(rnn.weight_hh_l0, weight)
    nn.init.constant_(rnn.weight_ih_l0, 1.0)

    def gradient(span, start=0.0):
        x = tl.full((span, 1, 1), drive, dtype=tl.float64)
        h = tl.full((1, 1, 1), start, dtype=tl.float64, requires_grad=True)
        return tl.autograd.grad(rnn(x, h)[1].sum(), h)[0].item()

    return gradient


heading("Gradient over a span, by autograd")
at_one = scalar(2.0, 1 - 2 * math.tanh(1))
rows = [(n, 0.84**n, scalar(0.84)(n), at_one(n, math.tanh(1)), scalar(1.2)(n)) for n in (10, 25, 50, 100)]
table(["span", "0.84^span", "W = 0.84 at 0", "W = 2 at z = 1", "W = 1.2 at 0"], rows)
print("tanh' is 1 at 0 and", round(1 - math.tanh(1) ** 2, 4), "at 1")

heading("Beside a gradient of 1e-2 in float32")
large, small = tl.tensor(0.01), tl.tensor(2.7e-8)
print("the sum changes:", (large + small).item() != large.item(), "by", (large + small - large).item())

heading("Gradient by distance in a random RNN of 32 units, 60 steps")
tl.manual_seed(0)
rnn, x = nn.RNN(8, 32), tl.randn(60, 4, 8)
states, _ = rnn(x)
x = x.detach().requires_grad_(True)
(g,) = tl.autograd.grad(rnn(x)[0][-1].square().sum(), x)
table(["steps back", "norm"], [(n, g[59 - n].norm().item()) for n in (0, 5, 10, 20, 40, 59)])

heading("Clipping by the global norm")
p = nn.Parameter(tl.zeros(2))
for gradient in ([3.0, 4.0], [0.3, 0.4], [0.0, 0.0]):
    p.grad = tl.tensor(gradient)
    norm = nn.utils.clip_grad_norm_([p], 1.0)
    print(gradient, "of norm", round(norm.item(), 4), "becomes", [round(v, 4) for v in p.grad.tolist()])

model(rnn, tl.zeros(60, 4, 8), path=folder() / "a05_rnn.svg", ops=True)
