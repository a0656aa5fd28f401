"""Compiled kernels on disk: one file each, sealed against damage, the least used ones removed when there are many."""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from pathlib import Path

#: In front of a binary: a mark with the format's version, then its length and checksum.
MAGIC = b"hpkernel1\n"
#: HARDPOINT_CACHE_MB: what all of them may take. They are brought down to three quarters of it.
DEFAULT_LIMIT = 2048

_trimmed = False


def read(path: Path) -> bytes | None:
    """The binary that was written there; None if there is none, or it was cut short or overwritten."""
    try:
        content = path.read_bytes()
        status = path.stat()
        os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))  # mounts may leave the time of access alone
    except OSError:
        return None
    head = len(MAGIC) + 12
    binary = content[head:]
    if content.startswith(MAGIC) and content[len(MAGIC) : head] == _seal(binary):
        return binary
    return None


def write(root: Path, path: Path, binary: bytes) -> None:
    """Written beside its place and moved there, so that no process ever reads half a file."""
    global _trimmed
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(MAGIC + _seal(binary) + binary)
        os.replace(file.name, path)
        if not _trimmed:  # once a process is enough: one adds few
            _trimmed = True
            trim(root, limit())
    except OSError:
        pass  # a full or read-only disk costs the next process a compilation


def limit() -> int:
    """The most bytes that the files of a store may take."""
    text = os.environ.get("HARDPOINT_CACHE_MB", "")
    return int(float(text) * 2**20) if text.replace(".", "", 1).isdigit() else DEFAULT_LIMIT * 2**20


def trim(root: Path, most: int) -> int:
    """Remove the least recently used files if all of them take more than ``most`` bytes; says how many.

    Another process may have one of them open: it keeps what it has read.
    """
    found = []
    for path in root.glob("*/*"):
        try:
            status = path.stat()
        except OSError:  # another process was first
            continue
        found.append((max(status.st_atime_ns, status.st_mtime_ns), status.st_size, path))
    total, removed = sum(size for _, size, _ in found), 0
    if total <= most:
        return 0
    for _, size, path in sorted(found, key=lambda entry: entry[0]):
        if total <= most * 3 // 4:
            break
        path.unlink(missing_ok=True)
        total -= size
        removed += 1
    return removed


def _seal(binary: bytes) -> bytes:
    return len(binary).to_bytes(8, "little") + zlib.crc32(binary).to_bytes(4, "little")
