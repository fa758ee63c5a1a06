"""B §7: regularisation."""

from show import heading, table

import tinygrad_lite as tl
from tinygrad_lite import nn, optim
from tinygrad_lite.nn import functional as F


def first_step(make, gradient):
    w = nn.Parameter(tl.tensor(1.0, dtype=tl.float64))
    (w * gradient).backward()
    make([w]).step()
    return w.item()


heading("One step from w = 1, lr = 0.1, decay 0.1: decoupled, or in the gradient")
rows = []
for gradient in (0.01, 10.0, 0.0):
    makers = (optim.AdamW, optim.Adam)
    rows.append((gradient, *(first_step(lambda p, m=m: m(p, lr=0.1, weight_decay=0.1), gradient) for m in makers)))
table(["gradient", "AdamW", "Adam + L2"], rows)

heading("Label smoothing, ε = 0.1, four classes: over all of them here, as in PyTorch")
logits = tl.tensor([[2.0, 0.0, -1.0, 0.5]])
target = tl.tensor([0])
table(["", "true class", "others", "loss"], [
    ("none", 1.0, 0.0, F.cross_entropy(logits, target)),
    ("over all", 0.925, 0.025, F.cross_entropy(logits, target, label_smoothing=0.1)),
    ("over the others", 0.9, 0.1 / 3, F.cross_entropy(logits, target, label_smoothing=0.1 / 3 * 4)),
])  # fmt: skip

heading("Early stopping: 24 noisy points, a wide net; the best epoch on held-out points is kept")
generator = tl.Generator().manual_seed(0)
x = tl.rand(64, 1, generator=generator) * 2 - 1
y = (3 * x).sin() + 0.4 * tl.randn(64, 1, generator=generator)
rows = []
for name, decay, drop in (("nothing", 0.0, 0.0), ("decay 0.1", 0.1, 0.0), ("dropout 0.2", 0.0, 0.2)):
    tl.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Dropout(drop), nn.Linear(64, 1))
    optimizer = optim.AdamW(net.parameters(), lr=1e-2, weight_decay=decay)

    @tl.compile
    def epoch(x, y, net=net, optimizer=optimizer):
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    best, when, patience, i = float("inf"), 0, 0, 0
    for i in range(300):
        net.train()
        loss = epoch(x[:24], y[:24])
        net.eval()
        with tl.no_grad():
            held_out = F.mse_loss(net(x[24:]), y[24:]).item()
        best, when = min((held_out, i), (best, when))
        if i - when >= 60:
            break
    rows.append((name, i + 1, loss, held_out, best, when))
table(["", "epochs", "training", "held out, last", "best", "at epoch"], rows)

heading("Clipping keeps the direction: norm 1.0 at most")
p = nn.Parameter(tl.zeros(2))
p.grad = tl.tensor([30.0, 40.0])
print("norm", nn.utils.clip_grad_norm_([p], 1.0).item(), "gradient", p.grad.tolist())
