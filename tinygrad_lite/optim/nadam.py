"""NAdam."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from tinygrad_lite.optim.moments import Moments
from tinygrad_lite.optim.optimizer import Group, check_flags, check_range
from tinygrad_lite.tensor import Tensor, float64


class NAdam(Moments):
    """Adam with Nesterov's momentum: part of the step is along g itself. Dozat 2016.

    The momentum at step t is μ = β1 (1 - 0.96^(t momentum_decay) / 2), and M the product of all so far;
    p -= lr * ((1 - μ) / (1 - M) * g + μ' / (1 - M μ') * m) / (sqrt(v / (1 - β2^t)) + eps), μ' that of the next step.
    `weight_decay` as Adam's. `foreach` and `capturable` are accepted and change nothing.

    Raises:
        ValueError: a negative lr, eps, weight_decay or momentum_decay; betas outside [0, 1).
        RuntimeError: differentiable.
    """

    _numbers: ClassVar[tuple[str, ...]] = ("step", "mu_product")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
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
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _validate(self, group: Group) -> None:
        super()._validate(group)
        check_range("momentum_decay", group["momentum_decay"])

    def _step_group(self, index: int, group: Group, params: list[Tensor]) -> None:
        rate, eps = self._hyper(index, "lr"), self._hyper(index, "eps")
        take = self._hyper(index, "1 - beta1", lambda: 1 - group["betas"][0])
        beta2 = self._hyper(index, "beta2", lambda: group["betas"][1])
        rest2 = self._hyper(index, "1 - beta2", lambda: 1 - group["betas"][1])
        gradient, shrunk = self._regularisers(index, group)
        for count, sharing in self._count_steps(params):
            now, following = self._momenta(index, group, count.to(float64))
            root = 1 / self._shares(index, group, count)[1].sqrt()
            for p in sharing:
                grad = gradient(p)
                mean, square = self._buffer(p, "exp_avg"), self._buffer(p, "exp_avg_sq")
                product = self._buffer(p, "mu_product", 1.0)
                product.copy_(product * now)
                mean.copy_(mean + take * (grad - mean))
                square.copy_(beta2 * square + rest2 * (grad * grad))
                own = rate * (1 - now) / (1 - product.to(float64))
                ahead = rate * following / (1 - product.to(float64) * following)
                p.copy_(shrunk(p) - (own * grad + ahead * mean) / (square.sqrt() * root + eps))

    def _momenta(self, index: int, group: Group, step: Tensor) -> tuple[Tensor, Tensor]:
        """μ at this step and at the next, in float64."""
        beta1 = self._hyper(index, "beta1", lambda: group["betas"][0])
        log = self._hyper(index, "momentum_decay * log 0.96", lambda: group["momentum_decay"] * math.log(0.96))
        now, following = (beta1 * (1 - 0.5 * (t * log).exp()) for t in (step, step + 1))
        return now, following
