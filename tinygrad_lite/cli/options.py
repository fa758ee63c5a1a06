"""The options of `tinygrad-lite train`, apart from the modules that load the compiler."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tinygrad_lite.errors import UserError

SHAPE = ("block", "layers", "heads", "width")  # what a checkpoint's parameters fix


@dataclass(frozen=True)
class TrainOptions:
    """What a run is made of. The rates were chosen for 2,000 steps of the default sizes."""

    text: str | None = None
    steps: int = 2000
    batch: int = 12
    block: int = 64
    layers: int = 4
    heads: int = 4
    width: int = 128
    dropout: float = 0.0
    lr: float = 3e-3
    min_lr: float = 1e-4
    warmup: int = 100
    weight_decay: float = 0.1
    clip: float = 1.0
    seed: int = 1337
    eval_every: int = 250
    eval_batches: int = 20

    def check(self) -> None:
        """UserError where an option is out of range or two contradict each other."""
        for name in ("lr", "min_lr", "weight_decay", "clip", "dropout"):
            if not 0 <= getattr(self, name) < math.inf:  # a NaN too
                raise UserError(f"--{name.replace('_', '-')} {getattr(self, name)} is not a finite number from 0 up")
        if self.dropout >= 1:
            raise UserError(f"--dropout {self.dropout:g} leaves nothing: it lies in [0, 1)")
        if self.width % self.heads:
            raise UserError(f"--heads {self.heads} does not divide --width {self.width}")
        if self.min_lr > self.lr:
            raise UserError(f"--min-lr {self.min_lr:g} is above --lr {self.lr:g}")

    def learning_rate(self, step: int) -> float:
        """Linear over `warmup` steps, then half a cosine from `lr` down to `min_lr`."""
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        part = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return self.min_lr + 0.5 * (self.lr - self.min_lr) * (1 + math.cos(math.pi * part))

    def model_config(self, vocabulary: int) -> dict[str, Any]:
        """The fields of the GPTConfig."""
        return {
            "vocab_size": vocabulary,
            "block_size": self.block,
            "n_layer": self.layers,
            "n_head": self.heads,
            "n_embd": self.width,
            "dropout": self.dropout,
        }
