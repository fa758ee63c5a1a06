"""B §1: the multilayer perceptron."""

import numpy as np
from diagrams import model
from show import folder, heading, table, trained

import tinygrad_lite as tl
from tinygrad_lite.models import arithmetic as ar
from tinygrad_lite.models.mlp import MLP, MLPConfig
from tinygrad_lite.nn import functional as F

heading("One wide layer fits any curve: least squares on random ReLU features of sin 2πx")
rng = np.random.default_rng(0)
x = np.linspace(0, 1, 200)
slopes, offsets, target = rng.choice([-4.0, 4.0], 256), rng.uniform(-4, 4, 256), np.sin(2 * np.pi * x)
rows = []
for width in (4, 16, 64, 256):
    features = F.relu(tl.tensor(x[:, None] * slopes[:width] + offsets[:width])).numpy()
    design = np.column_stack([features, x, np.ones_like(x)])
    fit = design @ np.linalg.lstsq(design, target, rcond=None)[0]
    rows.append((width, float(abs(fit - target).max())))
table(["units", "largest error"], rows)

heading("Trained instead: two moons, 2-16-16-2")
tl.manual_seed(0)
angle, moon = 3.1416 * tl.rand(100), tl.randint(0, 2, (100,))
points = tl.stack([angle.cos(), angle.sin()], 1) * (1 - 2 * moon).float().unsqueeze(1)
points = points + tl.tensor([1.0, 0.5]) * moon.float().unsqueeze(1) + 0.1 * tl.randn(100, 2)
net = MLP(MLPConfig((2, 16, 16, 2)))
losses = trained(net, lambda x, y: F.cross_entropy(net(x), y), lambda _: (points, moon), 200)
accuracy = (net(points).argmax(1) == moon).float().mean()
table(
    ["parameters", "first loss", "last loss", "accuracy"],
    [(ar.mlp_parameters((2, 16, 16, 2)), losses[0], losses[-1], accuracy)],
)

heading("Feed-forward share: of a block, and of the tied 7B model with its embeddings")
print(2 / 3, 32 * 8 * 4096**2 / 6_967_263_232)

heading("Depth or width: regions of a net of 64 units a layer on 8 inputs, lower bounds")
table(["layers", "regions"], [(n, f"{ar.region_bound(64, 8, n):.3g}") for n in (1, 2, 4, 8)])

model(net, tl.zeros(4, 2), path=folder() / "b1_mlp.svg")
