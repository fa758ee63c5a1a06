"""Adagrad."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinygrad_lite.optim.optimizer import Group, Optimizer, check_flags, check_range
from tinygrad_lite.tensor import Tensor, float64


class Adagrad(Optimizer):
    """p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps), s the sum of all g². Duchi, Hazan & Singer 2011.

    s starts at `initial_accumulator_value`, and is there before the first step. `foreach` and `fused` are accepted and
    change nothing.

    Raises:
        ValueError: a negative lr, lr_decay, weight_decay, initial_accumulator_value or eps.
        RuntimeError: differentiable.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_flags(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _validate(self, group: Group) -> None:
        for name in ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"):
            check_range(name, group[name])

    def add_param_group(self, param_group: Group) -> None:
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        self._start_counts([self.state[p] for p in group["params"]], 0.0)
        for p in group["params"]:
            self._buffer(p, "sum", group["initial_accumulator_value"])

    def _step_group(self, index: int, group: Group, params: list[Tensor]) -> None:
        rate, slowing, eps = (self._hyper(index, name) for name in ("lr", "lr_decay", "eps"))
        gradient, _ = self._regularisers(index, group)
        for count, sharing in self._count_steps(params):
            slowed = rate / (1 + (count.to(float64) - 1) * slowing)
            for p in sharing:
                grad, total = gradient(p), self._buffer(p, "sum", group["initial_accumulator_value"])
                total.copy_(total + grad * grad)
                p.copy_(p - slowed * grad / (total.sqrt() + eps))
