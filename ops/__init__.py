"""Installed as tinygrad_lite.ops. Importing it fills the registry with every op."""

if __name__ != "tinygrad_lite.ops":
    raise ImportError("import tinygrad_lite.ops: a bare 'ops' would make a second registry")

from tinygrad_lite.ops import (
    adjoint,
    attention,
    composite,
    contract,
    control,
    conv,
    convolution,
    create,
    cumulate,
    elementwise,
    graft,
    indexing,
    leaf,
    linalg,
    movement,
    pool,
    promote,
    random,
    reduce,
    sorting,
    special,
    window,
)

__all__ = [
    "adjoint",
    "attention",
    "composite",
    "contract",
    "control",
    "conv",
    "convolution",
    "create",
    "cumulate",
    "elementwise",
    "graft",
    "indexing",
    "leaf",
    "linalg",
    "movement",
    "pool",
    "promote",
    "random",
    "reduce",
    "sorting",
    "special",
    "window",
]
