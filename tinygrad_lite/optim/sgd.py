"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinygrad_lite.optim.optimizer import Group, Optimizer, check_flags, check_range
from tinygrad_lite.tensor import Tensor, float64


class SGD(Optimizer):
    """p -= lr * b, where b = momentum * b + (1 - dampening) * (g + weight_decay * p), at first without dampening.

    Sutskever et al. 2013 for Nesterov's variant, which steps along g + momentum * b.

    Raises:
        ValueError: a negative lr, momentum or weight_decay; nesterov without momentum or with dampening.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_flags(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _validate(self, group: Group) -> None:
        for name in ("lr", "momentum", "weight_decay"):
            check_range(name, group[name])
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("nesterov needs a momentum and no dampening")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for state in self.state.values():
            if state.get("momentum_buffer") is None:
                state.pop("momentum_buffer", None)

    def _step_group(self, index: int, group: Group, params: list[Tensor]) -> None:
        def uses() -> tuple[bool, bool, bool, bool, bool]:
            decays, has_momentum, damps = (group[n] != 0 for n in ("weight_decay", "momentum", "dampening"))
            return decays, has_momentum, damps, group["nesterov"], group["maximize"]

        decays, has_momentum, damps, nesterov, maximize = self._static(index, "uses", uses)
        decay = self._hyper(index, "weight_decay") if decays else 0.0
        rate = self._hyper(index, "lr")
        share = self._undamped(index, params) if has_momentum and damps else {}
        for p in params:
            grad = -p.grad if maximize else p.grad
            if decays:
                grad = grad + decay * p
            if has_momentum:
                momentum, buffer = self._hyper(index, "momentum"), self._buffer(p, "momentum_buffer")
                buffer.copy_(momentum * buffer + (share[id(p)] * grad if damps else grad))
                grad = grad + momentum * buffer if nesterov else buffer
            p.copy_(p - rate * grad)

    def _undamped(self, index: int, params: list[Tensor]) -> dict[int, Tensor]:
        """What a gradient's share in the momentum is, by parameter: 1 at its first step, then 1 - dampening."""
        old = [self.state[p] for p in params if "momentum_buffer" in self.state[p] and "step" not in self.state[p]]
        if old:
            self._start_counts(old, 1.0)
        damping = self._hyper(index, "dampening")
        shares = [(1 - damping * (count > 1).to(float64), group) for count, group in self._count_steps(params)]
        return {id(p): share.to(p.dtype) for share, group in shares for p in group}
