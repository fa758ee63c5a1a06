"""Learning-rate schedules, after torch.optim.lr_scheduler.

Every schedule here is a function of the epoch and the initial rate alone, so that `step()` sets what the formula says
whatever the rate was in between. Compiled steps re-read the rate at each call: a schedule costs no recompilation.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_lite.optim.cyclic import CyclicLR, OneCycleLR
from tinygrad_lite.optim.optimizer import Optimizer
from tinygrad_lite.optim.schedule import Absolute, LRScheduler, Stepwise

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "WarmupCosineLR",
]

Factor = Callable[[int], float]


def _functions(lr_lambda: Factor | Sequence[Factor], optimizer: Optimizer) -> list[Factor]:
    """One function for each parameter group, of one for all or of a list."""
    groups = len(optimizer.param_groups)
    functions = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
    if len(functions) != groups:
        raise ValueError(f"{len(functions)} functions for {groups} parameter groups")
    return functions


class LambdaLR(Absolute):
    """base · lr_lambda(epoch); one function, or one for each group. Functions are not part of `state_dict`."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1) -> None:
        self.lr_lambdas = _functions(lr_lambda, optimizer)
        super().__init__(optimizer, last_epoch)

    def rate(self, epoch: int, base: float, index: int) -> float:
        return base * self.lr_lambdas[index](epoch)

    def state_dict(self) -> dict[str, Any]:
        return {name: value for name, value in super().state_dict().items() if name != "lr_lambdas"}


class MultiplicativeLR(Stepwise):
    """base · lr_lambda(1) · … · lr_lambda(epoch); one function, or one for each group. They are not in `state_dict`."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1) -> None:
        self.lr_lambdas = _functions(lr_lambda, optimizer)
        super().__init__(optimizer, last_epoch)

    def advance(self, epoch: int, current: float, base: float, index: int) -> float:
        return current * self.lr_lambdas[index](epoch) if epoch > 0 else current

    def chained(self, epoch: int, current: float, base: float, index: int) -> float:
        return self.advance(epoch, current, base, index)

    def state_dict(self) -> dict[str, Any]:
        return {name: value for name, value in super().state_dict().items() if name != "lr_lambdas"}


class StepLR(LRScheduler):
    """base · gamma^(epoch // step_size)."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, epoch: int, base: float, index: int) -> float:
        return base * self.gamma ** (epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """base · gamma^(milestones reached)."""

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, epoch: int, base: float, index: int) -> float:
        return base * self.gamma ** bisect.bisect_right(self.milestones, epoch)


class ConstantLR(LRScheduler):
    """base · factor for the first total_iters epochs, then base."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"factor must lie in [0, 1], not {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, epoch: int, base: float, index: int) -> float:
        return base * self.factor if epoch < self.total_iters else base


class LinearLR(LRScheduler):
    """base · a factor that goes from start_factor to end_factor in total_iters epochs; a warm-up."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(f"start_factor must lie in (0, 1], not {start_factor}")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"end_factor must lie in [0, 1], not {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, epoch: int, base: float, index: int) -> float:
        done = min(epoch, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * done)


class ExponentialLR(LRScheduler):
    """base · gamma^epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, epoch: int, base: float, index: int) -> float:
        return base * self.gamma**epoch


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from base to eta_min in T_max epochs, then back. Loshchilov & Hutter 2017, arXiv:1608.03983."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, epoch: int, base: float, index: int) -> float:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * epoch / self.T_max)) / 2

    def chained(self, epoch: int, current: float, base: float, index: int) -> float:
        """Of what lies above eta_min the share that half a cosine leaves from one epoch to the next."""
        if epoch == 0:
            return current
        before, now = (1 + math.cos(math.pi * e / self.T_max) for e in (epoch - 1, epoch))
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # from the bottom, of which there is no share
            return current + (base - self.eta_min) * now / 2
        return self.eta_min + (current - self.eta_min) * now / before


class ChainedScheduler(Stepwise):
    """Several schedules at once: each changes the rate that the one before it left.

    Schedules multiply what they find by the ratio of their rates, cosine annealing what lies above eta_min; LambdaLR,
    the cyclic ones and those with restarts set their own rate, so that they come first. `step()` is this one's alone.

    Raises:
        ValueError: no schedules, schedules of different optimizers, or that stand at different epochs.
        TypeError: something else, such as a ReduceLROnPlateau.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler: schedulers must not be empty")
        for scheduler in schedulers:
            if not isinstance(scheduler, LRScheduler):
                raise TypeError(f"ChainedScheduler: a {type(scheduler).__name__} cannot be chained")
        optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        if any(s.optimizer is not optimizer for s in schedulers):
            raise ValueError("ChainedScheduler: all schedules must be of the same optimizer")
        epochs = [s.last_epoch for s in schedulers]
        if len(set(epochs)) > 1:
            raise ValueError(f"ChainedScheduler: schedules must stand at one epoch, not at {epochs}")
        self._schedulers = list(schedulers)
        super().__init__(optimizer, epochs[0] - 1)

    def advance(self, epoch: int, current: float, base: float, index: int) -> float:
        for scheduler in self._schedulers:
            current = scheduler.chained(epoch, current, base, index)
        return current

    def _set_momentum(self) -> None:
        for scheduler in self._schedulers:
            scheduler.last_epoch, scheduler._last_lr = self.last_epoch, self.get_last_lr()
            scheduler._set_momentum()

    def state_dict(self) -> dict[str, Any]:
        return _with_parts(super().state_dict(), self._schedulers)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(_load_parts(state_dict, self._schedulers))


class SequentialLR(Absolute):
    """One schedule after the other: schedulers[i] counts its epochs from milestones[i - 1].

    Raises:
        ValueError: not one milestone fewer than schedules, or schedules of different optimizers.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"{len(schedulers)} schedules and {len(milestones)} milestones: there must be one fewer")
        if any(s.optimizer is not optimizer for s in schedulers):
            raise ValueError("all schedules must be of the same optimizer")
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, last_epoch)

    def rate(self, epoch: int, base: float, index: int) -> float:
        current = bisect.bisect_right(self._milestones, epoch)
        start = self._milestones[current - 1] if current else 0
        return self._schedulers[current].rate(epoch - start, base, index)

    def state_dict(self) -> dict[str, Any]:
        return _with_parts(super().state_dict(), self._schedulers)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(_load_parts(state_dict, self._schedulers))


def _with_parts(own: dict[str, Any], schedulers: Sequence[LRScheduler]) -> dict[str, Any]:
    """A state dict in which the state of the schedules stands for them."""
    return {**own, "_schedulers": [s.state_dict() for s in schedulers]}


def _load_parts(state_dict: dict[str, Any], schedulers: Sequence[LRScheduler]) -> dict[str, Any]:
    """Give the schedules their state back; what is left of the dict."""
    for scheduler, state in zip(schedulers, state_dict["_schedulers"], strict=True):
        scheduler.load_state_dict(state)
    return {name: value for name, value in state_dict.items() if name != "_schedulers"}


class PolynomialLR(LRScheduler):
    """base · (1 - epoch / total_iters)^power, 0 from total_iters on."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def rate(self, epoch: int, base: float, index: int) -> float:
        return base * (1 - min(epoch, self.total_iters) / self.total_iters) ** self.power


class CosineAnnealingWarmRestarts(Absolute):
    """Half a cosine from base to eta_min, again and again: in T_0 epochs, then T_0 T_mult, … arXiv:1608.03983."""

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 < 1 or T_mult < 1:
            raise ValueError(f"CosineAnnealingWarmRestarts: T_0 and T_mult must be at least 1, not {T_0}, {T_mult}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, epoch: int, base: float, index: int) -> float:
        length = self.T_0
        while epoch >= length:
            epoch, length = epoch - length, length * self.T_mult
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * epoch / length)) / 2


