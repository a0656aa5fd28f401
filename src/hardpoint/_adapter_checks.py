"""Checks before an adapter is compiled, each with the next step for the user. ``hardpoint doctor`` shows them too."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hardpoint._adapters import Adapter, version_numbers

#: Free space in bytes that a build needs in its work folder: about 1 GB, and some reserve.
NEEDED_SPACE = 1_500_000_000
#: Free space in bytes that the finished library needs: up to 10 MB, and some reserve.
RESULT_SPACE = 50_000_000
MINIMUM_CMAKE = (3, 20)
INSTALL_TOOLS = 'python -m pip install "hardpoint[build]"'


@dataclass(frozen=True)
class Problem:
    """A reason why an adapter cannot be built.

    Attributes:
        text: The missing thing.
        advice: How to get it.
    """

    text: str
    advice: str


def problems(adapter: Adapter) -> Iterator[Problem]:
    """Check everything except the free space."""
    oldest, newest = adapter.supported
    version = adapter.version()
    if version_numbers(version) < version_numbers(oldest):
        text = f"{adapter.framework} {version} is not supported; supported versions are {oldest} to {newest}"
        yield Problem(text, "install one of them")
    if compiler() is None:
        wanted = os.environ.get("CXX")
        text = f"CXX is '{wanted}', which is not found" if wanted else "no C++ compiler is found (c++, g++ or $CXX)"
        yield Problem(text, "apt-get install g++")
    yield from _cmake_problems()
    for module, package in adapter.needs:
        if importlib.util.find_spec(module) is None:
            yield Problem(f"{package} is not installed", INSTALL_TOOLS)
    headers = sysconfig.get_path("include")
    if not os.path.exists(os.path.join(headers, "Python.h")):
        yield Problem(f"the Python headers are missing ({headers}/Python.h)", "apt-get install python3-dev")
    folders = adapter.folders_for_builds()
    if not any(map(is_writable, folders)):
        yield not_writable(folders)


def all_problems(adapter: Adapter) -> Iterator[Problem]:
    """Check everything, including the free space."""
    yield from problems(adapter)
    folder = next(filter(is_writable, adapter.folders_for_builds()), None)
    if folder is not None and isinstance(found := work_root(folder), Problem):
        yield found


def not_writable(folders: Iterable[Path]) -> Problem:
    """Return the problem that none of the folders can be written to."""
    text = f"there is no writable folder to keep it in (tried: {', '.join(map(str, folders))})"
    return Problem(text, "set HARDPOINT_CACHE to a writable folder")


def full(folders: Iterable[Path]) -> Problem:
    """Return the problem that those of the folders that can be written to have no space for the result."""
    text = f"there is no space to keep it in (full: {', '.join(map(str, folders))})"
    return Problem(text, "free some, or set HARDPOINT_CACHE to a folder on a larger disk")


def compiler() -> str | None:
    """Return the C++ compiler that CMake will choose, or None."""
    if wanted := shlex.split(os.environ.get("CXX", "")):
        return shutil.which(wanted[0])
    return next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)


def compiler_version(path: str) -> str:
    """Return the first line of the compiler's ``--version``, or its path."""
    output = _output(path, "--version")
    return output.splitlines()[0] if output else path


def tool(name: str) -> str | None:
    """Return the path of a program, preferably the one that pip installed beside this Python."""
    return shutil.which(name, path=os.path.dirname(sys.executable)) or shutil.which(name)


def _cmake_problems() -> Iterator[Problem]:
    cmake = tool("cmake")
    if cmake is None:
        yield Problem("cmake is not installed", INSTALL_TOOLS)
        return
    minimum = ".".join(map(str, MINIMUM_CMAKE))
    found = re.search(r"version (\d+)\.(\d+)", _output(cmake, "--version"))
    if found is None:
        yield Problem(f"{cmake} does not run", INSTALL_TOOLS)
    elif (int(found[1]), int(found[2])) < MINIMUM_CMAKE:
        yield Problem(f"{cmake} is version {found[1]}.{found[2]}, but {minimum} is needed", INSTALL_TOOLS)
    if tool("ninja") is None and shutil.which("make") is None:
        yield Problem("neither ninja nor make is installed", INSTALL_TOOLS)


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace").stdout
    except OSError:
        return ""


def is_writable(folder: Path) -> bool:
    """Whether a folder can be written to, or created."""
    existing = _existing(folder)
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def work_root_candidates(folder: Path) -> list[Path]:
    """Return where the work folder of a build may be: the system's temporary folder, else beside the result."""
    try:
        return [Path(tempfile.gettempdir()), folder]
    except OSError:  # no usable temporary folder
        return [folder]


def work_root(folder: Path) -> Path | Problem:
    """Return the first of ``work_root_candidates`` with enough space for a build, or the problem that there is none."""
    free = {root: shutil.disk_usage(_existing(root)).free for root in work_root_candidates(folder)}
    for root, space in free.items():
        if space >= NEEDED_SPACE:
            return root
    return no_space(", ".join(f"{root} has {space / 1e9:.1f} GB free" for root, space in free.items()))


def no_space(detail: str) -> Problem:
    """Return the problem that the disk is full."""
    text = f"there is not enough space: a build needs {NEEDED_SPACE / 1e9:.1f} GB ({detail})"
    return Problem(text, "free some, or set TMPDIR to a folder on a larger disk")


def _existing(folder: Path) -> Path:
    """Return the folder itself, or the closest parent that exists."""
    return next(path for path in (folder, *folder.parents) if os.path.exists(path) or path == path.parent)
