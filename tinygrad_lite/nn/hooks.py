"""Hooks around a module's forward, and the handles that remove them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

_ids = itertools.count()


class Hook(NamedTuple):
    """A user's function, and whether it takes keyword arguments as well."""

    fn: Callable[..., Any]
    with_kwargs: bool

    def before(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Arguments as this pre-hook leaves them."""
        if not self.with_kwargs:
            changed = self.fn(module, args)
            if changed is None:
                return args, kwargs
            return (changed if isinstance(changed, tuple) else (changed,)), kwargs
        changed = self.fn(module, args, kwargs)
        if changed is None:
            return args, kwargs
        if not (isinstance(changed, tuple) and len(changed) == 2):
            raise RuntimeError(f"a forward pre-hook with_kwargs returns None or (args, kwargs), not {changed!r}")
        return changed

    def after(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        """Output as this hook leaves it."""
        given = (module, args, kwargs, result) if self.with_kwargs else (module, args, result)
        changed = self.fn(*given)
        return result if changed is None else changed


class RemovableHandle:
    """Removes a hook: `handle.remove()`, or leave a with-block."""

    def __init__(self, hooks: dict[int, Hook], changed: Callable[[], None]) -> None:
        self.id = next(_ids)
        self._hooks, self._changed = hooks, changed

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        if self._hooks.pop(self.id, None) is not None:
            self._changed()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
