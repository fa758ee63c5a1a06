"""A §10: residual connections."""

from math import prod

from show import heading, table, trained

import tinygrad_lite as tl
from tinygrad_lite import diagnostics, nn
from tinygrad_lite.models.mlp import plain_stack, residual_stack
from tinygrad_lite.nn import functional as F

heading("Gradient through 50 scalar blocks of slope J")


def gradient(slope, residual):
    x = start = tl.ones((), dtype=tl.float64).requires_grad_(True)
    for _ in range(50):
        x = x + slope * x if residual else slope * x
    return tl.autograd.grad(x, start)[0].item()


table(["J", "plain", "residual"], [(j, gradient(j, False), gradient(j, True)) for j in (0.8, 0.01, 0.0, -0.8)])
print("1 is no floor: opposed blocks give 0.2^50; the bound is (1 - max |J|)^L")

heading("Paths")
blocks = (0.5, -2.0, 3.0)
paths = diagnostics.path_products(blocks)
table(["through", "product"], [(path or "none", j.item()) for path, j in paths.items()])
print(
    len(paths), "paths of three blocks sum to", sum(j.item() for j in paths.values()), "=", prod(1 + j for j in blocks)
)
table(["blocks", "paths", "without one"], [(n, 2**n, 2 ** (n - 1)) for n in (3, 50)])
shares = diagnostics.path_shares(50, 0.1)
table(["length", "share of the gradient at |J| = 0.1"], [(n, shares[n]) for n in (0, 2, 4, 6, 8, 12, 20)])

heading("A stack contains the shorter one: blocks of zero change nothing")
deep, x = residual_stack(50, 16), tl.randn(4, 16)
for p in [p for layer in list(deep.layers)[25:] for p in layer.parameters()]:
    nn.init.zeros_(p)
half = residual_stack(25, 16)
half.load_state_dict({k: v for k, v in deep.state_dict().items() if int(k.split(".")[1]) < 25})
print("equal to the bit:", bool((deep(x) == half(x)).all().item()))

heading("Degradation: training loss after 150 steps, rings in the plane")
tl.manual_seed(0)
angle, ring = 6.2832 * tl.rand(128), tl.randint(0, 2, (128,))
points = tl.stack([angle.cos(), angle.sin()], 1) * (ring + 1).float().unsqueeze(1) + 0.1 * tl.randn(128, 2)
rows = []
for depth in (4, 24):
    found = []
    for make in (plain_stack, residual_stack):
        tl.manual_seed(1)
        net = nn.Sequential(nn.Linear(2, 16), make(depth, 16), nn.LayerNorm(16), nn.Linear(16, 2))
        found.append(
            trained(net, lambda x, y, n=net: F.cross_entropy(n(x), y), lambda _: (points, ring), 150, lr=3e-3)[-1]
        )
    rows.append((depth, *found))
table(["layers", "plain", "residual"], rows)
