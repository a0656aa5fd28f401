"""What runs inside ``import torch`` (entry point ``torch.backends``) and inside ``import paddle`` (from the library in
``paddle_custom_device``), outside of the package on purpose.

Importing ``hardpoint`` mounts a device; a program that did not ask for one must not get one. So this module looks first
whether somebody asked, and imports the package only then.
"""

from __future__ import annotations

import os
import sys
import warnings


def torch_backend() -> None:
    """Mount the chosen device on torch, if one is chosen. Never raises: ``import torch`` must go on."""
    try:
        if not _asked():
            return
        import hardpoint.torch

        hardpoint.torch.mount()
    except Exception as error:
        warnings.warn(f"hardpoint: no device was mounted: {error}", RuntimeWarning, stacklevel=2)


def paddle_backend(address: int) -> None:
    """Mount the chosen devices on Paddle, if any is chosen. Never raises: ``import paddle`` must go on."""
    try:
        if not _asked():
            return _hush_paddle()
        import hardpoint.paddle

        hardpoint.paddle._on_import(address)
    except Exception as error:
        print(f"[hardpoint] no device was mounted on Paddle: {error}", file=sys.stderr)


def _hush_paddle() -> None:
    """Keep Paddle from warning that a library failed which was not meant to do anything, unless others lie beside it.

    Its log is quiet until the interpreter goes on, which is right after the libraries are loaded.
    """
    import ctypes
    from pathlib import Path

    if len(list(Path(os.environ.get("CUSTOM_DEVICE_ROOT", "")).glob("*.so"))) != 1:
        return
    try:
        loaded = ctypes.CDLL("libpaddle.so", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        level = ctypes.c_int.in_dll(loaded, "_ZN3fLI17FLAGS_minloglevelE")
    except (OSError, ValueError):
        return
    before, errors_only = level.value, 2

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    def restore(_: object) -> int:
        level.value = before
        return 0

    _kept.append(restore)
    if ctypes.pythonapi.Py_AddPendingCall(restore, None) == 0:
        level.value = max(before, errors_only)


_kept: list[object] = []


def _asked() -> bool:
    if "hardpoint" in sys.modules or os.environ.get("HARDPOINT_DEVICE") or os.environ.get("HARDPOINT_PLUGIN_PATH"):
        return True
    from importlib.metadata import entry_points

    return any(e.dist is None or e.dist.name != "hardpoint" for e in entry_points(group="hardpoint.plugins"))
