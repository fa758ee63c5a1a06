"""A §2: the dense layer, which assumes nothing."""

from show import heading, table

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models import arithmetic as ar

heading("Parameters")
pixels = 224 * 224 * 3
table(
    ["inputs", "outputs", "parameters"],
    [(i, o, ar.linear_parameters(i, o)) for i, o in ((3, 5), (512, 512), (pixels, 1000))],
)

heading("A shifted pattern meets other weights: columns with a gradient")
layer = nn.Linear(16, 4)
rows = []
for start in (2, 5):
    image = tl.zeros(16)
    image[start : start + 3] = tl.tensor([1.0, 2.0, 3.0])
    (grad,) = tl.autograd.grad(layer(image)[0], layer.weight)
    rows.append((f"{start} to {start + 2}", (grad != 0).any(0).nonzero().flatten().tolist()))
table(["pattern at pixels", "columns"], rows)

heading("On a table it is right: columns may stand in any order, with their weights")
x, order = tl.randn(4, 16), tl.randperm(16)
moved = nn.functional.linear(x[:, order], layer.weight[:, order], layer.bias)
print("largest difference", (moved - layer(x)).abs().max().item())