class WarmupCosineLR(LRScheduler):
    """base · (epoch + 1) / warmup while that is below base, then half a cosine to base · floor at total_steps.

    What transformers train with (Radford et al. 2019; Brown et al. 2020): the first steps are small since Adam's
    moments are not settled yet. `decay=False` stays at base.

    Raises:
        ValueError: warmup below 0 or above total_steps, floor outside [0, 1].
    """

    def __init__(
        self,
        optimizer: Optimizer,
        warmup: int,
        total_steps: int,
        floor: float = 0.1,
        decay: bool = True,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= warmup <= total_steps:
            raise ValueError(f"WarmupCosineLR: warmup must lie in [0, total_steps = {total_steps}], not {warmup}")
        if not 0 <= floor <= 1:
            raise ValueError(f"WarmupCosineLR: floor must lie in [0, 1], not {floor}")
        self.warmup, self.total_steps, self.floor, self.decay = warmup, total_steps, floor, decay
        super().__init__(optimizer, last_epoch)

    def rate(self, epoch: int, base: float, index: int) -> float:
        if epoch < self.warmup:
            return base * (epoch + 1) / self.warmup
        if not self.decay:
            return base
        done = min(1.0, (epoch - self.warmup) / max(1, self.total_steps - self.warmup))
        return base * (self.floor + (1 - self.floor) * (1 + math.cos(math.pi * done)) / 2)


class ReduceLROnPlateau:
    """Multiplies the rate by `factor` when a metric has not improved for more than `patience` steps.

    An improvement is by more than `threshold`, of the best ("rel") or outright ("abs"); after a reduction `cooldown`
    steps are not counted; the rate stays at min_lr or above, and changes smaller than eps are left out.

    Raises:
        ValueError: a factor of 1 or more, an unknown mode.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"a schedule needs an Optimizer, not {type(optimizer).__name__}")
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: factor should be < 1.0, not {factor}")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: mode {mode!r} is unknown, or threshold_mode {threshold_mode!r}")
        groups = len(optimizer.param_groups)
        self.min_lrs = [float(min_lr)] * groups if isinstance(min_lr, (int, float)) else [float(x) for x in min_lr]
        if len(self.min_lrs) != groups:
            raise ValueError(f"ReduceLROnPlateau: {len(self.min_lrs)} min_lr for {groups} parameter groups")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = [float(group["lr"]) for group in optimizer.param_groups]

    def is_better(self, value: float, best: float) -> bool:
        """Whether `value` improves on `best`."""
        sign = 1.0 if self.mode == "max" else -1.0
        if self.threshold_mode == "rel":
            return value > best * (1 + self.threshold) if sign > 0 else value < best * (1 - self.threshold)
        return sign * (value - best) > self.threshold

    def step(self, metrics: float, epoch: int | None = None) -> None:
        """Take the latest value of the metric."""
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(value, self.best):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                lower = max(group["lr"] * self.factor, least)
                if group["lr"] - lower > self.eps:
                    group["lr"] = lower
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [float(group["lr"]) for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return list(self._last_lr)

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the attributes; the optimizer's own state dict holds the rates."""
        self.__dict__.update(state_dict)
