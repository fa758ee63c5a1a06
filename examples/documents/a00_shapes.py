"""A §0: what goes in, what comes out."""

from diagrams import model
from show import folder, heading, table

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models import build

heading("Tensors")
examples = {"a number": tl.tensor(3.0), "a list": tl.zeros(512), "a batch of lists": tl.zeros(32, 512)}
table(["what", "shape"], [(what, tuple(x.shape)) for what, x in examples.items()])

heading("Contracts")
with nn.init.skip_random():
    classifier = build("resnet18", channels_last=True).eval()
scores = tl.trace(classifier, tl.zeros(2, 224, 224, 3)).outputs[0]  # shapes alone: nothing is computed
gpt = build("gpt-tiny").eval()
logits = gpt(tl.zeros(2, 6, dtype=tl.int64))[0]
table(
    ["model", "in", "out"],
    [("image classifier", (2, 224, 224, 3), scores.shape), ("language model", (2, 6), tuple(logits.shape))],
)

heading("Layers by shape, bet and failure")
x, sequence, ids = tl.zeros(1, 3, 8, 8), tl.zeros(1, 5, 16), tl.tensor([[1, 4, 2, 0, 3]])
layers = {
    "dense": (nn.Linear(16, 4), sequence, "nothing; every column keeps its meaning", "parameters, no sharing"),
    "convolution": (nn.Conv2d(3, 6, 3, padding=1), x, "local patterns, anywhere", "fixed window, shifts only"),
    "pooling": (nn.MaxPool2d(2), x, "the place inside a window is noise", "where is lost"),
    "RNN": (nn.RNN(16, 8, batch_first=True), sequence, "the past fits one vector", "gradient decays, sequential"),
    "LSTM": (nn.LSTM(16, 8, batch_first=True), sequence, "the past fits a gated state", "sequential"),
    "attention": (nn.Attention(16, 2), sequence, "read by content", "n² scores, blind to order"),
    "layer norm": (nn.LayerNorm(16), sequence, "a token's own scale is noise", "two reductions a token"),
    "dropout": (nn.Dropout(0.1), sequence, "examples repeat", "noise where none do"),
    "embedding": (nn.Embedding(10, 16), ids, "ids have no structure", "rare rows stay noise"),
}
rows = []
for name, (layer, given, bet, failure) in layers.items():
    out = layer(given)
    out = out[0] if isinstance(out, tuple) else out
    rows.append((name, tuple(given.shape), tuple(out.shape), bet, failure))
table(["layer", "in", "out", "bet", "fails by"], rows)

model(gpt, tl.zeros(1, 6, dtype=tl.int64), path=folder() / "a00_gpt.svg")
