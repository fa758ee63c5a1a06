"""Tensor, dtypes, and all functions under one name: what the layers of `nn` and `optim` are written against.

The class is in `handle.py`, its methods are put on it by `methods.py`; the functions are in `creation.py` and
`functional/`.
"""

from tinygrad_lite import creation as _creation
from tinygrad_lite import functional as _functional
from tinygrad_lite import methods as _methods  # noqa: F401
from tinygrad_lite import randomness as _randomness
from tinygrad_lite.creation import *  # noqa: F403
from tinygrad_lite.described import Size
from tinygrad_lite.functional import *  # noqa: F403
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.types import DType, bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, uint8
from tinygrad_lite.randomness import *  # noqa: F403

__all__ = [
    *_creation.__all__,
    *_functional.__all__,
    *_randomness.__all__,
    "DType",
    "Size",
    "Tensor",
    "bfloat16",
    "bool_",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
]
