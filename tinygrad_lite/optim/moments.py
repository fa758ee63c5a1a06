"""What Adam and its relatives share: running means of the gradient and of its size, started at zero."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_lite.optim.optimizer import Group, Optimizer, check_range
from tinygrad_lite.tensor import Tensor, float64


class Moments(Optimizer):
    """Base of optimisers with `betas`: the means take 1 - β of each new value, so after t steps they miss β^t."""

    def _validate(self, group: Group) -> None:
        for name in ("lr", "eps", "weight_decay"):
            check_range(name, group[name])
        for i, beta in enumerate(group["betas"]):
            check_range(f"betas[{i}]", beta, high=1.0)

    def _shares(self, index: int, group: Group, count: Tensor) -> tuple[Tensor, Tensor]:
        """1 - β1^t and 1 - β2^t, computed in float64 alike in eager mode and in a capture.

        The power is exp(t log β): log β keeps its precision should the runtime round it, where β would not.
        """
        logs = [self._log_beta(index, group, i) for i in range(2)]
        step = count.to(float64)
        first, second = (1 - (step * log).exp() for log in logs)
        return first, second

    def _log_beta(self, index: int, group: Group, i: int) -> Any:
        def read() -> float:
            return math.log(group["betas"][i]) if group["betas"][i] > 0 else -math.inf

        return self._hyper(index, f"log beta{i + 1}", read)
