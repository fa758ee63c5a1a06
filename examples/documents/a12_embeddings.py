"""A §12: embeddings."""

from show import heading, table

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.nn import functional as F

heading("A table of 128,000 rows of 4,096 in a 7B model")
table(
    ["", "parameters", "share"],
    [
        ("tied", 128_000 * 4096, 128_000 * 4096 / 6_967_263_232),
        ("untied", 2 * 128_000 * 4096, 2 * 128_000 * 4096 / 7_491_551_232),
    ],
)

heading("A gather is a product with one-hot rows")
tl.manual_seed(0)
table_, ids = nn.Embedding(10, 4), tl.tensor([3, 0, 3, 9])
print("equal to the bit:", bool((table_(ids) == F.one_hot(ids, 10).float() @ table_.weight).all().item()))

heading("Rows are updated as often as their tokens occur: movement after 200 draws")
optimizer = tl.optim.SGD(table_.parameters(), lr=0.1)
start, counts = table_.weight.detach().clone(), [0] * 10


@tl.compile
def step(id):
    loss = (table_(id) - 1.0).square().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


for token in (tl.rand(200) ** 4 * 10).long().tolist():
    counts[token] += 1
    step(tl.tensor([token]))
moved = (table_.weight.detach() - start).norm(dim=1)
table(["token", "occurrences", "moved"], [(i, counts[i], moved[i]) for i in range(10)])

heading("Adjacent ids are strangers at the start")
fresh = nn.Embedding(1000, 64).weight.detach()
print("mean cosine", F.cosine_similarity(fresh[:-1], fresh[1:]).mean().item())
