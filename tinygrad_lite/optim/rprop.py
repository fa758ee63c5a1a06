"""Rprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinygrad_lite.optim.optimizer import Group, Optimizer, check_flags, check_range
from tinygrad_lite.tensor import Tensor, where


class Rprop(Optimizer):
    """p -= sign(g) * s, s a step an element: times etas[1] where g keeps its sign, etas[0] where it turns, at first lr.

    Where the sign turns there is no step, and the next counts as a first. s stays within step_sizes. Riedmiller & Braun
    1993. For whole batches. `foreach` and `capturable` are accepted and change nothing.

    Raises:
        ValueError: a negative lr; etas not around 1.
        RuntimeError: differentiable.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_flags(foreach, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _validate(self, group: Group) -> None:
        check_range("lr", group["lr"])
        low, high = group["etas"]
        if not 0 < low < 1 < high:
            raise ValueError(f"etas must be one number in (0, 1) and one above 1, not {low} and {high}")

    def _step_group(self, index: int, group: Group, params: list[Tensor]) -> None:
        maximize = self._static(index, "uses", lambda: group["maximize"])
        shorter, longer = (self._hyper(index, f"etas[{i}]", lambda i=i: group["etas"][i]) for i in range(2))
        least, most = (self._hyper(index, f"step_sizes[{i}]", lambda i=i: group["step_sizes"][i]) for i in range(2))
        self._count_steps(params)
        for p in params:
            grad = -p.grad if maximize else p.grad
            before, size = self._buffer(p, "prev"), self._buffer(p, "step_size", float(group["lr"]))
            agreement = grad * before
            changed = where(agreement > 0, size * longer, where(agreement < 0, size * shorter, size))
            size.copy_(changed.clamp(least, most))
            kept = where(agreement < 0, 0.0, grad)
            p.copy_(p - kept.sign() * size)
            before.copy_(kept)
