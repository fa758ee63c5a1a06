"""A §4: downsampling, and getting the places back."""

from diagrams import model
from show import folder, heading, table, trained

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models import arithmetic as ar
from tinygrad_lite.models import build
from tinygrad_lite.nn import functional as F

heading("Three ways to halve 64 maps of 56 × 56")
ways = {
    "max pool": (nn.MaxPool2d(2), "the peak"),
    "mean pool": (nn.AvgPool2d(2), "the average"),
    "conv, stride 2": (nn.Conv2d(64, 64, 3, stride=2, padding=1, bias=False), "what it learns"),
}
x = tl.zeros(1, 64, 56, 56)
table(
    ["way", "keeps", "weights", "out"],
    [(n, keeps, sum(p.numel() for p in w.parameters()), tuple(w(x).shape)) for n, (w, keeps) in ways.items()],
)

heading("The peak may move inside its window")
windows = [[[9.0, 1], [0, 0]], [[0, 9.0], [1, 0]], [[0, 0], [1, 9.0]]]
rows = [(w, nn.MaxPool2d(2)(tl.tensor([[w]])), nn.AvgPool2d(2)(tl.tensor([[w]]))) for w in windows]
table(["window", "max", "mean"], rows)

heading("Heads on a 7 × 7 × 512 map, weights")
table(
    ["head", "weights"],
    [
        ("flatten, dense", ar.linear_parameters(25_088, 1000, False)),
        ("mean, dense", ar.linear_parameters(512, 1000, False)),
    ],
)

heading("A U-Net learns to mark squares, pixel by pixel")
tl.manual_seed(0)
y = tl.zeros(8, 8, 8, dtype=tl.int64)
for i in range(8):
    y[i, i % 4 + 1 : i % 4 + 4, 2:6] = 1
x = y.float().unsqueeze(1) + 0.2 * tl.randn(8, 1, 8, 8)
net = build("unet-tiny")
losses = trained(net, lambda x, y: F.cross_entropy(net(x), y), lambda _: (x, y), 60)
accuracy = (net.eval()(x).argmax(1) == y).float().mean().item()
table(["first loss", "last loss", "pixels right"], [(losses[0], losses[-1], accuracy)])

model(net, x[:1], path=folder() / "a04_unet.svg")
fpn = build("fpn-tiny").eval()
print("pyramid levels:", [tuple(level.shape) for level in fpn.predictions(tl.zeros(1, 1, 8, 8))])
model(fpn, tl.zeros(1, 1, 8, 8), path=folder() / "a04_fpn.svg")
