"""The handle of a hook on a tensor's gradient."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from tinygrad_lite.guards import module_versions

_ids = itertools.count()


class HookHandle:
    """Removes a hook: `handle.remove()`, or leave a with-block."""

    def __init__(self, hooks: dict[int, Any], hook: Callable[..., Any]) -> None:
        self.id = next(_ids)
        self._hooks = hooks
        hooks[self.id] = hook
        module_versions.changes += 1  # captures look again at what their parameters have

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        if self._hooks.pop(self.id, None) is not None:
            module_versions.changes += 1

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
