"""Makes `tests.ops.samples` importable however pytest is started, and lets parallel tests share the cores."""

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
