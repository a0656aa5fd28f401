"""Paths of the installed files that a build needs. Imports neither Hardpoint nor a framework."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def include_dirs() -> list[Path]:
    """Return the include folders for a plug-in or kernel: Hardpoint, TVM-FFI and DLPack."""
    return [_find("hardpoint", "include/hardpoint/plugin.h").parent.parent, _find("tvm_ffi", "include")]


def cmake_dir() -> Path:
    """Return the value of ``Hardpoint_DIR``, for CMake's ``find_package(Hardpoint)``."""
    return _find("hardpoint", "cmake/HardpointConfig.cmake").parent


def exports() -> Path:
    """Return the linker's version script, which exports the entry point and kernels only."""
    return cmake_dir() / "plugin.map"


def _find(package: str, relative: str) -> Path:
    spec = find_spec(package)
    for root in (spec.submodule_search_locations if spec is not None else None) or ():
        if (Path(root) / relative).exists():
            return Path(root) / relative
    raise FileNotFoundError(f"{relative} of package {package} not found: python -m pip install hardpoint")
