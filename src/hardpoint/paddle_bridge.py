"""Paddle plug-ins (libraries with ``InitPlugin``) as devices of Hardpoint, through ``plugins/paddle_bridge``.

The bridge reads the path from the environment, so that every process a program starts finds the same device.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Any

from hardpoint._runtime import PluginError, core, package_file

#: Path of the Paddle plug-in's library.
VARIABLE = "HARDPOINT_PADDLE_PLUGIN"
#: A name for its device, in place of the one that the plug-in gives.
NAME_VARIABLE = "HARDPOINT_PADDLE_NAME"
#: Folder of Paddle's own libraries, for plug-ins that have kernels.
LIBS_VARIABLE = "HARDPOINT_PADDLE_LIBS"


def library() -> Path:
    """The bridge itself, a plug-in of Hardpoint's."""
    return package_file("lib/libhardpoint_paddle_bridge.so")


def _find_paddle_libraries() -> None:
    # Paddle's package is found, not imported: that would open every plug-in that is installed for it.
    spec = importlib.util.find_spec("paddle")
    if LIBS_VARIABLE not in os.environ and spec is not None and spec.origin is not None:
        os.environ[LIBS_VARIABLE] = str(Path(spec.origin).parent / "libs")


def is_paddle_plugin(path: Path) -> bool:
    """Whether a library names Paddle's entry and not Hardpoint's. It is not opened, which may take Paddle's own."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return b"\0InitPlugin\0" in content and b"hp_plugin_init\0" not in content


def load(path: Path) -> Any:
    """Load the Paddle plug-in that HARDPOINT_PADDLE_PLUGIN names, without mounting it."""
    from hardpoint import plugins

    path = path.resolve()
    if not path.is_file():
        raise PluginError(f"{path}: there is no such file; {VARIABLE} names the library of a Paddle plug-in")
    _find_paddle_libraries()
    bridge = library()
    try:
        plugins.probe(bridge, subject=path)
        return core.load(str(bridge))
    except PluginError as error:
        raise PluginError(_about(str(path), str(error), str(bridge))) from None


def _about(path: str, message: str, bridge: str) -> str:
    """The message as one about the Paddle plug-in: that it came through the bridge's init says nothing."""
    message = re.sub(rf"^{re.escape(bridge)}: (hp_plugin_init failed \([a-z ]*\): )?", "", message)
    return message if message.startswith(f"{path}: ") else f"{path}: {message}"
