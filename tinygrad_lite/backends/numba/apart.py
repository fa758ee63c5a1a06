"""A second process that compiles kernels while this one compiles others; Numba's lock keeps threads from doing so."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping

MANY = 8  # missing kernels from which on it pays: the process takes a second to start
CHILD = "from tinygrad_lite.backends.numba.apart import serve; serve()"


def worthwhile(missing: int) -> bool:
    """Are there enough kernels to compile, and a second core that may be used?"""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return missing >= MANY and cores > 1 and os.environ.get("TINYGRAD_LITE_NUM_THREADS") != "1"


class Apart:
    """Compiles `sources`, by symbol, in a process of its own, from now on."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._codes: dict[str, bytes] = {}
        self._thread = threading.Thread(target=self._talk, args=(pickle.dumps(dict(sources)),), daemon=True)
        self._thread.start()

    def _talk(self, request: bytes) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-c", CHILD]
        try:
            done = subprocess.run(command, input=request, capture_output=True, env=environment, check=True)
            self._codes = pickle.loads(done.stdout)
        except (OSError, subprocess.SubprocessError, pickle.UnpicklingError, EOFError):
            return  # what is missing is compiled here, where an error has its place

    def codes(self) -> dict[str, bytes]:
        """Object code by symbol, once all is done; without what could not be compiled."""
        self._thread.join()
        return self._codes


def serve() -> None:
    """The other process: sources by symbol on standard input, object code by symbol on standard output."""
    from .compiler import engine
    from .frontend import CompileError, compile_source

    codes = {}
    for symbol, source in pickle.load(sys.stdin.buffer).items():
        try:
            codes[symbol] = compile_source(source, symbol, engine().machine)[1]
        except CompileError:
            continue
    sys.stdout.buffer.write(pickle.dumps(codes))
