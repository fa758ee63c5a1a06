"""Mixed precision with PyTorch's names: autocast, and loss scaling for gradients that pass through float16.

Micikevicius et al., arXiv:1710.03740.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tinygrad_lite.autograd import no_grad
from tinygrad_lite.optim.optimizer import Optimizer
from tinygrad_lite.precision import autocast, custom_bwd, custom_fwd, is_autocast_available
from tinygrad_lite.tensor import Tensor, as_tensor, float16, isfinite, stack, tensor, where

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


class GradScaler:
    """Multiplies the loss so that small gradients survive float16, and leaves out steps whose gradients overflowed.

    `scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()`; between them `scaler.unscale_(optimizer)`
    where gradients are clipped. Nothing of it looks at a value: it runs eagerly and inside tl.compile alike.

    Args:
        init_scale: the first factor, times growth_factor after growth_interval steps without overflow, times
            backoff_factor after one with.
        enabled: False makes it do nothing.

    Raises:
        ValueError: a growth_factor of 1 or less, a backoff_factor of 1 or more.
    """

    def __init__(
        self,
        device: Any = "cpu",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if growth_factor <= 1 or not 0 < backoff_factor < 1:
            given = f"not {growth_factor} and {backoff_factor}"
            raise ValueError(f"GradScaler: growth_factor must exceed 1 and backoff_factor lie in (0, 1), {given}")
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval, self.enabled = growth_interval, enabled
        self._scale = tensor(float(init_scale))
        self._good = tensor(0)  # steps since the last overflow or growth
        self._found: dict[int, Tensor] = {}  # optimiser → did its gradients overflow, since the last update

    def scale(self, outputs: Any) -> Any:
        """A loss times the factor, or a tuple or list of such."""
        if not self.enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        return type(outputs)(self.scale(x) for x in outputs)

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimiser's parameters by the factor.

        Raises:
            RuntimeError: a second time before update().
            ValueError: float16 gradients, in which what scaling saved would be lost again.
        """
        if not self.enabled:
            return
        if id(optimizer) in self._found:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        found = tensor(False)
        with no_grad():
            for p in _with_gradients(optimizer):
                if p.grad.dtype is float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                p.grad = p.grad / self._scale
                found = found | ~isfinite(p.grad).all()
        self._found[id(optimizer)] = found

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """optimizer.step(), undone where a gradient is infinite or NaN: parameters and state stay what they were."""
        if not self.enabled:
            return optimizer.step(*args, **kwargs)
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        found = self._found[id(optimizer)]
        with optimizer._remembering() as before:
            result = optimizer.step(*args, **kwargs)
        with no_grad():
            for t in _changed(optimizer):
                t.copy_(where(found, before[id(t)], t))
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adjust the factor after a step, or set it. RuntimeError where no step came before."""
        if not self.enabled:
            return
        with no_grad():
            if new_scale is not None:
                self._scale.copy_(as_tensor(new_scale))
            else:
                self._adjust()
        self._found.clear()

    def _adjust(self) -> None:
        if not self._found:
            raise RuntimeError("No inf checks were recorded prior to update.")
        found = stack(list(self._found.values())).any()
        good = self._good + 1
        grown = where(good >= self.growth_interval, self.growth_factor, 1.0)
        self._scale.copy_(self._scale * where(found, self.backoff_factor, grown))
        self._good.copy_(where(found | (good >= self.growth_interval), 0, good))

    def get_scale(self) -> float:
        """The factor, 1 where not enabled. Reads a value."""
        return float(self._scale.item()) if self.enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self.enabled

    def state_dict(self) -> dict[str, Any]:
        """Factor, options and count as Python numbers; {} where not enabled."""
        if not self.enabled:
            return {}
        options = {name: getattr(self, name) for name in ("growth_factor", "backoff_factor", "growth_interval")}
        return {"scale": self.get_scale(), **options, "_growth_tracker": int(self._good.item())}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what state_dict() gave. RuntimeError for an empty one."""
        if not self.enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly from a disabled GradScaler.")
        for name in ("growth_factor", "backoff_factor", "growth_interval"):
            setattr(self, name, state_dict[name])
        self._scale.fill_(state_dict["scale"])
        self._good.fill_(state_dict["_growth_tracker"])


def _with_gradients(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def _changed(optimizer: Optimizer) -> Iterable[Tensor]:
    """Parameters with a gradient and all state, each once."""
    params = _with_gradients(optimizer)
    state = [v for p in params for v in optimizer.state.get(p, {}).values() if isinstance(v, Tensor)]
    return {id(t): t for t in [*params, *state]}.values()
