"""A character model over an RNN, LSTM or GRU, with a state of fixed size a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tinygrad_lite import nn
from tinygrad_lite.models.parts import check_probability, check_sizes, next_token_loss
from tinygrad_lite.tensor import Tensor

CELLS = ("rnn", "lstm", "gru")


@dataclass(frozen=True)
class CharRNNConfig:
    """The sizes of a character model.

    Attributes:
        cell: "rnn" (tanh), "lstm" or "gru".
        forget_bias: where an LSTM's forget bias starts; None as its other biases.
        one_bias: one bias a gate in place of PyTorch's two.

    Raises:
        ValueError: a size below 1, a dropout outside [0, 1), another cell, a tied output of another width.
    """

    vocab_size: int = 65
    embed: int = 64
    hidden: int = 128
    layers: int = 1
    cell: str = "lstm"
    dropout: float = 0.0
    forget_bias: float | None = 1.0
    one_bias: bool = False
    tied: bool = False

    def __post_init__(self) -> None:
        check_sizes(self, "vocab_size", "embed", "hidden", "layers")
        check_probability(self, "dropout")
        if self.cell not in CELLS:
            raise ValueError(f"CharRNNConfig: cell must be one of {', '.join(CELLS)}, not {self.cell!r}")
        if self.tied and self.embed != self.hidden:
            raise ValueError(f"CharRNNConfig: tied needs embed equal to hidden {self.hidden}, not {self.embed}")


PRESETS = {
    "charrnn-tiny": CharRNNConfig(11, 8, 12, cell="rnn"),
    "charlstm-tiny": CharRNNConfig(11, 8, 12),
    "chargru-tiny": CharRNNConfig(11, 8, 12, cell="gru"),
    "charlstm": CharRNNConfig(65, 128, 256, 2, dropout=0.1),
}


class CharRNN(nn.Module):
    """Embedding, recurrent layers, output layer."""

    def __init__(self, config: CharRNNConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.embed)
        kind = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}[config.cell]
        options: dict[str, Any] = {"one_bias": config.one_bias}
        if config.cell == "lstm":
            options["forget_bias"] = config.forget_bias
        between = config.dropout if config.layers > 1 else 0.0
        self.rnn = kind(config.embed, config.hidden, config.layers, batch_first=True, dropout=between, **options)
        self.drop = nn.Dropout(config.dropout)
        self.head = nn.Linear(config.hidden, config.vocab_size)
        if config.tied:
            self.head.weight = self.embed.weight

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Logits (B, T, vocab_size) of ids (B, T), and the mean cross-entropy where targets are given."""
        logits, _ = self.step(idx)
        return logits, next_token_loss(logits, targets)

    def step(self, idx: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Logits, and the state after the last id: h (layers, B, hidden), of an LSTM (h, c)."""
        out, state = self.rnn(self.drop(self.embed(idx)), state)
        return self.head(self.drop(out)), state

    def state_bytes(self) -> int:
        """What one stream keeps between steps, however long it is."""
        return (2 if self.config.cell == "lstm" else 1) * self.config.layers * self.config.hidden * 4


def preset(name: str, **overrides: Any) -> CharRNN:
    """The CharRNN of a preset's name, some fields of its configuration replaced."""
    return CharRNN(replace(PRESETS[name], **overrides))
