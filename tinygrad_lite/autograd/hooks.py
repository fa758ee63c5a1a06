"""The handle of a hook on a tensor's gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygrad_lite.ir.node import Node


class HookHandle:
    """Removes a hook: `handle.remove()`, or leave a with-block."""

    def __init__(self, hooks: dict[int, Any], key: int, hook: Callable[[Node], Node | None]) -> None:
        self._hooks, self._key = hooks, key
        hooks[key] = hook

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        self._hooks.pop(self._key, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
