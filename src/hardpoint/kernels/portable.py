"""Portable kernels on demand: source from the tables, binary from the cache or the plug-in's compiler."""

from __future__ import annotations

import os
import tempfile
import zlib
from pathlib import Path

from hardpoint._runtime import core
from hardpoint.kernels import prebuilt
from hardpoint.kernels.source import generate

#: In front of a cached binary: a mark with the format's version, then its length and checksum.
MAGIC = b"hpkernel1\n"


def specialise(runtime: str, index: int, name: str, description: str) -> tuple[bytes, str, int] | None:
    """The compiled kernel that the adapter asks for: binary, name, elements a group. None: there is no such kernel."""
    compiler = core.compiler(runtime, index)
    if compiler is None:
        return None
    dialect, fingerprint, group_size = compiler
    made = generate(name, description, dialect, group_size)
    if made is None:
        return None
    source, kernel, elements = made
    if record := os.environ.get("HARDPOINT_RECORD_KERNELS"):
        with Path(record).open("a") as file:
            file.write(f"{name}\t{description.strip()}\n")
    return binary(runtime, index, fingerprint, source), kernel, elements


def binary(runtime: str, index: int, fingerprint: str, source: str) -> bytes:
    """Compiled code for a source: what the package was built with, or the user's own store, or compiled now."""
    key = prebuilt.key(source)
    place = _store() / fingerprint / key
    found = prebuilt.find(fingerprint, key) or _read(place)
    if found is None:
        found = core.compile(runtime, index, source, "")
        _write(place, found)
    return found


def _store() -> Path:
    from hardpoint.plugins import _cache_dir

    return _cache_dir() / "kernels"


def _read(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    head = len(MAGIC) + 12
    binary = content[head:]
    stored = content[len(MAGIC) : head]
    if content.startswith(MAGIC) and stored == _seal(binary):
        return binary
    return None  # cut short or overwritten: it is compiled again


def _write(path: Path, binary: bytes) -> None:
    """Written beside its place and moved there, so that no process ever reads half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(MAGIC + _seal(binary) + binary)
        os.replace(file.name, path)
    except OSError:
        pass  # a full or read-only disk costs the next process a compilation


def _seal(binary: bytes) -> bytes:
    return len(binary).to_bytes(8, "little") + zlib.crc32(binary).to_bytes(4, "little")


def register() -> None:
    """Let the core ask for kernels."""
    core.set_specialiser(specialise)
