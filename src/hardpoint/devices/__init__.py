"""The devices of this machine, ``hardpoint.devices()``, and one module for each plug-in that ships with Hardpoint.

The modules know the path of the plug-in's library and its settings: ``hardpoint.devices.sim``, ``cuda``, ``opencl``,
``paddle_bridge``.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from types import ModuleType

from hardpoint import _runtime


def private_function(library: str, name: str, result: type, *arguments: type) -> Callable[..., object]:
    """Return a function that a plug-in offers outside the contract (``HpPlugin.private_function``).

    Args:
        library: Path of the plug-in's library. It is loaded and initialized if necessary.
        name: Name that the plug-in gave the function.
        result: The type of its result, from ``ctypes``.
        arguments: The types of its arguments.

    Raises:
        PluginError: The plug-in cannot be loaded, or has no such function.
    """
    plugin = _runtime.core.load(library)
    address = plugin.private_function(name)
    if not address:
        raise _runtime.PluginError(f"plug-in '{plugin.name}' ({library}) has no private function '{name}'")
    prototype = ctypes.CFUNCTYPE(result, *arguments)
    return prototype(address)


class _Devices(ModuleType):
    # Importing a submodule rebinds the attribute `hardpoint.devices` to this package, so the package is the function.
    def __call__(self, plugin: str | None = None) -> list[_runtime.Device]:
        return _runtime.devices(plugin)


sys.modules[__name__].__class__ = _Devices
