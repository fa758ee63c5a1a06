"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinygrad_lite.optim.optimizer import Group, Optimizer, check_flags, check_range
from tinygrad_lite.tensor import Tensor


class RMSprop(Optimizer):
    """p -= lr * g / (sqrt(s) + eps), s the running mean of g². Tieleman & Hinton 2012, lecture 6.5.

    `centered` takes the square of g's running mean from s (Graves 2013, arXiv:1308.0850); with `momentum` the step is
    b = momentum * b + g / (sqrt(s) + eps). `foreach` and `capturable` are accepted and change nothing.

    Raises:
        ValueError: a negative lr, alpha, eps, weight_decay or momentum.
        RuntimeError: differentiable.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_flags(foreach, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _validate(self, group: Group) -> None:
        for name in ("lr", "alpha", "eps", "weight_decay", "momentum"):
            check_range(name, group[name])

    def _step_group(self, index: int, group: Group, params: list[Tensor]) -> None:
        def kind() -> tuple[bool, bool]:
            return bool(group["centered"]), group["momentum"] != 0

        centered, has_momentum = self._static(index, "kind", kind)
        rate, eps, alpha = (self._hyper(index, name) for name in ("lr", "eps", "alpha"))
        rest = self._hyper(index, "1 - alpha", lambda: 1 - group["alpha"])
        gradient, _ = self._regularisers(index, group)
        self._count_steps(params)
        for p in params:
            grad, square = gradient(p), self._buffer(p, "square_avg")
            square.copy_(alpha * square + rest * (grad * grad))
            spread = square
            if centered:
                mean = self._buffer(p, "grad_avg")
                mean.copy_(mean + rest * (grad - mean))
                spread = square - mean * mean
            change = grad / (spread.sqrt() + eps)
            if has_momentum:
                buffer = self._buffer(p, "momentum_buffer")
                buffer.copy_(self._hyper(index, "momentum") * buffer + change)
                change = buffer
            p.copy_(p - rate * change)
