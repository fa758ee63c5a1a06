"""Machine code on disk: one file a kernel, named by the hash of everything that it depends on.

A file is `MAGIC`, the SHA-256 of what follows, and the code. Whatever cannot be read
or does not match its digest is a miss. Files appear by rename, so readers and writers need no lock. The code is
executed: a folder that others may write to, or that belongs to another user, is not used at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import warnings
from pathlib import Path

MAGIC = b"tinygrad_lite kernel 2\n"
SUFFIX = ".kernel"
LIMIT_BYTES = 512 << 20
STALE_SECONDS = 3600  # a temporary file older than this lost its writer
_warned: set[str] = set()


class CacheWarning(UserWarning):
    """The disk cache of kernels cannot be used, and why."""


def default_folder() -> Path:
    """`TINYGRAD_LITE_CACHE_DIR`, or `kernels` in the user's cache folder."""
    named = os.environ.get("TINYGRAD_LITE_CACHE_DIR")
    if named:
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_cache_dir("tinygrad_lite")) / "kernels"


def _refusal(folder: Path) -> str | None:
    """Why object code from this folder must not be run, or None."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        return f"it cannot be made or read ({error.strerror})"
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a folder"
    if found.st_uid != os.getuid():
        return "it belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write to it"
    return None


class Cache:
    """Get and put kernels; every failure is a miss or leaves the kernel in memory only."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_folder()
        reason = _refusal(self.folder)
        self.usable = reason is None
        self.writable = self.usable and os.access(self.folder, os.W_OK | os.X_OK)
        self._stored = False
        if reason and str(self.folder) not in _warned:
            _warned.add(str(self.folder))
            warnings.warn(f"kernels are not kept in {self.folder}: {reason}", CacheWarning, stacklevel=3)

    def path(self, key: str) -> Path:
        return self.folder / (key + SUFFIX)

    def get(self, key: str) -> bytes | None:
        """The code, or None."""
        if not self.usable:
            return None
        try:
            descriptor = os.open(self.path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                owned = os.fstat(descriptor).st_uid == os.getuid()
                found = _unpack(file.read()) if owned else None
        except OSError:
            return None
        if found and self.writable:
            with contextlib.suppress(OSError):
                os.utime(self.path(key))  # the least recently used go first
        return found

    def put(self, key: str, code: bytes) -> None:
        if not self.writable:
            return
        temporary = None
        try:
            descriptor, temporary = tempfile.mkstemp(suffix=".tmp", dir=self.folder)
            with open(descriptor, "wb") as file:
                file.write(MAGIC + hashlib.sha256(code).digest() + code)
            os.replace(temporary, self.path(key))
            self._stored = True
        except OSError:  # full, or read-only after all
            if temporary:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def trim(self, limit: int = LIMIT_BYTES) -> None:
        """After puts: remove the least recently used files beyond `limit` bytes, and what killed writers left."""
        if not self._stored:
            return
        self._stored = False
        kept = 0
        with contextlib.suppress(OSError):
            with os.scandir(self.folder) as listing:  # closed also where another process takes a file away meanwhile
                entries = [(e, e.stat(follow_symlinks=False)) for e in listing]
            newest = max((s.st_mtime for _, s in entries), default=0.0)
            for entry, found in sorted(entries, key=lambda pair: -pair[1].st_mtime):
                lost = entry.name.endswith(".tmp") and newest - found.st_mtime > STALE_SECONDS
                if entry.name.endswith(SUFFIX):
                    kept += found.st_size
                if lost or (entry.name.endswith(SUFFIX) and kept > limit):
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)


def _unpack(data: bytes) -> bytes | None:
    start = len(MAGIC) + 32
    code = data[start:]
    if not data.startswith(MAGIC) or hashlib.sha256(code).digest() != data[len(MAGIC) : start]:
        return None
    return code
