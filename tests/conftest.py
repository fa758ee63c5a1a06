"""Makes `tests.ops.samples` importable however pytest is started, and lets parallel tests share cores and kernels."""

import os
import sys
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parent.parent)
if ROOT not in sys.path:
    sys.path.append(ROOT)


@pytest.fixture(autouse=True, scope="session")
def one_compiler_a_worker():
    """Of several pytest workers each keeps a core busy: further processes to compile in only cost their start."""
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get("PYTEST_XDIST_WORKER"):
            patch.setattr("tinygrad_lite.backends.numba.compiler.processes", lambda missing: 0)
        yield


@pytest.fixture(autouse=True, scope="session")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory):
    """A disk cache away from the user's, empty at first, which pytest's workers share: one compiles, all load."""
    folder = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        if "TINYGRAD_LITE_CACHE_DIR" not in os.environ:
            patch.setenv("TINYGRAD_LITE_CACHE_DIR", str(folder / "kernels"))
        yield
