"""Adam, and the step it shares with AdamW."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tinygrad_lite.optim.optimizer import Group, Optimizer, check_flags, check_range
from tinygrad_lite.tensor import Tensor, float64, maximum


class Adam(Optimizer):
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
        check_flags(foreach, fused)
        if differentiable:
            raise RuntimeError("differentiable optimizers are not supported")
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

    def _validate(self, group: Group) -> None:
        for name in ("lr", "eps", "weight_decay"):
            check_range(name, group[name])
        for i, beta in enumerate(group["betas"]):
            check_range(f"betas[{i}]", beta, high=1.0)

    def _step_group(self, index: int, group: Group, params: list[Tensor]) -> None:
        def uses() -> tuple[bool, bool, bool, bool]:
            return group["weight_decay"] != 0, group["decoupled_weight_decay"], group["amsgrad"], group["maximize"]

        decays, decoupled, amsgrad, maximize = self._static(index, "uses", uses)
        take = self._hyper(index, "1 - beta1", lambda: 1 - group["betas"][0])
        beta2 = self._hyper(index, "beta2", lambda: group["betas"][1])
        rest2 = self._hyper(index, "1 - beta2", lambda: 1 - group["betas"][1])
        eps = self._hyper(index, "eps")
        added = self._hyper(index, "weight_decay") if decays and not decoupled else None
        kept = self._hyper(index, "1 - lr * weight_decay", lambda: _kept(group)) if decays and decoupled else None
        for count, sharing in self._count_steps(params):
            rate, root = self._corrections(index, group, count)
            for p in sharing:
                grad = -p.grad if maximize else p.grad
                if added is not None:
                    grad = grad + added * p
                mean, square = self._buffer(p, "exp_avg"), self._buffer(p, "exp_avg_sq")
                mean.copy_(mean + take * (grad - mean))
                square.copy_(beta2 * square + rest2 * (grad * grad))
                spread = square
                if amsgrad:
                    spread = self._buffer(p, "max_exp_avg_sq")
                    spread.copy_(maximum(spread, square))
                shrunk = p if kept is None else kept * p
                p.copy_(shrunk - rate * mean / (spread.sqrt() * root + eps))

    def _corrections(self, index: int, group: Group, count: Tensor) -> tuple[Tensor, Tensor]:
        """lr / (1 - β1^t) and 1 / sqrt(1 - β2^t), computed in float64 alike in eager mode and in a capture.

        The power is exp(t log β): log β keeps its precision should the runtime round it, where β would not.
        """
        logs = [self._log_beta(index, group, i) for i in range(2)]
        step = count.to(float64)
        first, second = (1 - (step * log).exp() for log in logs)
        return self._hyper(index, "lr") / first, 1 / second.sqrt()

    def _log_beta(self, index: int, group: Group, i: int) -> Any:
        def read() -> float:
            return math.log(group["betas"][i]) if group["betas"][i] > 0 else -math.inf

        return self._hyper(index, f"log beta{i + 1}", read)


def _kept(group: Group) -> float:
    return 1 - float(group["lr"]) * float(group["weight_decay"])
