"""Disk cache of compiled kernels: one file per kernel with a checksum, trimmed in least-recently-used order."""

from __future__ import annotations

import os
import tempfile
import time
import zlib
from pathlib import Path

#: File header: this magic with the format version, then the binary's length (8 bytes) and CRC-32 (4 bytes).
MAGIC = b"hpkernel1\n"
#: Default of HARDPOINT_CACHE_MB, the size limit of the cache. Trimming stops at three quarters of the limit.
DEFAULT_LIMIT = 2048

_trimmed = False


def read(path: Path) -> bytes | None:
    """Return the cached binary, or None if it is missing or damaged."""
    try:
        content = path.read_bytes()
        status = path.stat()
        os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))  # explicit, since noatime mounts do not update it
    except OSError:
        return None
    head = len(MAGIC) + 12
    binary = content[head:]
    if content.startswith(MAGIC) and content[len(MAGIC) : head] == _checksum(binary):
        return binary
    return None


def write(root: Path, path: Path, binary: bytes) -> None:
    """Write to a temporary file, then rename: no process ever reads a partial file."""
    global _trimmed
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(MAGIC + _checksum(binary) + binary)
        os.replace(file.name, path)
        if not _trimmed:  # once per process is enough: a process adds few files
            _trimmed = True
            trim(root, size_limit())
    except OSError:
        pass  # full or read-only disk: the next process compiles again


def size_limit() -> int:
    """Size limit of the cache in bytes, from HARDPOINT_CACHE_MB."""
    text = os.environ.get("HARDPOINT_CACHE_MB", "")
    return int(float(text) * 2**20) if text.replace(".", "", 1).isdigit() else DEFAULT_LIMIT * 2**20


def trim(root: Path, limit: int) -> int:
    """Remove the least recently used files if the cache exceeds ``limit`` bytes; return how many.

    A process that has already read a removed file is not affected.
    """
    found = []
    for path in root.glob("*/*"):
        try:
            status = path.stat()
        except OSError:  # removed by another process
            continue
        found.append((max(status.st_atime_ns, status.st_mtime_ns), status.st_size, path))
    total, removed = sum(size for _, size, _ in found), 0
    if total <= limit:
        return 0
    for _, size, path in sorted(found, key=lambda entry: entry[0]):
        if total <= limit * 3 // 4:
            break
        path.unlink(missing_ok=True)
        total -= size
        removed += 1
    return removed


def _checksum(binary: bytes) -> bytes:
    return len(binary).to_bytes(8, "little") + zlib.crc32(binary).to_bytes(4, "little")
