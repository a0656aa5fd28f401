"""Hardpoint: mount any accelerator on PyTorch and PaddlePaddle with one plug-in.

Importing this package asks for a device: the one that ``HARDPOINT_DEVICE`` names, else the vendor's plug-in that is
installed, else the simulated accelerator ``sim``. It is mounted on torch and on Paddle at once if they are imported
already, else when they are.
"""

from __future__ import annotations

import os as _os
import sys as _sys
import warnings as _warnings
from importlib.util import find_spec as _find_spec

from hardpoint._runtime import (
    PluginError,
    counters,
    devices,
    mounted,
    reset_counters,
    set_timeout,
    timeout,
)
from hardpoint.kernels import kernel
from hardpoint.toolbox import Mismatch, NotFinite, alive, compare, dump, fallback, record, summary, watch_nan
from hardpoint.toolbox import settings as _settings

__version__ = "0.1.0"
__all__ = [
    "Mismatch",
    "NotFinite",
    "PluginError",
    "alive",
    "compare",
    "counters",
    "devices",
    "dump",
    "fallback",
    "kernel",
    "mounted",
    "record",
    "reset_counters",
    "set_timeout",
    "summary",
    "timeout",
    "watch_nan",
]


def _mount_on_loaded_frameworks() -> None:
    if _os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0" and _find_spec("torch"):
        import torch  # noqa: F401  (nobody else would mount the device when torch is imported later)
    if _imported("torch"):
        import hardpoint.torch

        hardpoint.torch.mount()
    if _imported("paddle"):
        import hardpoint.paddle
        import hardpoint.plugins

        chosen = hardpoint.plugins.choose()
        try:
            hardpoint.paddle.mount(chosen)
        except PluginError as error:  # it is too late, which need not matter to the rest of the program
            _warnings.warn(f"hardpoint: no device was mounted on Paddle: {error}", RuntimeWarning, stacklevel=2)


def _imported(framework: str) -> bool:
    loaded = _sys.modules.get(framework)
    # While a framework itself is being imported, its own autoload step calls us at the end.
    return loaded is not None and not getattr(getattr(loaded, "__spec__", None), "_initializing", False)


_mount_on_loaded_frameworks()
_settings.start()
