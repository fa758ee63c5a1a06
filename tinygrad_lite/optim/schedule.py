"""What every learning-rate schedule is built on."""

from __future__ import annotations

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
        self._set_momentum()

    def _set_momentum(self) -> None:
        """For schedules that move the momentum too."""

    def chained(self, epoch: int, current: float, base: float, index: int) -> float:
        """The rate at an epoch in a chain, where the epoch before, or the schedule before in the chain, left `current`.

        Most schedules multiply what they find by the ratio of their own rates.
        """
        before = self.rate(epoch - 1, base, index) if epoch > 0 else base
        now = self.rate(epoch, base, index)
        return current if now == before else now / before * current

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the attributes; the optimizer's own state dict holds the rates."""
        self.__dict__.update({name: value for name, value in state_dict.items() if name != "optimizer"})


class Absolute(LRScheduler):
    """Base of schedules that set their own rate in a chain too, whatever the ones before them left."""

    def chained(self, epoch: int, current: float, base: float, index: int) -> float:
        return self.rate(epoch, base, index)


class Stepwise(LRScheduler):
    """Base of schedules defined from one epoch to the next; where a group stands is kept, so that a step costs one."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self._reached: dict[int, tuple[int, float, float]] = {}  # group → epoch, initial rate, rate
        super().__init__(optimizer, last_epoch)

    def advance(self, epoch: int, current: float, base: float, index: int) -> float:
        """The rate at an epoch, given that of the epoch before (at epoch 0 the initial one)."""
        raise NotImplementedError

    def rate(self, epoch: int, base: float, index: int) -> float:
        at, start, current = self._reached.get(index, (-1, base, base))
        if at > epoch or start != base:
            at, current = -1, base
        for each in range(at + 1, epoch + 1):
            current = self.advance(each, current, base, index)
        self._reached[index] = (epoch, base, current)
        return current

    def state_dict(self) -> dict[str, Any]:
        return {name: value for name, value in super().state_dict().items() if name != "_reached"}
