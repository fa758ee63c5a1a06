"""What training files put around a model for several devices, of which there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_lite.nn.module import Module


class DataParallel(Module):
    """A module that calls another, saved under the name `module`; nothing is split, since there is one device.

    Raises:
        RuntimeError: device_ids, since there are no such devices.
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids:
            raise RuntimeError(f"DataParallel: there are no devices {list(device_ids)}; leave device_ids out")
        self.module = module
        self.device_ids: list[Any] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
