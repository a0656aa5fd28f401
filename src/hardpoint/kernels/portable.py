"""Portable kernels on demand: source from the tables, binary from the cache or the plug-in's compiler."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import tempfile
import zlib
from pathlib import Path

from hardpoint import ops
from hardpoint._runtime import core, package_file
from hardpoint.kernels import pointwise, template
from hardpoint.ops.reduction import RULES

#: In front of a cached binary: a mark with the format's version, then its length and checksum.
MAGIC = b"hpkernel1\n"


@functools.cache
def preamble(special: bool = False, complex_numbers: bool = False) -> str:
    """What every kernel starts with; what few kernels use is there for those only, since it takes time to compile."""
    extra = ["math_special.h"] * special + ["math_complex.h"] * complex_numbers
    return "\n".join(map(_text, ["math.h", *extra, "dialect.h"]))


def _text(name: str) -> str:
    """A file of this folder with its includes put in: devices compile one text, not files."""
    text = package_file(f"kernels/{name}").read_text()
    return re.sub(r'^#include "(\w+\.h)"$', lambda found: _text(found[1]), text, flags=re.M)


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
    return binary(runtime, index, fingerprint, source), kernel, elements


def generate(name: str, description: str, dialect: str, group_size: int) -> tuple[str, str, int] | None:
    """The source of a kernel, its name, and elements a group; None if there is no such kernel.

    The name is that of a standard operator with an expression in the tables, or ``family:kernel`` for one of the
    families' own files; ``family:kernel@rule`` is one that reduces by a rule.
    """
    family, _, kernel = name.partition(":")
    if kernel:
        kernel, _, rule = kernel.partition("@")
        text = (template.rule_definitions(RULES[rule]) if rule else "") + _text(f"{family}.c")
        code, entry, elements = template.source(family, text, kernel, description, dialect, group_size)
        return preamble(complex_numbers="c64" in description or "c128" in description) + code, entry, elements
    op = ops.find(name)
    spec = pointwise.Specialisation.parse(description)
    text = pointwise.expression(op, spec) or ""
    return pointwise.source(op, spec, dialect, group_size, preamble(_is_special(text), pointwise.is_complex(spec)))


def _is_special(expression: str) -> bool:
    from hardpoint.ops import special

    return any(f"M({op.name})" in expression for op in special.OPS)


def binary(runtime: str, index: int, fingerprint: str, source: str) -> bytes:
    """Compiled code for a source, from the disk if it was compiled before."""
    key = hashlib.sha256(source.encode()).hexdigest()
    for folder in _caches():
        found = _read(folder / fingerprint / key)
        if found is not None:
            return found
    compiled = core.compile(runtime, index, source, "")
    _write(_caches()[-1] / fingerprint / key, compiled)
    return compiled


def _caches() -> list[Path]:
    """Where binaries are looked for: what the package was built with, then the user's own."""
    from hardpoint.plugins import _cache_dir

    own = _cache_dir() / "kernels"
    try:
        return [package_file("prebuilt"), own]
    except FileNotFoundError:
        return [own]


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
