"""NVIDIA GPUs, device ``nv``: the library of their plug-in, and its settings."""

from __future__ import annotations

import importlib.util
import os
from ctypes import c_int
from pathlib import Path

from hardpoint._runtime import package_file
from hardpoint.devices import private_function

#: Folders to search for NVRTC, cuBLASLt and cuDNN before the system's, separated by ``:``.
PATH_VARIABLE = "HARDPOINT_CUDA_PATH"


def library_folders() -> list[str]:
    """Return the library folders of NVIDIA's installed wheels."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or []) if spec is not None else []
    return [str(folder) for root in roots for folder in sorted(Path(root).glob("*/lib"))]


def library() -> str:
    """Return the path of the plug-in's library (entry point ``hardpoint.plugins``)."""
    if PATH_VARIABLE not in os.environ:
        os.environ[PATH_VARIABLE] = os.pathsep.join(library_folders())
    return str(package_file("lib/libhardpoint_cuda.so"))


def allow_tf32(allowed: bool = True) -> bool:
    """Allow TF32 in float32 matrix products and convolutions, and return the previous setting.

    Off by default; ``HARDPOINT_TF32=1`` turns it on.
    """
    return bool(private_function(library(), "allow_tf32", c_int, c_int)(int(allowed)))


def allow_flash(allowed: bool = True) -> bool:
    """Allow flash attention for 16-bit floats, and return the previous setting.

    On by default; ``HARDPOINT_FLASH=0`` turns it off.
    """
    return bool(private_function(library(), "allow_flash", c_int, c_int)(int(allowed)))
