"""A §3: weight sharing, and how far a unit sees."""

from diagrams import field_chain, model, save
from show import folder, heading, table, trained

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models import arithmetic as ar
from tinygrad_lite.models import build
from tinygrad_lite.nn import functional as F

heading("Price of a layer on a 224 × 224 image")
conv, dense = ar.conv_parameters(3, 64, 3), ar.linear_parameters(150_528, 1000)
work = ar.conv_flops(3, 64, 3, 224, 224) // 2, ar.linear_parameters(150_528, 1000, bias=False)
table(["layer", "parameters", "multiply-adds"], [("3×3, 3 to 64", conv, work[0]), ("dense to 1,000", dense, work[1])])
print("parameters", round(dense / conv, 2), "times fewer, work only", round(work[1] / work[0], 3))

heading("Shift the input, and the map shifts")
x, w = tl.tensor([[[0.0, 0, 1, 2, 3, 0, 0, 0]]]), tl.tensor([[[1.0, -1, 2]]])
table(["input", "map"], [(v.flatten(), F.conv1d(v, w).flatten()) for v in (x, x.roll(1, 2))])

heading("Receptive field r and jump j, layer by layer")
stack = [(3, 1), (3, 1), (2, 2)] * 3 + [(3, 1), (3, 1)]
fields = ar.receptive_field(stack)
table(
    ["layer", "kernel", "stride", "r", "j"],
    [(i, *layer, *field) for i, (layer, field) in enumerate(zip(stack, fields, strict=True), 1)],
)
print("stride 1 alone needs", ar.depth_for_receptive_field(224), "layers for 224 pixels")

heading("Dilations 1, 2, 4, 8; the stem of the document; ResNet's own")
for name, layers in (
    ("dilated", [(3, 1, d) for d in (1, 2, 4, 8)]), ("stem", [(7, 2), (3, 1), (3, 2)]), ("ResNet", [(7, 2), (3, 2)])
):  # fmt: skip
    print(f"{name:8}", ar.receptive_field(layers))

heading("A pattern anywhere in 24 pixels: accuracy on new places, from 64 examples")
pattern = tl.tensor([1.0, -1, 1, 1, -1])


def examples(seed, n=64):
    generator = tl.Generator().manual_seed(seed)
    y = tl.randint(0, 2, (n,), generator=generator)
    x = 0.5 * tl.randn(n, 1, 24, generator=generator)
    for i, (start, present) in enumerate(
        zip(tl.randint(0, 20, (n,), generator=generator).tolist(), y.tolist(), strict=True)
    ):
        x[i, 0, start : start + 5] += pattern * (2.0 if present else 0.0)
    return x, y


train, test = examples(0), examples(1, 256)
tl.manual_seed(0)
nets = {
    "dense": nn.Sequential(nn.Flatten(), nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 2)),
    "conv": nn.Sequential(nn.Conv1d(1, 8, 5), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(8, 2)),
}
rows = []
for name, net in nets.items():
    losses = trained(net, lambda x, y, net=net: F.cross_entropy(net(x), y), lambda _: train, 150)
    with tl.no_grad():
        accuracy = (net(test[0]).argmax(1) == test[1]).float().mean().item()
    rows.append((name, sum(p.numel() for p in net.parameters()), losses[-1], accuracy))
table(["net", "parameters", "training loss", "test accuracy"], rows)

save(field_chain(stack, fields), folder() / "a03_receptive_field.svg")
model(build("vgg-tiny").eval(), tl.zeros(1, 1, 8, 8), path=folder() / "a03_vgg.svg")
model(build("resnet-tiny").eval(), tl.zeros(1, 1, 8, 8), path=folder() / "a03_resnet.svg")
