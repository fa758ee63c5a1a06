"""Adam, and the step it shares with AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinygrad_lite.optim.moments import Moments
from tinygrad_lite.optim.optimizer import Group, check_flags
from tinygrad_lite.tensor import Tensor, maximum


class Adam(Moments):
    """p -= lr * m / (1 - β1^t) / (sqrt(v / (1 - β2^t)) + eps), m and v running means of g and g². Kingma & Ba 2014.

    `weight_decay` adds weight_decay * p to the gradient, or shrinks p itself with `decoupled_weight_decay` (AdamW).
    `amsgrad` divides by the largest v so far (Reddi et al. 2018). `foreach`, `fused` and `capturable` are accepted for
    torch's sake; they change nothing.

    Raises:
        ValueError: a negative lr, eps or weight_decay; betas outside [0, 1).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_flags(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "foreach": foreach,
            "maximize": maximize,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _step_group(self, index: int, group: Group, params: list[Tensor]) -> None:
        amsgrad = self._static(index, "amsgrad", lambda: group["amsgrad"])
        take = self._hyper(index, "1 - beta1", lambda: 1 - group["betas"][0])
        beta2 = self._hyper(index, "beta2", lambda: group["betas"][1])
        rest2 = self._hyper(index, "1 - beta2", lambda: 1 - group["betas"][1])
        eps = self._hyper(index, "eps")
        gradient, shrunk = self._regularisers(index, group)
        for count, sharing in self._count_steps(params):
            rate, root = self._corrections(index, group, count)
            for p in sharing:
                grad = gradient(p)
                mean, square = self._buffer(p, "exp_avg"), self._buffer(p, "exp_avg_sq")
                mean.copy_(mean + take * (grad - mean))
                square.copy_(beta2 * square + rest2 * (grad * grad))
                spread = square
                if amsgrad:
                    spread = self._buffer(p, "max_exp_avg_sq")
                    spread.copy_(maximum(spread, square))
                p.copy_(shrunk(p) - rate * mean / (spread.sqrt() * root + eps))

    def _corrections(self, index: int, group: Group, count: Tensor) -> tuple[Tensor, Tensor]:
        """lr / (1 - β1^t) and 1 / sqrt(1 - β2^t)."""
        first, second = self._shares(index, group, count)
        return self._hyper(index, "lr") / first, 1 / second.sqrt()
