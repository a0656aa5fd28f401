"""Hardpoint: mount any accelerator on PyTorch and PaddlePaddle with one plug-in.

Importing this package mounts a device on torch and Paddle, or schedules that for their import: the device named by
``HARDPOINT_DEVICE``, else that of the installed vendor plug-in, else the simulated accelerator ``sim``.
"""

from __future__ import annotations

import os as _os
import sys as _sys
import typing as _typing
import warnings as _warnings
from importlib.util import find_spec as _find_spec

from hardpoint._runtime import Device, PluginError, Tier, counters, mounted, reset_counters, set_timeout, timeout
from hardpoint.debug._tool import environment as _environment
from hardpoint.debug.compare import Mismatch, compare
from hardpoint.debug.dump import dump
from hardpoint.debug.fallback import fallback
from hardpoint.debug.leaks import leaks
from hardpoint.debug.nan import NonFiniteError, watch_nan
from hardpoint.debug.record import record
from hardpoint.debug.summary import summary
from hardpoint.kernels import kernel

__all__ = [
    "Device",
    "Mismatch",
    "NonFiniteError",
    "PluginError",
    "Tier",
    "__version__",
    "compare",
    "counters",
    "devices",
    "dump",
    "fallback",
    "kernel",
    "leaks",
    "mounted",
    "record",
    "reset_counters",
    "set_timeout",
    "summary",
    "timeout",
    "watch_nan",
]


if _typing.TYPE_CHECKING:
    from hardpoint._runtime import devices

    __version__: str
else:
    from hardpoint import devices  # callable, and the package of the shipped plug-ins

    def __getattr__(name: str) -> str:
        # Lazy: reading the package's metadata takes milliseconds.
        if name == "__version__":
            from importlib.metadata import version

            return version("hardpoint")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _mount_on_loaded_frameworks() -> None:
    off = _os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0"
    if off and _find_spec("torch") and not _works_without_adapter():
        import torch  # noqa: F401  (a later import of torch would not mount the device)
    if _imported("torch"):
        import hardpoint.torch

        hardpoint.torch.mount()
    if _imported("paddle"):
        import hardpoint._discovery
        import hardpoint.paddle

        chosen = hardpoint._discovery.choose()
        try:
            hardpoint.paddle.mount(chosen)
        except PluginError as error:  # too late for Paddle; the program may not need it
            _warnings.warn(f"hardpoint: no device was mounted on Paddle: {error}", RuntimeWarning, stacklevel=2)


def _works_without_adapter() -> bool:
    """Whether this is ``hardpoint build`` or ``hardpoint doctor``: mounting a device could start a build first."""
    commands = ("build", "doctor")
    pairs = zip(_sys.orig_argv, _sys.orig_argv[1:], strict=False)
    return any(_os.path.basename(one) in ("hardpoint", "hardpoint.cli") and two in commands for one, two in pairs)


def _imported(framework: str) -> bool:
    loaded = _sys.modules.get(framework)
    # A framework that is still being imported calls hardpoint_autoload at the end.
    return loaded is not None and not getattr(getattr(loaded, "__spec__", None), "_initializing", False)


_mount_on_loaded_frameworks()
_environment.start()
