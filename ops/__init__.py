"""Installed as tinygrad_lite.ops. Importing it fills the registry with every op."""

if __name__ != "tinygrad_lite.ops":
    raise ImportError("import tinygrad_lite.ops: a bare 'ops' would make a second registry")

from tinygrad_lite.ops import (
    composite,
    contract,
    create,
    elementwise,
    graft,
    indexing,
    leaf,
    movement,
    promote,
    random,
    reduce,
    window,
)

__all__ = [
    "composite",
    "contract",
    "create",
    "elementwise",
    "graft",
    "indexing",
    "leaf",
    "movement",
    "promote",
    "random",
    "reduce",
    "window",
]
