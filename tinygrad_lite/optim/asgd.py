"""Averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from tinygrad_lite.optim.optimizer import Group, Optimizer, check_flags, check_range
from tinygrad_lite.tensor import Tensor, float64, maximum


class ASGD(Optimizer):
    """p = (1 - lambd * η) * p - η * g, η = lr / (1 + lambd * lr * t)^alpha. Polyak & Juditsky 1992.

    `ax` in the state is the average of p since t0. `foreach` and `capturable` are accepted and change nothing.

    Raises:
        ValueError: a negative lr or weight_decay.
        RuntimeError: differentiable.
    """

    _numbers: ClassVar[tuple[str, ...]] = ("step", "eta", "mu")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_flags(foreach, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _validate(self, group: Group) -> None:
        for name in ("lr", "weight_decay"):
            check_range(name, group[name])

    def _step_group(self, index: int, group: Group, params: list[Tensor]) -> None:
        rate, lambd, alpha, start = (self._hyper(index, name) for name in ("lr", "lambd", "alpha", "t0"))
        gradient, _ = self._regularisers(index, group)
        for count, sharing in self._count_steps(params):
            step = count.to(float64)
            following = rate * (-alpha * (1 + lambd * rate * step).log()).exp()
            share = 1 / maximum(step - start, step * 0 + 1)
            for p in sharing:
                eta, mu = self._buffer(p, "eta", float(group["lr"])), self._buffer(p, "mu", 1.0)
                average = self._buffer(p, "ax")
                p.copy_((1 - lambd * eta) * p - eta * gradient(p))
                average.copy_(average + mu * (p - average))
                eta.copy_(following)
                mu.copy_(share)
