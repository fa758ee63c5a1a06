"""A §6: LSTM and GRU."""

import math

from diagrams import highways, save
from show import folder, heading, table, trained

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models import arithmetic as ar
from tinygrad_lite.nn import functional as F

heading("What is left of a gradient after 100 steps")
table(["forget gate", "bias for it", "left"], [(f, math.log(f / (1 - f)), f**100) for f in (0.99, 0.95, 0.5)])
table(
    ["bias", "gate", "10 steps", "100 steps"],
    [(b, *(tl.sigmoid(tl.tensor(b)).item() ** n for n in (1, 10, 100))) for b in (0.0, 1.0, 2.0)],
)
print("a bias of 1 or 2 helps over ten steps; over a hundred, only about 4.6 would")

heading("LSTM and GRU at d_in = d_h = 512")
kinds = (("RNN", "rnn", 1, 0, 1), ("LSTM", "lstm", 2, 3, 4), ("GRU", "gru", 1, 2, 3))
table(
    ["", "states", "gates", "matrices", "one bias", "two biases"],
    [(name, s, g, m, *(ar.recurrent_parameters(k, 512, 512, b) for b in (1, 2))) for name, k, s, g, m in kinds],
)

heading("Serving: bytes after n tokens")
state = ar.recurrent_state_bytes("lstm", 4096, 32, bytes_=2)
token = ar.kv_bytes_per_token(32, 32, 128)
table(["tokens", "LSTM", "KV cache"], [(n, state, n * token) for n in (1, 1000, 8192)])

heading("Recall: name the first of 40 symbols at the end (4 symbols, chance is a loss of 1.386)")


def batch(seed, length=40, n=32):
    generator = tl.Generator().manual_seed(seed)
    symbols = tl.randint(0, 4, (length, n), generator=generator)
    return F.one_hot(symbols, 4).float(), symbols[0]


class Recall(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.layer(x)[0][-1])


rows = []
for name, make in (("RNN", lambda: nn.RNN(4, 32)), ("LSTM, forget bias 4", lambda: nn.LSTM(4, 32, forget_bias=4.0))):
    tl.manual_seed(0)
    net = Recall(make())
    losses = trained(net, lambda x, y, net=net: F.cross_entropy(net(x), y), batch, 700)
    rows.append((name, losses[0], sum(losses[-20:]) / 20))
table(["layer", "first loss", "last losses"], rows)

save(highways(), folder() / "a06_highways.svg")
