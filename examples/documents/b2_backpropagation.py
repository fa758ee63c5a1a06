"""B §2: backpropagation by hand, and what it keeps."""

from diagrams import save, tape
from show import folder, heading, table

import tinygrad_lite as tl
from tinygrad_lite import nn, optim
from tinygrad_lite.models import arithmetic as ar

w1, w2 = (nn.Parameter(tl.tensor(v, dtype=tl.float64)) for v in (0.5, -1.5))
x, y = (tl.tensor(v, dtype=tl.float64) for v in (2.0, 1.0))


def forward():
    z1 = w1 * x
    a1 = z1.tanh()
    out = w2 * a1
    return z1, a1, out, 0.5 * (out - y) ** 2


heading("Forward, backward, one step of 0.1, forward")
z1, a1, out, loss = forward()
table(["z1", "a1", "ŷ", "L"], [(z1, a1, out, loss)])
table(
    ["dL/dŷ", "dL/dw2", "dL/da1", "dL/dz1", "dL/dw1"],
    [tl.autograd.grad(loss, [out, w2, a1, z1, w1], retain_graph=True)],
)
print("(printed as 1.3497 and 2.6994 in the document, from a rounded tanh²)")
optimizer = optim.SGD([w1, w2], lr=0.1)
loss.backward()
optimizer.step()
table(["w1", "w2", "z1", "a1", "ŷ", "L"], [(w1, w2, *forward())])

heading("Work: one derivative at a time, or all in one pass backward")
rows = []
for depth in (2, 4, 8):
    layers, given = nn.Sequential(*[nn.Linear(8, 8, bias=False) for _ in range(depth)]), tl.randn(4, 8)

    def step(x, layers=layers):
        x = x.detach().requires_grad_(True)
        return tl.autograd.grad(layers(x).square().sum(), [x, *layers.parameters()])

    once = ar.graph_flops(tl.trace(lambda x, layers=layers: layers(x), given))
    both = ar.graph_flops(tl.trace(step, given, train=True))
    parameters = sum(p.numel() for p in layers.parameters())
    rows.append((parameters, once, (both - once) / once, parameters * once, both))
table(["parameters", "forward FLOPs", "backward over forward", "by differences", "by one pass"], rows)

heading("Checkpoints: layers alive of 64 in segments of 8, and the work")
cost = ar.checkpoint_cost(64)
table(["segments", "alive", "all", "work"], [(cost["segments"], cost["alive"], 64, cost["ratio"])])

heading("Activations grow with each of B, T, d, L: bytes kept, scores apart")
shapes = ((8, 128, 256, 6), (16, 128, 256, 6), (8, 256, 256, 6))
rows = [(*s, *ar.transformer_activation_bytes(*s, heads=8, fused=False)) for s in shapes]
table(["B", "T", "d", "L", "bytes", "scores"], rows)

save(tape(), folder() / "b2_tape.svg")
