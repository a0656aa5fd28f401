"""OpenCL devices, device ``ocl``: the library of their plug-in. ``HARDPOINT_OPENCL_DEVICE`` selects the devices."""

from __future__ import annotations

from hardpoint._runtime import package_file


def library() -> str:
    """Return the path of the plug-in's library (entry point ``hardpoint.plugins``)."""
    return str(package_file("lib/libhardpoint_opencl.so"))
