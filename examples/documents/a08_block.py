"""A §8: the transformer block, and the stream that runs through it."""

import math

from diagrams import block, save
from show import folder, heading, table, trained

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.nn import functional as F


class Stack(nn.Module):
    """Blocks of the library's layers between an embedding and a head."""

    def __init__(self, depth, norm="pre", gain=1.0, dim=16, vocab=8):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocab, dim), nn.Linear(dim, vocab, bias=False)
        branches = [f for _ in range(depth) for f in (nn.Attention(dim, 2, causal=True), nn.FeedForward(dim))]
        self.branches = nn.ModuleList([nn.Residual(f, dim, norm) for f in branches])
        self.norm = nn.LayerNorm(dim) if norm == "pre" else nn.Identity()
        for p in self.branches.parameters():
            if p.dim() > 1:
                nn.init.xavier_normal_(p, gain)

    def forward(self, ids):
        x = self.embed(ids)
        for branch in self.branches:
            x = branch(x)
        return self.head(self.norm(x))


heading("Weights of a block of width 48")
layer = nn.Attention(48, 4), nn.FeedForward(48, bias=False), nn.SwiGLU(48, 128)
table(
    ["part", "weights", "of d²"],
    [(type(f).__name__, n := sum(p.numel() for p in f.parameters()), n / 48**2) for f in layer],
)

heading("Variance of a stream after L blocks, two additions of unit variance each")
rows = []
for depth in (4, 12, 32):
    tl.manual_seed(0)
    plain = scaled = tl.randn(256, 256)
    for _ in range(2 * depth):
        plain = plain + tl.randn(256, 256)
        scaled = scaled + tl.randn(256, 256) / math.sqrt(2 * depth)
    final = F.layer_norm(plain, (256,))
    rows.append((depth, 1 + 2 * depth, plain.var(), math.sqrt(1 + 2 * depth), plain.std(), scaled.var(), final.std()))
table(["L", "1 + 2L", "measured", "sd", "measured", "branches ÷ √2L", "after final norm"], rows)
print("one addition a block would give √33 =", round(math.sqrt(33), 2))

heading("Gradient at the first block over that at the last, at initialisation, 24 blocks")
rows, ids = [], tl.randint(0, 8, (4, 12))
for norm in ("pre", "post"):
    tl.manual_seed(1)
    stack = Stack(24, norm)
    F.cross_entropy(stack(ids).flatten(0, 1), ids.flatten()).backward()
    first, last = (stack.branches[i].branch.up_proj.weight.grad.norm().item() for i in (1, -1))
    rows.append((norm, first, last, first / last))
table(["norm", "first", "last", "ratio"], rows)

heading("Who mixes positions: entries of d out_i / d x_j that are not zero, i ≠ j")
for name, part in (("attention", nn.Attention(8, 2)), ("feed-forward", nn.FeedForward(8))):
    x = tl.randn(1, 4, 8, requires_grad=True)
    (g,) = tl.autograd.grad(part(x)[0, 0].sum(), x)
    print(f"{name:13}", [bool((g[0, j] != 0).any().item()) for j in (1, 2, 3)])

heading("Training 12 blocks to copy the token before, without warm-up at lr 3e-3")
rows = []
for norm in ("pre", "post"):
    tl.manual_seed(2)
    stack = Stack(12, norm, gain=1.5)

    def loss(ids, stack=stack):
        return F.cross_entropy(stack(ids)[:, 1:].flatten(0, 1), ids[:, :-1].flatten())

    def batch(i):
        return (tl.randint(0, 8, (16, 12), generator=tl.Generator().manual_seed(i)),)

    losses = trained(stack, loss, batch, 120, lr=3e-3)
    rows.append((norm, losses[0], sum(losses[-10:]) / 10))
table(["norm", "first loss", "last losses"], rows)

save(block("pre"), folder() / "a08_block.svg")
