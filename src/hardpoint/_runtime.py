"""Loads the native core and wraps its functions: devices, counters, time-outs."""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast


def tvm_ffi_library() -> str:
    """Return the path of ``libtvm_ffi.so`` without importing ``tvm_ffi``, which would import torch."""
    spec = importlib.util.find_spec("tvm_ffi")
    if spec is None or spec.origin is None:
        raise ImportError("Hardpoint needs apache-tvm-ffi: python -m pip install apache-tvm-ffi")
    return str(Path(spec.origin).parent / "lib" / "libtvm_ffi.so")


# The core links to libtvm_ffi.so by name, so the installed copy must be loaded first.
ctypes.CDLL(tvm_ffi_library(), mode=ctypes.RTLD_GLOBAL)

from hardpoint import _core  # noqa: E402

core = _core

# Registered first, so it runs after the handlers of the frameworks and of the program.
atexit.register(core.shut_down)

PluginError = core.PluginError
ABI = core.ABI

#: The tier that served a call: the plug-in's kernel, a portable kernel, a decomposition, or the CPU.
Tier = Literal["vendor", "portable", "decomposition", "cpu"]

#: Seconds before a wait for the device is reported as a hang; ``HARDPOINT_TIMEOUT`` overrides it.
DEFAULT_TIMEOUT = 600.0


@dataclass(frozen=True)
class Device:
    """A device of a mounted plug-in. ``str(device)`` is its name in the frameworks, such as ``sim:0``.

    Attributes:
        plugin: Name of the plug-in, such as ``sim``.
        index: Index among the plug-in's devices.
        name: Marketing name.
        compute_units: Number of compute units, 0 if unknown.
        free_memory: Free memory in bytes, when this object was created.
        total_memory: Total memory in bytes, 0 if unknown.
    """

    plugin: str
    index: int
    name: str
    compute_units: int
    free_memory: int
    total_memory: int

    def __str__(self) -> str:
        return f"{self.plugin}:{self.index}"


def package_file(relative: str) -> Path:
    """Return the path of a file installed inside the package, such as ``lib/libhardpoint_sim.so``."""
    import hardpoint

    for root in hardpoint.__path__:
        candidate = Path(root) / relative
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"{relative} is missing from the hardpoint package: reinstall it")


def include_dir() -> Path:
    """Return the include folder of ``hardpoint/plugin.h``, for a compiler's ``-I``."""
    return package_file("include/hardpoint/plugin.h").parent.parent


def cache_dir() -> Path:
    """Return the folder for compiled kernels, adapters and probe results: ``HARDPOINT_CACHE``, or the user's cache."""
    if explicit := os.environ.get("HARDPOINT_CACHE"):
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hardpoint"


def mounted() -> list[str]:
    """Return the names of the plug-ins mounted in this process."""
    return core.mounted()


def only_mounted(hint: str) -> str:
    """Return the name of the only mounted plug-in. ``hint`` tells the user how to name one of several."""
    names = mounted()
    if len(names) != 1:
        raise ValueError(f"which device? mounted: {', '.join(names) or 'none'}; use {hint}")
    return names[0]


def devices(plugin: str | None = None) -> list[Device]:
    """Return the devices of all mounted plug-ins, or of one.

    Args:
        plugin: Name of a mounted plug-in, such as ``sim``.

    Raises:
        PluginError: No plug-in of that name is mounted.
    """
    return [Device(**entry) for name in ([plugin] if plugin else mounted()) for entry in core.devices(name)]


def counters() -> dict[str, dict[Tier, int]]:
    """Return the number of calls per operator and tier: ``{"aten::add.Tensor": {"vendor": 3}}``."""
    return cast("dict[str, dict[Tier, int]]", core.counters())


def reset_counters() -> None:
    """Set all counters to zero."""
    core.reset_counters()


def set_timeout(seconds: float) -> None:
    """Report a hang when a wait for the device takes longer than ``seconds``; 0 disables the time-out."""
    if seconds < 0:
        raise ValueError(f"a time-out cannot be negative: {seconds}")
    core.set_timeout_ms(round(seconds * 1000))


def timeout() -> float:
    """Return the time-out of :func:`set_timeout` in seconds; 0 if there is none."""
    return core.timeout_ms() / 1000


def _timeout_of_environment() -> None:
    text = os.environ.get("HARDPOINT_TIMEOUT") or str(DEFAULT_TIMEOUT)
    try:
        set_timeout(float(text))
    except (ValueError, OverflowError):
        raise PluginError(f"HARDPOINT_TIMEOUT is '{text}': set it to a number of seconds, 0 for no limit") from None


_timeout_of_environment()
