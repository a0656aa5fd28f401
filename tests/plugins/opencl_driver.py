"""Whether there is a driver of OpenCL here."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest


def has_driver() -> bool:
    try:
        count = ctypes.c_uint(0)
        return ctypes.CDLL("libOpenCL.so.1").clGetPlatformIDs(0, None, ctypes.byref(count)) == 0 and count.value > 0
    except OSError:
        return False


def installed_library() -> str:
    """The path of the library that programs open."""
    ctypes.CDLL("libOpenCL.so.1")
    return next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libOpenCL.so" in line)


needs_opencl = pytest.mark.skipif(
    not has_driver(), reason="OpenCL is not installed: apt-get install pocl-opencl-icd ocl-icd-libopencl1"
)
