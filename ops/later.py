"""Modules that take longer to import than all of this package: imported when a function of theirs is first called."""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """Stands for the module called `name`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, found)  # next time without coming here
        return found


linalg, special = Later("scipy.linalg"), Later("scipy.special")
