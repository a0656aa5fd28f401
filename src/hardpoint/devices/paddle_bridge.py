"""Paddle plug-ins (libraries that export ``InitPlugin``) as Hardpoint devices.

The bridge reads the plug-in's path from the environment, so child processes find the same device.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from hardpoint._runtime import PluginError, core, package_file

if TYPE_CHECKING:
    from hardpoint._core import Plugin as LoadedPlugin

#: Path of the Paddle plug-in's library.
VARIABLE = "HARDPOINT_PADDLE_PLUGIN"
#: Overrides the device name given by the plug-in.
NAME_VARIABLE = "HARDPOINT_PADDLE_NAME"
#: Folder of Paddle's libraries, which a plug-in with kernels links to.
LIBS_VARIABLE = "HARDPOINT_PADDLE_LIBS"


def library() -> Path:
    """Return the path of the bridge's library."""
    return package_file("lib/libhardpoint_paddle_bridge.so")


def _find_paddle_libraries() -> None:
    # Importing paddle would open every plug-in that is installed for it.
    spec = importlib.util.find_spec("paddle")
    if LIBS_VARIABLE not in os.environ and spec is not None and spec.origin is not None:
        os.environ[LIBS_VARIABLE] = str(Path(spec.origin).parent / "libs")


def is_paddle_plugin(path: Path) -> bool:
    """Return whether a library exports Paddle's entry point and not Hardpoint's.

    Reads the file instead of opening the library, which may depend on Paddle's libraries.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return b"\0InitPlugin\0" in content and b"hp_plugin_init\0" not in content


def load(path: Path) -> LoadedPlugin:
    """Load a Paddle plug-in through the bridge, without mounting it.

    Args:
        path: The library that ``HARDPOINT_PADDLE_PLUGIN`` names.
    """
    from hardpoint import _discovery

    path = path.resolve()
    if not path.is_file():
        raise PluginError(f"{path}: no such file; {VARIABLE} must be the path of a Paddle plug-in's library")
    _find_paddle_libraries()
    bridge = library()
    try:
        _discovery.probe(bridge, subject=path)
        return core.load(str(bridge))
    except PluginError as error:
        raise PluginError(_blame_plugin(str(path), str(error), str(bridge))) from None


def _blame_plugin(path: str, message: str, bridge: str) -> str:
    """Rewrite an error about the bridge into one about the Paddle plug-in behind it."""
    message = re.sub(rf"^{re.escape(bridge)}: (hp_plugin_init failed \([a-z ]*\): )?", "", message)
    return message if message.startswith(f"{path}: ") else f"{path}: {message}"
