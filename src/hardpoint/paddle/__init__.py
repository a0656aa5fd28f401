"""PaddlePaddle on the mounted plug-ins.

Paddle asks for devices while it is imported, and only then: what is chosen at that time is mounted.
"""

from __future__ import annotations

import sys

from hardpoint._runtime import PluginError, package_file

#: Device types that Paddle knows by itself.
RESERVED = ("cpu", "gpu", "gpu_pinned", "xpu", "ipu", "custom")

_mounted: list[str] = []


def device_names() -> list[str]:
    """The names of the devices that are mounted on Paddle."""
    return list(_mounted)


def _on_import(address: int) -> None:
    """Answer Paddle's InitPlugin: mount what is chosen. ``address`` is that of its CustomRuntimeParams.

    Paddle wants one device from a library; the first fills what it gave, others are added beside it.
    """
    from hardpoint import plugins
    from hardpoint.kernels import portable
    from hardpoint.paddle import _adapter

    adapter = _adapter.load()
    portable.register()
    for plugin in plugins.chosen(_say):
        try:
            if plugin.name in RESERVED:
                raise PluginError(f"'{plugin.name}' is a device type of Paddle itself: give the plug-in another name")
            plugins.mount(plugin)
            if _mounted:
                adapter.add_device(plugin.name, str(package_file("../paddle_custom_device/libhardpoint_paddle.so")))
            else:
                adapter.fill_interface(address, plugin.name)
            adapter.register_kernels(plugin.name)
        except RuntimeError as error:
            _say(error)
        else:
            _mounted.append(plugin.name)


def _say(error: Exception) -> None:
    print(f"[hardpoint] no device was mounted on Paddle: {error}", file=sys.stderr)
