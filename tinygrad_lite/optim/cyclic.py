"""Schedules that go up and down again, the momentum the other way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_lite.optim.optimizer import Group, Optimizer
from tinygrad_lite.optim.schedule import Absolute


def _one_a_group(kind: str, name: str, value: float | Sequence[float], optimizer: Optimizer) -> list[float]:
    """A number for each parameter group, of one for all or of a list."""
    groups = len(optimizer.param_groups)
    each = [float(value)] * groups if isinstance(value, (int, float)) else [float(x) for x in value]
    if len(each) != groups:
        raise ValueError(f"{kind}: {len(each)} {name} for {groups} parameter groups")
    return each


def _give_momentum(group: Group, value: float, kind: str) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    elif "momentum" in group:
        group["momentum"] = value
    else:
        raise ValueError(f"{kind}: cycle_momentum needs an optimizer with momentum or betas")


class OneCycleLR(Absolute):
    """Up from max_lr / div_factor to max_lr, then down to that divided by final_div_factor, over total_steps.

    Smith & Topin 2018, arXiv:1708.07120. Momentum (betas[0], or SGD's) goes the other way between base_momentum and
    max_momentum where cycle_momentum is set. `three_phase` comes down to where it began before the last descent.

    Raises:
        ValueError: neither total_steps nor epochs and steps_per_epoch; a value out of range; a step too many.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
        self.total_steps = total_steps if total_steps is not None else int(epochs) * int(steps_per_epoch)  # type: ignore[arg-type]
        if self.total_steps <= 0:
            raise ValueError(f"OneCycleLR: total_steps must be positive, not {self.total_steps}")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must lie in [0, 1], not {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', not {anneal_strategy!r}")
        self.max_lrs = _one_a_group("OneCycleLR", "max_lr", max_lr, optimizer)
        self.anneal_strategy, self.cycle_momentum = anneal_strategy, cycle_momentum
        self.momenta = (max_momentum, base_momentum)
        self.div_factor, self.final_div_factor = div_factor, final_div_factor
        top = float(pct_start * self.total_steps) - 1
        middle = 2 * pct_start * self.total_steps - 2 if three_phase else None
        self.ends = [top, *([] if middle is None else [middle]), self.total_steps - 1]
        if last_epoch == -1:
            for group, peak in zip(optimizer.param_groups, self.max_lrs, strict=True):
                group["initial_lr"] = peak / div_factor
        super().__init__(optimizer, last_epoch)

    def _between(self, epoch: int, points: Sequence[float]) -> float:
        """The value at an epoch on the way through points[0], points[1], … at the ends of the phases."""
        start = 0.0
        for i, end in enumerate(self.ends):
            if epoch <= end or i == len(self.ends) - 1:
                done = (epoch - start) / (end - start) if end != start else 1.0
                if self.anneal_strategy == "cos":
                    done = (1 - math.cos(math.pi * done)) / 2
                return points[i] + (points[i + 1] - points[i]) * done
            start = end
        raise AssertionError

    def rate(self, epoch: int, base: float, index: int) -> float:
        if epoch > self.total_steps:
            raise ValueError(f"OneCycleLR: step {epoch} of a schedule of {self.total_steps} total steps")
        peak = self.max_lrs[index]
        back = [base] if len(self.ends) == 3 else []
        return self._between(epoch, [base, peak, *back, base / self.final_div_factor])

    def _set_momentum(self) -> None:
        if not self.cycle_momentum:
            return
        high, low = self.momenta
        value = self._between(self.last_epoch, [high, low, high, high])
        for group in self.optimizer.param_groups:
            _give_momentum(group, value, "OneCycleLR")


class CyclicLR(Absolute):
    """Up from base_lr to max_lr in step_size_up steps, down in step_size_down, again and again. Smith 2017.

    arXiv:1506.01186. The height is scaled: "triangular" not at all, "triangular2" halves it with each cycle,
    "exp_range" multiplies it by gamma with each step; `scale_fn` takes the cycle (from 1), or the step where scale_mode
    is "iterations". Momentum (betas[0], or SGD's) goes the other way between max_momentum and base_momentum where
    cycle_momentum is set. A `scale_fn` is not part of `state_dict`.

    Raises:
        ValueError: an unknown mode, a list that is not one value a group, cycle_momentum without a momentum.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(f"CyclicLR: mode must be 'triangular', 'triangular2' or 'exp_range', not {mode!r}")
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError(f"CyclicLR: scale_mode must be 'cycle' or 'iterations', not {scale_mode!r}")
        lows = _one_a_group("CyclicLR", "base_lr", base_lr, optimizer)
        self.max_lrs = _one_a_group("CyclicLR", "max_lr", max_lr, optimizer)
        self.base_momentums = _one_a_group("CyclicLR", "base_momentum", base_momentum, optimizer)
        self.max_momentums = _one_a_group("CyclicLR", "max_momentum", max_momentum, optimizer)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self.cycle_momentum = mode, gamma, cycle_momentum
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self._scale_fn = scale_fn
        if last_epoch == -1:
            for group, low in zip(optimizer.param_groups, lows, strict=True):
                group["initial_lr"] = low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x: float) -> float:
        """The factor of the height in cycle x, or at step x."""
        if self._scale_fn is not None:
            return self._scale_fn(x)
        return {"triangular": 1.0, "triangular2": 0.5 ** (x - 1), "exp_range": self.gamma**x}[self.mode]

    def _height(self, epoch: int) -> float:
        """How much of the way from the lowest value to the highest."""
        cycle = math.floor(1 + epoch / self.total_size)
        done = 1 + epoch / self.total_size - cycle
        slope = done / self.step_ratio if done <= self.step_ratio else (done - 1) / (self.step_ratio - 1)
        return slope * self.scale_fn(cycle if self.scale_mode == "cycle" else epoch)

    def rate(self, epoch: int, base: float, index: int) -> float:
        return base + (self.max_lrs[index] - base) * self._height(epoch)

    def _set_momentum(self) -> None:
        if not self.cycle_momentum:
            return
        height = self._height(self.last_epoch)
        momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
        for group, low, high in momenta:
            _give_momentum(group, high - (high - low) * height, "CyclicLR")

    def state_dict(self) -> dict[str, Any]:
        return {name: value for name, value in super().state_dict().items() if name != "_scale_fn"}
