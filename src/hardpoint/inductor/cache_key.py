"""Hardpoint's part of the key of Inductor's and AOTAutograd's caches.

Compiled graphs depend on what Hardpoint returned during tracing: strides, decompositions, lines of Python. A graph that
another version of Hardpoint put into the cache can fail, or give wrong results.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import torch

import hardpoint

#: Packages that influence compiled graphs.
PACKAGES = ("inductor", "torch", "triton", "ops", "codegen")


def extend(name: str) -> None:
    """Add the device and Hardpoint's version to the keys, after the program's own tag."""
    config = torch.compiler.config
    tag = f"hardpoint-{name}-{version()}"
    if tag not in config.cache_key_tag:
        config.cache_key_tag = f"{config.cache_key_tag} {tag}".strip()


@functools.cache
def version() -> str:
    """The version of the package, and a digest of its code: a checkout changes without a new version."""
    digest = hashlib.sha256(hardpoint.__version__.encode())
    root = Path(__file__).parent.parent
    for package in PACKAGES:
        for file in sorted([*(root / package).glob("**/*.py"), *(root / package).glob("**/*.h")]):
            digest.update(file.name.encode() + file.read_bytes())
    return f"{hardpoint.__version__}-{digest.hexdigest()[:16]}"
