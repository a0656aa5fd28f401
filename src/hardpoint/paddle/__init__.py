"""Mount plug-ins on PaddlePaddle, which takes several, each under its own name."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from hardpoint._runtime import PluginError, package_file

if TYPE_CHECKING:
    from hardpoint._core import Plugin as LoadedPlugin

#: Built-in device types of Paddle.
RESERVED = ("cpu", "gpu", "gpu_pinned", "xpu", "ipu", "custom")

_lock = threading.Lock()
_mounted: list[str] = []


def device_names() -> list[str]:
    """Names of the devices mounted on Paddle."""
    return list(_mounted)


def mount(plugin: LoadedPlugin | None = None) -> str:
    """Mount a plug-in, by default the chosen one, on Paddle and return the device name.

    Importing Paddle mounts the chosen plug-ins automatically. A device mounted later does not become Paddle's default.
    """
    import paddle  # noqa: F401

    from hardpoint import _discovery

    with _lock:
        plugin = plugin if plugin is not None else _discovery.choose()
        if plugin.name not in _mounted:
            _add(plugin, 0).finish_late(plugin.name)
        return plugin.name


def _on_import(address: int) -> None:
    """Mount the chosen plug-ins; Paddle's InitPlugin calls this with the address of its CustomRuntimeParams.

    Paddle expects one device per library: the first plug-in fills that struct, the others are added separately.
    """
    from hardpoint import _discovery

    for plugin in _discovery.choose_all(_report):
        try:
            _add(plugin, 0 if _mounted else address)
        except RuntimeError as error:
            _report(error)


def _add(plugin: LoadedPlugin, address: int) -> Any:
    """Register a plug-in as a Paddle device, in the struct at ``address`` or, if 0, in a new one."""
    from hardpoint import _discovery
    from hardpoint.kernels import specializer
    from hardpoint.paddle import _adapter

    if plugin.name in RESERVED:
        raise PluginError(f"'{plugin.name}' is a built-in device type of Paddle: rename the plug-in")
    adapter = _adapter.load()
    _discovery.mount(plugin)
    specializer.register()
    if address:
        adapter.fill_interface(address, plugin.name)
    else:
        adapter.add_device(plugin.name, str(package_file("../paddle_custom_device/libhardpoint_paddle.so")))
    adapter.register_kernels(plugin.name)
    _mounted.append(plugin.name)
    return adapter


def _report(error: Exception) -> None:
    print(f"[hardpoint] no device was mounted on Paddle: {error}", file=sys.stderr)
