import torch
import torch.nn as nn


class CharLSTM(nn.Module):
    def __init__(self, n_chars, n_hidden=24, n_layers=2, drop_prob=0.0):
        super().__init__()
        self.n_layers = n_layers
        self.n_hidden = n_hidden
        self.embed = nn.Embedding(n_chars, 12)
        self.lstm = nn.LSTM(12, n_hidden, n_layers, dropout=drop_prob, batch_first=True)
        self.dropout = nn.Dropout(drop_prob)
        self.fc = nn.Linear(n_hidden, n_chars)

    def forward(self, x, hidden):
        r_output, hidden = self.lstm(self.embed(x), hidden)
        out = self.dropout(r_output)
        out = out.contiguous().view(-1, self.n_hidden)
        return self.fc(out), hidden

    def init_hidden(self, batch_size):
        weight = next(self.parameters()).data
        return (
            weight.new(self.n_layers, batch_size, self.n_hidden).zero_(),
            weight.new(self.n_layers, batch_size, self.n_hidden).zero_(),
        )


def make():
    return CharLSTM(11)


def inputs(rng):
    return rng.integers(0, 11, (3, 7)), rng.integers(0, 11, (3, 7))


criterion = nn.CrossEntropyLoss()


def loss_fn(model, x, y):
    h = tuple([each.data for each in model.init_hidden(x.size(0))])
    output, h = model(x, h)
    return criterion(output, y.view(x.size(0) * x.size(1)).long())


