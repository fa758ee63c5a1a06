"""RAdam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinygrad_lite.optim.moments import Moments
from tinygrad_lite.optim.optimizer import Group, check_flags
from tinygrad_lite.tensor import Tensor, float64, where


class RAdam(Moments):
    """Adam that divides by sqrt(v) only when v has seen enough to be trusted. Liu et al. 2020, arXiv:1908.03265.

    ρ = ρ∞ - 2 t β2^t / (1 - β2^t), with ρ∞ = 2 / (1 - β2) - 1, is the length of v's memory: from 5 on Adam's step is
    taken times r = sqrt((ρ - 4) (ρ - 2) ρ∞ / ((ρ∞ - 4) (ρ∞ - 2) ρ)), before that p -= lr * m / (1 - β1^t).
    `weight_decay` as Adam's. `foreach` and `capturable` are accepted and change nothing.

    Raises:
        ValueError: a negative lr, eps or weight_decay; betas outside [0, 1).
        RuntimeError: differentiable.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_flags(foreach, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _step_group(self, index: int, group: Group, params: list[Tensor]) -> None:
        rate, eps = self._hyper(index, "lr"), self._hyper(index, "eps")
        take = self._hyper(index, "1 - beta1", lambda: 1 - group["betas"][0])
        beta2 = self._hyper(index, "beta2", lambda: group["betas"][1])
        rest2 = self._hyper(index, "1 - beta2", lambda: 1 - group["betas"][1])
        gradient, shrunk = self._regularisers(index, group)
        for count, sharing in self._count_steps(params):
            first, second = self._shares(index, group, count)
            adaptive, rectified = self._rectified(index, group, count.to(float64), second)
            scale = rate / first * where(adaptive, rectified, 1.0)
            for p in sharing:
                grad = gradient(p)
                mean, square = self._buffer(p, "exp_avg"), self._buffer(p, "exp_avg_sq")
                mean.copy_(mean + take * (grad - mean))
                square.copy_(beta2 * square + rest2 * (grad * grad))
                p.copy_(shrunk(p) - scale * mean / where(adaptive, square.sqrt() + eps, 1.0))

    def _rectified(self, index: int, group: Group, step: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """Whether ρ exceeds 5, and r sqrt(1 - β2^t) where it does; in float64, `share` being 1 - β2^t."""
        limit = self._hyper(index, "2 / (1 - beta2) - 1", lambda: 2 / (1 - group["betas"][1]) - 1)
        rho = limit - 2 * step * (1 - share) / share
        ratio = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)
        return rho > 5, (ratio * share).sqrt()
