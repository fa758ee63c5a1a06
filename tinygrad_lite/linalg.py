"""torch.linalg: determinants, solving, factorisations, norms. A LinAlgError is a RuntimeError, as in PyTorch."""

from tinygrad_lite.errors import LinAlgError
from tinygrad_lite.functional import linalg as _functions
from tinygrad_lite.functional.casting import casting as _casting
from tinygrad_lite.functional.linalg import *  # noqa: F403

__all__ = ["LinAlgError", *_functions.__all__]

for _name in _functions.__all__:
    globals()[_name] = _casting(_name, getattr(_functions, _name))
