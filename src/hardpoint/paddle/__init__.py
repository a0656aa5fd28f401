"""PaddlePaddle on the mounted plug-ins. It has room for several, each under its own name."""

from __future__ import annotations

import sys
import threading
from typing import Any

from hardpoint._runtime import PluginError, package_file

#: Device types that Paddle knows by itself.
RESERVED = ("cpu", "gpu", "gpu_pinned", "xpu", "ipu", "custom")

_lock = threading.Lock()
_mounted: list[str] = []


def device_names() -> list[str]:
    """The names of the devices that are mounted on Paddle."""
    return list(_mounted)


def mount(plugin: Any = None) -> str:
    """Mount a plug-in (the chosen one, if none is given) on Paddle and return the device's name.

    What is chosen when Paddle is imported needs no call. A device that is mounted later does not become Paddle's
    default device.
    """
    import paddle  # noqa: F401

    from hardpoint import plugins

    with _lock:
        plugin = plugin if plugin is not None else plugins.choose()
        if plugin.name not in _mounted:
            _add(plugin, 0).finish_late(plugin.name)
        return str(plugin.name)


def _on_import(address: int) -> None:
    """Answer Paddle's InitPlugin: mount what is chosen. ``address`` is that of its CustomRuntimeParams.

    Paddle wants one device from a library; the first fills what it gave, others are added beside it.
    """
    from hardpoint import plugins

    for plugin in plugins.chosen(_say):
        try:
            _add(plugin, 0 if _mounted else address)
        except RuntimeError as error:
            _say(error)


def _add(plugin: Any, address: int) -> Any:
    """Make a device of Paddle out of a plug-in, in the table at ``address`` or in one of its own."""
    from hardpoint import plugins
    from hardpoint.kernels import portable
    from hardpoint.paddle import _adapter

    if plugin.name in RESERVED:
        raise PluginError(f"'{plugin.name}' is a device type of Paddle itself: give the plug-in another name")
    adapter = _adapter.load()
    plugins.mount(plugin)
    portable.register()
    if address:
        adapter.fill_interface(address, plugin.name)
    else:
        adapter.add_device(plugin.name, str(package_file("../paddle_custom_device/libhardpoint_paddle.so")))
    adapter.register_kernels(plugin.name)
    _mounted.append(plugin.name)
    return adapter


def _say(error: Exception) -> None:
    print(f"[hardpoint] no device was mounted on Paddle: {error}", file=sys.stderr)
