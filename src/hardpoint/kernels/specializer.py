"""Compiled portable kernels for the core: generated source, then a cached binary or the plug-in's compiler."""

from __future__ import annotations

import os
from pathlib import Path

from hardpoint._runtime import cache_dir, core
from hardpoint.kernels import disk_cache, prebuilt
from hardpoint.kernels.generator import generate


def specialize(runtime: str, index: int, name: str, description: str) -> tuple[bytes, str, int] | None:
    """Return a kernel's binary, entry name and elements per work-group; None for an unknown kernel."""
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


def binary(runtime: str, index: int, fingerprint: str, source: str, options: str = "") -> bytes:
    """Return the binary of a source: prebuilt, from the user's disk cache, or compiled now."""
    key = prebuilt.key(f"/* {options} */{source}" if options else source)
    root = _cache_root()
    path = root / fingerprint / key
    found = prebuilt.find(fingerprint, key) or disk_cache.read(path)
    if found is None:
        found = core.compile(runtime, index, source, options)
        disk_cache.write(root, path, found)
    return found


def _cache_root() -> Path:
    return cache_dir() / "kernels"


def register() -> None:
    """Register :func:`specialize` with the core."""
    core.set_specializer(specialize)
