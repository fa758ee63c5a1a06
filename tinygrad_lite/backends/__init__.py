"""Code generators, and answers for code that asks PyTorch for libraries or devices: none of them is here.

`torch.backends.cudnn.benchmark = True` and the like may be written, and change nothing: there is nothing to switch.
"""

from types import SimpleNamespace


def _absent() -> bool:
    """False."""
    return False


cudnn = SimpleNamespace(
    is_available=_absent, version=lambda: None, enabled=False, benchmark=False, deterministic=False, allow_tf32=False
)
mps = SimpleNamespace(is_available=_absent, is_built=_absent)
mkldnn = SimpleNamespace(is_available=_absent, enabled=False)
cuda = SimpleNamespace(is_built=_absent, matmul=SimpleNamespace(allow_tf32=False))
