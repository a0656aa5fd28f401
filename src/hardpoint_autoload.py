"""Hooks that run inside ``import torch`` (entry point ``torch.backends``) and ``import paddle`` (its loader library).

Importing ``hardpoint`` mounts a device, so this module is outside the package and imports it only if the program or its
environment asked for a device.
"""

from __future__ import annotations

import os
import sys
import warnings


def torch_backend() -> None:
    """Mount the chosen device on torch. Never raises, since that would break ``import torch``."""
    try:
        if not _is_wanted():
            return
        import hardpoint.torch

        hardpoint.torch.mount()
    except (KeyboardInterrupt, SystemExit):  # the latter from a tool whose environment variable is wrong
        raise
    except BaseException as error:
        message = f"hardpoint: no device was mounted: {error}\n`hardpoint doctor` lists all problems"
        warnings.warn(message, RuntimeWarning, stacklevel=2)


def paddle_backend(address: int) -> bool:
    """Mount the chosen devices on Paddle. Never raises, since that would break ``import paddle``.

    Args:
        address: Address of Paddle's ``CustomRuntimeParams``.

    Returns:
        Whether to suppress Paddle's warning that no device was registered: none was asked for, and Hardpoint's is the
        only plug-in library.
    """
    try:
        if not _is_wanted():
            from pathlib import Path

            return len(list(Path(os.environ.get("CUSTOM_DEVICE_ROOT", "")).glob("*.so"))) == 1
        import hardpoint.paddle

        hardpoint.paddle._on_import(address)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        print(f"[hardpoint] no device was mounted on Paddle: {error}", file=sys.stderr)
    return False


def _is_wanted() -> bool:
    variables = ("HARDPOINT_DEVICE", "HARDPOINT_PLUGIN_PATH", "HARDPOINT_PADDLE_PLUGIN")
    if "hardpoint" in sys.modules or any(map(os.environ.get, variables)):
        return True
    from importlib.metadata import entry_points

    return any(e.dist is None or e.dist.name != "hardpoint" for e in entry_points(group="hardpoint.plugins"))
