"""Pictures from DOT source, by a `dot` on PATH or else by the program of the graphviz-pure wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from tinygrad_lite.errors import UserError

FORMATS = (".svg", ".png")
TIMEOUT = 120.0  # seconds


class NoRenderer(UserError):
    """There is no program to lay the graph out; `kept` is the DOT file written in the picture's stead, if any."""

    def __init__(self, kept: Path | None = None) -> None:
        self.kept = kept
        wrote = f": wrote {kept}" if kept else ""
        super().__init__(f"no program to draw with{wrote}; install Graphviz or run 'pip install graphviz-pure'")


def render(dot_source: str, path: str | Path) -> Path:
    """Write `dot_source` as the picture `path`, by its extension .svg or .png; returns the path.

    Raises NoRenderer (keeping the source beside it as .dot), and UserError for another extension or a failed layout.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"cannot draw {path.name}: the extension must be one of {', '.join(FORMATS)}")
    try:
        write_whole(path, laid_out(dot_source, path.suffix.lower()[1:]))
    except NoRenderer:
        kept = path.with_suffix(".dot")
        write_whole(kept, dot_source.encode())
        raise NoRenderer(kept) from None
    return path


def laid_out(dot_source: str, format: str) -> bytes:
    """`dot_source` as "svg" or "png". Raises NoRenderer, and UserError where the layout fails."""
    program = renderer_program()
    if program is None:
        raise NoRenderer
    return _picture(program, dot_source, format)


def renderer_program() -> str | None:
    """The program that draws, or None."""
    beside = os.pathsep.join([sysconfig.get_path("scripts"), str(Path(sys.executable).parent)])
    return shutil.which("dot") or shutil.which("graphviz-pure") or shutil.which("graphviz-pure", path=beside)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it: what is there is never half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# Layout may lose an edge between nested frames ("lost n38 n31 edge"): ranked another way, it finds all of them.
_ATTEMPTS: tuple[tuple[str, ...], ...] = ((), ("-Gnewrank=true",))


def _picture(program: str, dot_source: str, format: str) -> bytes:
    said: list[str] = []
    for options in _ATTEMPTS:
        done = _run([program, f"-T{format}", *options], dot_source)
        if done.returncode == 0 and done.stdout:
            return done.stdout
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
    raise UserError(f"{Path(program).name} failed: {said[-1]}")


def _run(command: list[str], dot_source: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(command, input=dot_source.encode(), capture_output=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(f"laying the graph out took over {TIMEOUT:.0f} s: draw less of it (depth=, cap=)") from None
    except OSError as error:
        raise UserError(f"cannot run {command[0]}: {error.strerror}") from error
