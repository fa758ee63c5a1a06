"""Perceptrons, the fold network that doubles its pieces a layer, and deep stacks with and without residuals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models.parts import check_probability
from tinygrad_lite.nn.feedforward import activation
from tinygrad_lite.tensor import Tensor

SCHEMES = {
    "default": None,
    "he": lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"),
    "xavier": nn.init.xavier_normal_,
    "lecun": nn.init.lecun_normal_,
    "orthogonal": nn.init.orthogonal_,
}


@dataclass(frozen=True)
class MLPConfig:
    """The sizes of a perceptron: inputs, hidden layers, outputs.

    Attributes:
        activation, final_activation: names of `nn.feedforward.ACTIVATIONS`; None is none.
        dropout: after each hidden activation.
        init: the weights' scheme, one of SCHEMES.

    Raises:
        ValueError: fewer than two sizes, one below 1, a dropout outside [0, 1), an unknown name.
    """

    sizes: tuple[int, ...] = (2, 16, 16, 2)
    activation: str = "relu"
    final_activation: str | None = None
    bias: bool = True
    dropout: float = 0.0
    init: str = "default"

    def __post_init__(self) -> None:
        if len(self.sizes) < 2 or min(self.sizes) < 1:
            raise ValueError(f"MLPConfig: sizes must be two or more, each at least 1, not {self.sizes}")
        check_probability(self, "dropout")
        for name in (self.activation, self.final_activation or "identity"):
            activation(name)
        if self.init not in SCHEMES:
            raise ValueError(f"MLPConfig: init must be one of {', '.join(SCHEMES)}, not {self.init!r}")


PRESETS = {
    "mlp-tiny": MLPConfig((2, 16, 16, 2)),
    "mlp-mnist": MLPConfig((784, 512, 512, 10)),
}


class MLP(nn.Module):
    """Linear layers with an activation between them. Shapes: (*, sizes[0]) to (*, sizes[-1])."""

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.config = config
        pairs = zip(config.sizes[:-1], config.sizes[1:], strict=True)
        self.layers = nn.ModuleList([nn.Linear(a, b, bias=config.bias) for a, b in pairs])
        self.drop = nn.Dropout(config.dropout)
        scheme = SCHEMES[config.init]
        if scheme is not None:
            nn.init.apply_(self, scheme)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = self.drop(activation(self.config.activation)(layer(x)))
        x = self.layers[-1](x)
        return x if self.config.final_activation is None else activation(self.config.final_activation)(x)


def fold_network(folds: int) -> MLP:
    """|2x - 1| applied `folds` times, as a ReLU network two units wide: 2^folds pieces on [0, 1].

    Telgarsky 2016, arXiv:1602.04485. Shapes: (*, 1) to (*, 1).
    """
    if folds < 1:
        raise ValueError(f"fold_network: folds must be at least 1, not {folds}")
    net = MLP(MLPConfig((1, *(2,) * folds, 1)))
    with tl.no_grad():
        for i, layer in enumerate(net.layers):
            last = i == folds
            rows = [[1.0]] if last else [[2.0], [-2.0]]
            layer.weight.copy_(tl.tensor([row * (1 if i == 0 else 2) for row in rows]))
            layer.bias.copy_(tl.tensor([0.0] if last else [-1.0, 1.0]))
    return net


def shallow_network(units: int) -> MLP:
    """One hidden layer of `units` kinks spread over (0, 1): units + 1 pieces. Shapes: (*, 1) to (*, 1)."""
    net = MLP(MLPConfig((1, units, 1)))
    with tl.no_grad():
        hidden, out = net.layers
        hidden.weight.copy_(tl.ones(units, 1))
        hidden.bias.copy_(-(tl.arange(units) + 1.0) / (units + 1))
        out.weight.copy_(1.0 - 2.0 * (tl.arange(units) % 2).reshape(1, units))  # alternating: every kink shows
        out.bias.copy_(tl.zeros(1))
    return net


class Stack(nn.Module):
    """`depth` layers of one width, each x = φ(W x + b), or x + φ(W x + b) with `residual`. Shapes: (*, width)."""

    def __init__(self, depth: int, width: int, residual: bool = False, activation: str = "relu") -> None:
        super().__init__()
        self.residual, self.activation = residual, activation
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            y = activation(self.activation)(layer(x))
            x = x + y if self.residual else y
        return x


def plain_stack(depth: int, width: int, activation: str = "relu") -> Stack:
    """A Stack without residuals."""
    return Stack(depth, width, False, activation)


def residual_stack(depth: int, width: int, activation: str = "relu") -> Stack:
    """A Stack with residuals."""
    return Stack(depth, width, True, activation)


def preset(name: str, **overrides: Any) -> MLP:
    """The MLP of a preset's name, some fields of its configuration replaced."""
    return MLP(replace(PRESETS[name], **overrides))
