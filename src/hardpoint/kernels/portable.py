"""Portable kernels on demand: source from the tables, binary from the cache or the plug-in's compiler."""

from __future__ import annotations

import os
from pathlib import Path

from hardpoint._runtime import core
from hardpoint.kernels import prebuilt, store
from hardpoint.kernels.source import generate


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
    root = _store()
    place = root / fingerprint / key
    found = prebuilt.find(fingerprint, key) or store.read(place)
    if found is None:
        found = core.compile(runtime, index, source, "")
        store.write(root, place, found)
    return found


def _store() -> Path:
    from hardpoint.plugins import _cache_dir

    return _cache_dir() / "kernels"


def register() -> None:
    """Let the core ask for kernels."""
    core.set_specialiser(specialise)
