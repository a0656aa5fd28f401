"""NVIDIA devices, as ``nv``: where their plug-in is, and its settings."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path

from hardpoint._runtime import package_file

#: Folders where the plug-in looks for NVRTC, cuBLASLt and cuDNN before it asks the system, separated by ``:``.
PATH_VARIABLE = "HARDPOINT_CUDA_PATH"


def library_folders() -> list[str]:
    """Folders of the CUDA libraries that NVIDIA's wheels bring along."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or []) if spec is not None else []
    return [str(folder) for root in roots for folder in sorted(Path(root).glob("*/lib"))]


def library() -> str:
    """Path of the plug-in (entry point ``hardpoint.plugins``)."""
    if PATH_VARIABLE not in os.environ:
        os.environ[PATH_VARIABLE] = os.pathsep.join(library_folders())
    return str(package_file("lib/libhardpoint_cuda.so"))


def allow_tf32(allowed: bool = True) -> bool:
    """Let matrix products and convolutions of float32 round their factors to TF32; returns what was set before.

    It starts as ``HARDPOINT_TF32`` says: 1 allows it, everything else, or nothing, does not.
    """
    return bool(ctypes.CDLL(library()).hp_nv_allow_tf32(int(allowed)))


def allow_flash(allowed: bool = True) -> bool:
    """Let attention of 16-bit floats run without a matrix of scores, in kernels of its own; returns what was set.

    It starts as ``HARDPOINT_FLASH`` says: 0 does not allow it, everything else, or nothing, does.
    """
    return bool(ctypes.CDLL(library()).hp_nv_allow_flash(int(allowed)))
