"""Processes that compile side by side, from which Numba's lock keeps threads; and Numba stays out of this one."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping

MANY = 8  # missing kernels from which on it pays: a process takes a second to start
EACH = 4  # kernels a process, at least
CHILD = "from tinygrad_lite.backends.numba.apart import serve; serve()"


def processes(missing: int) -> int:
    """Among how many to deal out the missing kernels: as many as cores may be used; 0 leaves all to this one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if missing < MANY or cores == 1 or os.environ.get("TINYGRAD_LITE_NUM_THREADS") == "1":
        return 0
    return min(cores, missing // EACH)


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
    """The other process: sources by symbol on standard input, what is to be kept of each on standard output."""
    from .compiler import compile_code
    from .frontend import CompileError

    codes = {}
    for symbol, source in pickle.load(sys.stdin.buffer).items():
        try:
            codes[symbol] = compile_code(source, symbol)
        except CompileError:
            continue
    sys.stdout.buffer.write(pickle.dumps(codes))
