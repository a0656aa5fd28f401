"""Disk cache of compiled kernels: one file per kernel with a checksum, trimmed in least-recently-used order."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
import zlib
from pathlib import Path

from hardpoint._build_process import print_message

#: File header: this magic with the format version, then the binary's length (8 bytes) and CRC-32 (4 bytes).
MAGIC = b"hpkernel1\n"
#: Default of HARDPOINT_CACHE_MB, the size limit of the cache. Trimming stops at three quarters of the limit.
DEFAULT_LIMIT = 2048
#: Start of the names of files that are being written. One older than this many seconds was left by a killed process.
TEMPORARY, STALE = ".part-", 3600

_announced = False
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
    """Write to a temporary file, then rename: no process ever reads a partial file.

    A full or read-only disk is announced once; then each process compiles its own kernels.
    """
    global _announced, _trimmed
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_and_rename(path, MAGIC + _checksum(binary) + binary)
        if not _trimmed:  # once per process is enough: a process adds few files
            _trimmed = True
            trim(root, size_limit())
    except OSError as error:
        if not _announced:
            _announced = True
            print_message(
                f"compiled kernels cannot be kept in {root} ({error.strerror or error}), so each process compiles them "
                "again; free some space, or set HARDPOINT_CACHE to a writable folder"
            )


def _write_and_rename(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def size_limit() -> int:
    """Size limit of the cache in bytes, from HARDPOINT_CACHE_MB."""
    text = os.environ.get("HARDPOINT_CACHE_MB", "")
    return int(float(text) * 2**20) if text.replace(".", "", 1).isdigit() else DEFAULT_LIMIT * 2**20


def trim(root: Path, limit: int) -> int:
    """Remove the least recently used files if the cache exceeds ``limit`` bytes; return how many.

    A process that has already read a removed file is not affected. Files that killed processes left are removed, too.
    """
    found = []
    oldest = time.time() - STALE
    for path in root.glob("*/*"):
        try:
            status = path.stat()
        except OSError:  # removed by another process
            continue
        if path.name.startswith(TEMPORARY) and status.st_mtime < oldest:
            path.unlink(missing_ok=True)
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
