"""Averages of a model over its training: exponential (EMA), or equal (SWA), after torch.optim.swa_utils."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tinygrad_lite import creation, functional
from tinygrad_lite.autograd import no_grad
from tinygrad_lite.nn.module import Module
from tinygrad_lite.tensor import Tensor

Average = Callable[[Tensor, Tensor, Any], Tensor]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """average · decay + value · (1 - decay). Raises ValueError for a decay outside [0, 1]."""
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"decay must lie in [0, 1], not {decay}")
    return lambda average, value, count: average * decay + value * (1 - decay)


def get_swa_avg_fn() -> Average:
    """The equal average. Izmailov et al. 2018, arXiv:1803.05407."""
    return lambda average, value, count: average + (value - average) / (count + 1)


class AveragedModel(Module):
    """A copy of a model that `update_parameters` moves towards it; called, it runs the copy.

    Updates are tensor expressions and may be part of a compiled step. The first takes the model's values as they are.

    Args:
        avg_fn: (average, value, updates so far) → average; the equal average by default.
        use_buffers: average floating-point buffers too; others, and without it all, are copied.
    """

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None, use_buffers: bool = False
    ) -> None:
        super().__init__()
        self.module = copy.deepcopy(model)
        self.module.requires_grad_(False)
        self.register_buffer("n_averaged", creation.tensor(0.0))
        self.avg_fn = get_swa_avg_fn() if avg_fn is None else avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the model's present values into the average."""
        with no_grad():
            count = self.n_averaged
            pairs = list(zip(self.module.parameters(), model.parameters(), strict=True))
            buffers = list(zip(self.module.buffers(), model.buffers(), strict=True))
            if self.use_buffers:
                pairs += [(a, b) for a, b in buffers if a.is_floating_point()]
            for average, value in pairs:
                taken = self.avg_fn(average, value.detach(), count)
                average.copy_(functional.where(count == 0, value.detach(), taken))
            for average, value in buffers:
                if not self.use_buffers or not average.is_floating_point():
                    average.copy_(value)
            count.copy_(count + 1)


class EMA(AveragedModel):
    """The exponential average of a model's parameters."""

    def __init__(self, model: Module, decay: float = 0.999, use_buffers: bool = False) -> None:
        super().__init__(model, avg_fn=get_ema_avg_fn(decay), use_buffers=use_buffers)
        self.decay = decay
