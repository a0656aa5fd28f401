"""Where the installed files are that a build needs. Imports neither Hardpoint nor a framework."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def include_dirs() -> list[Path]:
    """All that a plug-in or a kernel is compiled against: Hardpoint's header, and those of TVM-FFI and DLPack."""
    return [_find("hardpoint", "include/hardpoint/plugin.h").parent.parent, _find("tvm_ffi", "include")]


def cmake_dir() -> Path:
    """Where CMake's ``find_package(Hardpoint)`` looks: the value of ``Hardpoint_DIR``."""
    return _find("hardpoint", "cmake/HardpointConfig.cmake").parent


def exports() -> Path:
    """The linker's list of what a plug-in or a library of kernels shows."""
    return cmake_dir() / "plugin.map"


def _find(package: str, relative: str) -> Path:
    spec = find_spec(package)
    for root in (spec.submodule_search_locations if spec is not None else None) or ():
        if (Path(root) / relative).exists():
            return Path(root) / relative
    raise FileNotFoundError(f"{relative} of the package {package} is not there: python -m pip install hardpoint")
