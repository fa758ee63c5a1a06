"""Muon."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tinygrad_lite.functional import addmm
from tinygrad_lite.optim.optimizer import Group, Optimizer, check_range
from tinygrad_lite.tensor import Tensor

_ADJUSTMENTS = (None, "original", "match_rms_adamw")


class Muon(Optimizer):
    """Momentum whose step is made nearly orthogonal, for matrices: p = (1 - lr * weight_decay) * p - lr * c * O.

    O has the singular vectors of the momentum, and singular values near 1: ns_steps of the quintic Newton-Schulz
    iteration with ns_coefficients, in bfloat16. c adjusts the rate to the shape (A, B): sqrt(max(1, A / B)), or
    0.2 * sqrt(max(A, B)) for "match_rms_adamw". Jordan et al. 2024; Liu et al. 2025, arXiv:2502.16982.

    Raises:
        ValueError: a parameter that is no matrix; a negative lr, momentum or weight_decay; an unknown adjust_lr_fn;
            100 ns_steps or more; not three ns_coefficients.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def _validate(self, group: Group) -> None:
        for name in ("lr", "weight_decay", "momentum"):
            check_range(name, group[name])
        if group["adjust_lr_fn"] not in _ADJUSTMENTS:
            raise ValueError(f"adjust_lr_fn must be one of {_ADJUSTMENTS}, not {group['adjust_lr_fn']!r}")
        check_range("ns_steps", group["ns_steps"], high=100)
        if len(group["ns_coefficients"]) != 3:
            raise ValueError(f"ns_coefficients must be three numbers, not {group['ns_coefficients']}")
        for p in group["params"]:
            if p.dim() != 2:
                raise ValueError(f"Muon optimises matrices, not parameters of shape {tuple(p.shape)}")

    def _step_group(self, index: int, group: Group, params: list[Tensor]) -> None:
        def kind() -> tuple[Any, ...]:
            return group["nesterov"], tuple(group["ns_coefficients"]), group["ns_steps"], group["adjust_lr_fn"]

        nesterov, coefficients, times, adjustment = self._static(index, "kind", kind)
        rate, momentum, eps = (self._hyper(index, name) for name in ("lr", "momentum", "eps"))
        rest = self._hyper(index, "1 - momentum", lambda: 1 - group["momentum"])
        kept = self._hyper(index, "1 - lr * weight_decay", lambda: 1 - float(group["lr"]) * group["weight_decay"])
        for p in params:
            buffer = self._buffer(p, "momentum_buffer")
            buffer.copy_(buffer + rest * (p.grad - buffer))
            update = p.grad + momentum * (buffer - p.grad) if nesterov else buffer
            step = orthogonalised(update, coefficients, times, eps).to(p.dtype)
            p.copy_(kept * p - rate * _adjusted(adjustment, *p.shape) * step)


def _adjusted(adjustment: str | None, rows: int, columns: int) -> float:
    if adjustment == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns))


def orthogonalised(x: Tensor, coefficients: tuple[float, float, float], times: int, eps: Any) -> Tensor:
    """x with singular values near 1, in bfloat16: (a + b XXᵀ + c (XXᵀ)²) X again and again, from x over its norm."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    made = (x.t() if tall else x).bfloat16()
    made = made / made.norm().clamp(min=eps)
    for _ in range(times):
        gram = made @ made.t()
        made = addmm(made, addmm(gram, gram, gram, beta=b, alpha=c), made, beta=a)
    return made.t() if tall else made
