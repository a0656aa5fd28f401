"""Read the exports and dependencies of a shared library with ``readelf``."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SYMBOL = re.compile(
    r"^\s*\d+: \w+\s+\d+ \w+\s+(GLOBAL|WEAK|UNIQUE)\s+(?:DEFAULT|PROTECTED)\s+(\w+) (\S+)(?: \(\d+\))?$"
)
_NEEDED = re.compile(r"\(NEEDED\).*\[(.*)\]")


@dataclass(frozen=True)
class Library:
    """Dynamic symbols and dependencies of a library."""

    exports: tuple[str, ...]
    #: Undefined symbols, without versions.
    imports: tuple[str, ...]
    #: Needed libraries.
    needed: tuple[str, ...]
    #: Symbol versions of the imports, such as ``{"GLIBC": ["2.2.5", "2.34"]}``.
    versions: dict[str, list[str]]


def read(path: Path) -> Library:
    """Read a library. Raises RuntimeError if ``readelf`` is missing or the file is not a library."""
    tool = shutil.which("readelf")
    if tool is None:
        raise RuntimeError("readelf is needed to inspect libraries: apt-get install binutils")
    done = subprocess.run(
        [tool, "-W", "--dynamic", "--dyn-syms", str(path)], capture_output=True, text=True, env={"LC_ALL": "C"}
    )
    if done.returncode != 0 or "Error:" in done.stderr:
        raise RuntimeError(f"{path.name} is not a shared library: {done.stderr.strip()}")
    exports: list[str] = []
    imports: list[str] = []
    versions: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        found = _SYMBOL.match(line)
        if found is None:
            continue
        name, _, version = found[3].partition("@")
        if found[2] != "UND":
            exports.append(name)
            continue
        imports.append(name)
        family, _, number = version.lstrip("@").rpartition("_")
        if family:
            versions.setdefault(family, set()).add(number)
    needed = tuple(_NEEDED.findall(done.stdout))
    ordered = {family: sorted(numbers, key=number_of) for family, numbers in sorted(versions.items())}
    return Library(tuple(exports), tuple(imports), needed, ordered)


def number_of(version: str) -> tuple[int, ...]:
    """Sort key of a version; anything that is not a number sorts first."""
    return tuple(int(part) for part in version.split(".")) if re.fullmatch(r"[\d.]+", version) else ()
