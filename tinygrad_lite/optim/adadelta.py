"""Adadelta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinygrad_lite.optim.optimizer import Group, Optimizer, check_flags, check_range
from tinygrad_lite.tensor import Tensor


class Adadelta(Optimizer):
    """p -= lr * d, d = sqrt(u + eps) / sqrt(s + eps) * g; s and u running means of g² and d². Zeiler 2012.

    arXiv:1212.5701. `foreach` and `capturable` are accepted and change nothing.

    Raises:
        ValueError: a negative lr, eps or weight_decay; rho outside [0, 1].
        RuntimeError: differentiable.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_flags(foreach, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _validate(self, group: Group) -> None:
        for name in ("lr", "eps", "weight_decay"):
            check_range(name, group[name])
        if not 0 <= group["rho"] <= 1:
            raise ValueError(f"rho must lie in [0, 1], not {group['rho']}")

    def _step_group(self, index: int, group: Group, params: list[Tensor]) -> None:
        rate, rho, eps = (self._hyper(index, name) for name in ("lr", "rho", "eps"))
        rest = self._hyper(index, "1 - rho", lambda: 1 - group["rho"])
        gradient, _ = self._regularisers(index, group)
        self._count_steps(params)
        for p in params:
            grad, square, moved = gradient(p), self._buffer(p, "square_avg"), self._buffer(p, "acc_delta")
            square.copy_(rho * square + rest * (grad * grad))
            change = (moved + eps).sqrt() / (square + eps).sqrt() * grad
            moved.copy_(rho * moved + rest * (change * change))
            p.copy_(p - rate * change)
