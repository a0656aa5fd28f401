"""The devices of this machine, ``hardpoint.devices()``, and one module for each plug-in that ships with Hardpoint.

The modules know the path of the plug-in's library and its settings: ``hardpoint.devices.sim``, ``cuda``, ``opencl``,
``paddle_bridge``.
"""

from __future__ import annotations

import sys
from types import ModuleType

from hardpoint import _runtime


class _Devices(ModuleType):
    # Importing a submodule rebinds the attribute `hardpoint.devices` to this package, so the package is the function.
    def __call__(self, plugin: str | None = None) -> list[_runtime.Device]:
        return _runtime.devices(plugin)


sys.modules[__name__].__class__ = _Devices
