"""Makes Hardpoint's driver the only active one of Triton in a program that mounts a device."""

from __future__ import annotations

import sys
from typing import Any

from hardpoint._import_hook import after_import


def install() -> None:
    """Choose when Triton is imported, which most programs never do."""
    after_import("triton.backends", _choose)


def _choose() -> None:
    """Triton requires exactly one active driver. With an NVIDIA GPU, cuda's would be active too."""
    import hardpoint_triton

    backends: dict[str, Any] = sys.modules["triton.backends"].backends
    ours = backends.pop("hardpoint", None)
    if ours is None:  # Hardpoint is on the path but not installed
        return
    others = dict(backends)
    backends.clear()
    backends.update(hardpoint=ours, **others)  # first: Inductor takes the first that is active
    for backend in others.values():
        _step_aside(backend.driver, hardpoint_triton.device_name)
    if (runtime := sys.modules.get("triton.runtime.driver")) is not None:
        # Forget a choice that was made before the device was mounted.
        runtime.driver._default = runtime.driver._active = None


def _step_aside(driver: Any, device_name: Any) -> None:
    original = driver.is_active

    def is_active(*arguments: Any) -> bool:
        return device_name() is None and bool(original(*arguments))

    driver.is_active = staticmethod(is_active)
