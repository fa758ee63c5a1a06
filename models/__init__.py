"""Installed as tinygrad_lite.models."""

if __name__ != "tinygrad_lite.models":
    raise ImportError("import tinygrad_lite.models: a bare 'models' would make a second registry")

from collections.abc import Callable
from functools import partial
from typing import Any

from tinygrad_lite.models import gpt
from tinygrad_lite.nn import Module

# name → constructor; keyword arguments replace fields of the preset
MODELS: dict[str, Callable[..., Module]] = {name: partial(gpt.preset, name) for name in gpt.PRESETS}


def build(name: str, **overrides: Any) -> Module:
    """The model of a registered name. Raises ValueError listing the names there are."""
    if name not in MODELS:
        raise ValueError(f"no model is called {name!r}; there are {', '.join(sorted(MODELS))}")
    return MODELS[name](**overrides)


__all__ = ["MODELS", "build"]
