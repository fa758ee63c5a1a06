"""Installed as tinygrad_lite.models."""

if __name__ != "tinygrad_lite.models":
    raise ImportError("import tinygrad_lite.models: a bare 'models' would make a second registry")

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from tinygrad_lite.models import autoencoder, charrnn, dit, encoder, fpn, gpt, llama, mlp, resnet, t5, unet, vgg, vit
from tinygrad_lite.nn import Module

FAMILIES = (mlp, vgg, resnet, unet, fpn, charrnn, encoder, gpt, llama, t5, vit, dit, autoencoder)

# name → constructor; keyword arguments replace fields of the preset
MODELS: dict[str, Callable[..., Module]] = {
    name: partial(family.preset, name) for family in FAMILIES for name in family.PRESETS
}


_TOOLS = ("arithmetic", "examples", "generate", "ledgers", "parts", "pretrained")  # imported when first asked for


def __getattr__(name: str) -> Any:
    if name in _TOOLS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def build(name: str, **overrides: Any) -> Module:
    """The model of a registered name. Raises ValueError listing the names there are."""
    if name not in MODELS:
        raise ValueError(f"no model is called {name!r}; there are {', '.join(sorted(MODELS))}")
    return MODELS[name](**overrides)


__all__ = ["FAMILIES", "MODELS", "build"]
