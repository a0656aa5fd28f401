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


def paddle_backend(address: int) -> bool:
    """Mount the chosen devices on Paddle, if any is chosen. Never raises: ``import paddle`` must go on.

    Tells whether Paddle's warning that nothing was mounted is out of place: nobody asked, and no other library is there
    that it could be about.
    """
    try:
        if not _asked():
            from pathlib import Path

            return len(list(Path(os.environ.get("CUSTOM_DEVICE_ROOT", "")).glob("*.so"))) == 1
        import hardpoint.paddle

        hardpoint.paddle._on_import(address)
    except Exception as error:
        print(f"[hardpoint] no device was mounted on Paddle: {error}", file=sys.stderr)
    return False


def _asked() -> bool:
    variables = ("HARDPOINT_DEVICE", "HARDPOINT_PLUGIN_PATH", "HARDPOINT_PADDLE_PLUGIN")
    if "hardpoint" in sys.modules or any(map(os.environ.get, variables)):
        return True
    from importlib.metadata import entry_points

    return any(e.dist is None or e.dist.name != "hardpoint" for e in entry_points(group="hardpoint.plugins"))
