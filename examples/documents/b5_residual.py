"""B §5: residual connections, three views."""

from math import comb

from show import heading, table, trained

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.nn import functional as F

heading("1: the identity is easy. Fitting H(x) = x, mean squared error after 200 steps")
x = tl.randn(64, 8, generator=tl.Generator().manual_seed(0))
rows = []
for name in ("plain", "residual"):
    tl.manual_seed(0)
    branch = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    net = nn.Residual(branch, 8, "none") if name == "residual" else branch
    losses = trained(net, lambda x, n=net: F.mse_loss(n(x), x), lambda _: (x,), 200, lr=3e-3)
    rows.append((name, losses[0], losses[-1]))
table(["block", "first", "last"], rows)

heading("2: dy/dx - dF/dx is the identity")
branch = nn.Sequential(nn.Linear(3, 3), nn.Tanh()).double()
x = tl.randn(3, dtype=tl.float64, requires_grad=True)


def rows_of(y):
    return tl.stack([tl.autograd.grad(y[i], x, retain_graph=True)[0] for i in range(3)])


print((rows_of(x + branch(x)) - rows_of(branch(x))).tolist())

heading("3: an ensemble of 2^L paths, most gradient through short ones (|J| = 0.3, L = 12)")
share = [comb(12, n) * 0.3**n / 1.3**12 for n in range(13)]
table(["length", "paths", "share"], [(n, comb(12, n), share[n]) for n in range(0, 13, 2)])

heading("Leave one block of 20 out: relative change of the output")
rows, x = [], tl.randn(8, 16)
for name, gain, residual in (("plain", 1.0, False), ("residual", 0.1, True)):
    weights = [nn.init.orthogonal_(tl.empty(16, 16), gain) for _ in range(20)]

    def run(skip=None, weights=weights, residual=residual):
        h = x
        for i, w in enumerate(weights):
            if i != skip:
                h = h + (h @ w).tanh() if residual else (h @ w).tanh()
        return h

    rows.append((name, ((run(10) - run()).norm() / run().norm()).item()))
table(["stack", "change"], rows)
