"""Learning-rate schedules, after torch.optim.lr_scheduler.

Every schedule here is a function of the epoch and the initial rate alone, so that `step()` sets what the formula says
whatever the rate was in between. Compiled steps re-read the rate at each call: a schedule costs no recompilation.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_lite.optim.optimizer import Optimizer


class LRScheduler:
    """Sets group["lr"] at construction, and again at every `step()`.

    Attributes:
        base_lrs: the initial rates of the groups, also kept as group["initial_lr"].
        last_epoch: how many times `step()` was called.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"a schedule needs an Optimizer, not {type(optimizer).__name__}")
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            if last_epoch >= 0 and "initial_lr" not in group:
                raise KeyError("resuming a schedule needs 'initial_lr' in every parameter group")
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.step()

    def rate(self, epoch: int, base: float, index: int) -> float:
        """The rate of group `index` at an epoch, given its initial rate."""
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        """The rates the schedule asks for at `last_epoch`."""
        return [self.rate(self.last_epoch, base, i) for i, base in enumerate(self.base_lrs)]

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return list(self._last_lr)

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, or to the given one."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._last_lr = self.get_lr()
        for group, rate in zip(self.optimizer.param_groups, self._last_lr, strict=False):
            group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the attributes; the optimizer's own state dict holds the rates."""
        self.__dict__.update({name: value for name, value in state_dict.items() if name != "optimizer"})


class LambdaLR(LRScheduler):
    """base · lr_lambda(epoch); one function, or one for each group. Functions are not part of `state_dict`."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"{len(self.lr_lambdas)} functions for {groups} parameter groups")
        super().__init__(optimizer, last_epoch)

    def rate(self, epoch: int, base: float, index: int) -> float:
        return base * self.lr_lambdas[index](epoch)

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


class SequentialLR(LRScheduler):
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
        own = {name: value for name, value in super().state_dict().items() if name != "_schedulers"}
        return {**own, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_schedulers"})
