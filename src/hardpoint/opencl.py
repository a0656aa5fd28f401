"""Devices through OpenCL, as ``ocl``: where their plug-in is. HARDPOINT_OPENCL_DEVICE says which of them."""

from __future__ import annotations

from hardpoint._runtime import package_file


def library() -> str:
    """Path of the plug-in (entry point ``hardpoint.plugins``)."""
    return str(package_file("lib/libhardpoint_opencl.so"))
