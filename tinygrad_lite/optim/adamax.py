"""Adamax."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinygrad_lite.optim.moments import Moments
from tinygrad_lite.optim.optimizer import Group, check_flags
from tinygrad_lite.tensor import Tensor, maximum


class Adamax(Moments):
    """p -= lr / (1 - β1^t) * m / u, m the running mean of g, u = max(β2 * u, |g| + eps). Kingma & Ba 2014, section 7.

    `foreach` and `capturable` are accepted and change nothing.

    Raises:
        ValueError: a negative lr, eps or weight_decay; betas outside [0, 1).
        RuntimeError: differentiable.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_flags(foreach, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _step_group(self, index: int, group: Group, params: list[Tensor]) -> None:
        rate, eps = self._hyper(index, "lr"), self._hyper(index, "eps")
        take = self._hyper(index, "1 - beta1", lambda: 1 - group["betas"][0])
        beta2 = self._hyper(index, "beta2", lambda: group["betas"][1])
        gradient, _ = self._regularisers(index, group)
        for count, sharing in self._count_steps(params):
            unbiased = rate / self._shares(index, group, count)[0]
            for p in sharing:
                grad, mean, largest = gradient(p), self._buffer(p, "exp_avg"), self._buffer(p, "exp_inf")
                mean.copy_(mean + take * (grad - mean))
                largest.copy_(maximum(beta2 * largest, grad.abs() + eps))
                p.copy_(p - unbiased * mean / largest)
