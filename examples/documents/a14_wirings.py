"""A §14: encoder, decoder, both."""

from diagrams import WIRINGS, model, save, wirings
from show import folder, heading, table, trained

import tinygrad_lite as tl
from tinygrad_lite.models import build
from tinygrad_lite.models.encoder import mask_tokens
from tinygrad_lite.models.generate import generate

heading("Three wirings")
table(
    ["wiring", "mask", "objective", "output"],
    [(n, *(r.replace("\n", " ") for r in rows)) for n, rows in WIRINGS.items()],
)

heading("Positions that train: masked against causal")
ids = tl.randint(1, 11, (100, 100))
targets = mask_tokens(ids, mask=11, vocab_size=12, keep=())[1]
share = float((targets != -100).mean())
print("masked", share, " causal 1.0  ratio", round(1 / 0.15, 3))

heading("Which inputs an output depends on (rows: outputs 0 to 3)")
tl.manual_seed(0)
for name in ("encoder-tiny", "gpt-tiny"):
    net = build(name).eval()
    ids = tl.randint(1, 11, (1, 4))
    rows = []
    for i in range(4):
        changed = []
        for j in range(4):
            other = ids.clone()
            other[0, j] = ids[0, j] % 10 + 1
            changed.append(int((net(other)[0][0, i] != net(ids)[0][0, i]).any().item()))
        rows.append(changed)
    print(f"{name:13}", rows)

heading("Decoder: a sentence by heart")
tl.manual_seed(0)
gpt, text = build("gpt-tiny"), tl.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]])
losses = trained(gpt, lambda x, y: gpt(x, y)[1], lambda _: (text[:, :-1], text[:, 1:].contiguous()), 150)
print(
    "loss", round(losses[0], 3), "to", round(losses[-1], 4), " continued:", generate(gpt, text[:, :4], 7, 0)[0].tolist()
)

heading("Encoder and decoder: writing a sequence backwards, the source read once")
tl.manual_seed(0)
t5 = build("t5-tiny")


def pairs(seed):
    source = tl.randint(2, 8, (32, 5), generator=tl.Generator().manual_seed(seed))
    return source, source.flip(1)


losses = trained(t5, lambda s, y: t5(s, t5.shifted(y), y)[1], pairs, 600)
source, target = pairs(10_000)
calls = []
t5.encoder.register_forward_hook(lambda *_: calls.append(1))
start = tl.full((32, 1), t5.config.start, dtype=tl.int64)
written = generate(t5, start, 5, 0, source=source)[:, 1:]
table(
    ["first loss", "last loss", "tokens right", "encoder calls"],
    [(losses[0], losses[-1], (written == target).float().mean(), len(calls))],
)

save(wirings(), folder() / "a14_wirings.svg")
model(
    build("t5-tiny").eval(), tl.ones(1, 4, dtype=tl.int64), tl.ones(1, 3, dtype=tl.int64), path=folder() / "a14_t5.svg"
)
