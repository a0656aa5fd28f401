"""The core library: loading it, and what it tells about mounted plug-ins."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path
from typing import Any


def tvm_ffi_library() -> str:
    """Path of ``libtvm_ffi.so``. Importing its package would import torch, if that is installed."""
    spec = importlib.util.find_spec("tvm_ffi")
    if spec is None or spec.origin is None:
        raise ImportError("Hardpoint needs apache-tvm-ffi: python -m pip install apache-tvm-ffi")
    return str(Path(spec.origin).parent / "lib" / "libtvm_ffi.so")


# The core links to libtvm_ffi.so by name: loading it first, from wherever it is installed, settles which one.
ctypes.CDLL(tvm_ffi_library(), mode=ctypes.RTLD_GLOBAL)

from hardpoint import _core  # noqa: E402

core = _core

PluginError = core.PluginError
ABI = core.ABI

#: Seconds after which a wait for the device is reported as a hang, unless HARDPOINT_TIMEOUT says otherwise.
DEFAULT_TIMEOUT = 600.0


def package_file(relative: str) -> Path:
    """A file that the build installed inside the package, such as ``lib/libhardpoint_sim.so``."""
    import hardpoint

    for root in hardpoint.__path__:
        candidate = Path(root) / relative
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"{relative} is missing from the hardpoint package: reinstall it")


def include_dir() -> Path:
    """Where ``hardpoint/plugin.h`` is, for a compiler's ``-I``."""
    return package_file("include/hardpoint/plugin.h").parent.parent


def mounted() -> list[str]:
    """Names of the plug-ins that are mounted in this process."""
    return core.mounted()


def devices(name: str | None = None) -> list[dict[str, Any]]:
    """The devices of one mounted plug-in, or of all: name, compute units, free and total memory."""
    found: list[dict[str, Any]] = []
    for each in [name] if name else mounted():
        found += core.devices(each)
    return found


def counters() -> dict[str, dict[str, int]]:
    """How many calls each operator had in each tier: ``{"aten::add.Tensor": {"vendor": 3}}``."""
    return core.counters()


def reset_counters() -> None:
    """Set all counters to zero."""
    core.reset_counters()


def set_timeout(seconds: float) -> None:
    """Report a hang when a wait for the device takes longer than this; 0 waits for ever."""
    if seconds < 0:
        raise ValueError(f"a time-out cannot be negative: {seconds}")
    core.set_timeout_ms(round(seconds * 1000))


def timeout() -> float:
    """Seconds after which a wait is reported as a hang; 0 for never."""
    return float(core.timeout_ms()) / 1000


set_timeout(float(os.environ.get("HARDPOINT_TIMEOUT", DEFAULT_TIMEOUT)))
