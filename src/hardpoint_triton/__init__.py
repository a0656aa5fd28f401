"""Hardpoint's backend of Triton (entry point ``triton.backends``).

A package of its own, because Triton imports its backends in every program and importing ``hardpoint`` mounts a device.
Nothing here imports Hardpoint before a device is mounted.
"""

from __future__ import annotations

import sys


def device_name() -> str | None:
    """Name of the device that is mounted on torch and runs Triton kernels, or None."""
    adapter = sys.modules.get("hardpoint.torch")
    name: str | None = adapter.device_name() if adapter is not None else None
    if name is None:
        return None
    from hardpoint.triton import generators

    return name if generators.kind(name) is not None else None
