"""B §8: the three exercises, solved by the library."""

import math

from diagrams import save, tape
from show import folder, heading, table

import tinygrad_lite as tl
from tinygrad_lite.nn import functional as F

heading("1: backpropagation with x = 1.5, w1 = 0.8, w2 = -1, y = 0.5, one step of 0.1")
w1, w2 = (tl.tensor(v, dtype=tl.float64, requires_grad=True) for v in (0.8, -1.0))
rows = []
for _ in range(2):
    z1 = w1 * 1.5
    a1 = z1.tanh()
    out = w2 * a1
    loss = 0.5 * (out - 0.5) ** 2
    grads = tl.autograd.grad(loss, [out, w2, a1, z1, w1])
    rows.append((w1.item(), w2.item(), z1, a1, out, loss, *grads))
    w1, w2 = ((w - 0.1 * g).detach().requires_grad_(True) for w, g in ((w1, grads[4]), (w2, grads[1])))
table(["w1", "w2", "z1", "a1", "ŷ", "L", "dL/dŷ", "dL/dw2", "dL/da1", "dL/dz1", "dL/dw1"], rows)

heading("2: (3, -2, 1, 4) normalised")
x = tl.tensor([3.0, -2, 1, 4])
for name, y in (("LayerNorm", F.layer_norm(x, (4,), eps=0.0)), ("RMSNorm", F.rms_norm(x, (4,), eps=0.0))):
    print(f"{name:9}", [round(v, 6) for v in y.tolist()], "mean", round(y.mean().item(), 6))

heading("3: He and Xavier at n = m = 512 under ReLU")
table(
    ["scheme", "variance", "sd", "second moment after L layers"],
    [("He", 2 / 512, math.sqrt(2 / 512), "1"), ("Xavier", 1 / 512, math.sqrt(1 / 512), "2^-L")],
)

save(tape(1.5, 0.8, -1.0, 0.5), folder() / "b8_tape.svg")
