"""In-place methods that change a tensor's shape: the handle becomes a view of the memory that it had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygrad_lite.functional import movement
from tinygrad_lite.handle import Tensor

__all__ = ["squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"]


def _in_place(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._reshaped(lambda x: function(x, *args, **kwargs))

    method.__name__ = f"{name}_"
    method.__qualname__ = f"Tensor.{name}_"
    method.__doc__ = f"""In-place version of `{name}`: this handle becomes that view of its memory, others stay.

    Raises:
        RuntimeError: a leaf that requires grad. CaptureError: in a compiled function, a tensor from outside it.
    """
    return method


squeeze_ = _in_place("squeeze", movement.squeeze)
swapaxes_ = _in_place("swapaxes", movement.swapaxes)
swapdims_ = _in_place("swapdims", movement.swapdims)
t_ = _in_place("t", movement.t)
transpose_ = _in_place("transpose", movement.transpose)
unsqueeze_ = _in_place("unsqueeze", movement.unsqueeze)
