"""Hardpoint's backend of Triton (entry point ``triton.backends``).

Outside of the package ``hardpoint``, whose import mounts a device: Triton imports its backends in every program.
Nothing here imports Hardpoint before a device is mounted.
"""

from __future__ import annotations

import sys

#: Programs are not split into threads, but Inductor's heuristics divide by this and expect what GPUs have.
WARP_SIZE = 32
#: Dialects of the compilers that Triton kernels are translated for. Not "cuda": there Triton's own driver is active.
DIALECTS = ("c", "opencl")


def device_name() -> str | None:
    """Name of the device that is mounted on torch and has a compiler, or None."""
    adapter = sys.modules.get("hardpoint.torch")
    name: str | None = adapter.device_name() if adapter is not None else None
    if name is None:
        return None
    from hardpoint._runtime import core

    compiler = core.compiler(name, 0)
    return name if compiler is not None and compiler[0] in DIALECTS else None
