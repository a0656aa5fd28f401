"""PyTorch on the mounted plug-in: mounting, and the Python face of the adapter."""

from __future__ import annotations

import atexit
import threading
from typing import Any

from hardpoint._runtime import PluginError

_lock = threading.Lock()
_mounted: str | None = None


def device_name() -> str | None:
    """The name of the device that is mounted on torch, or None."""
    return _mounted


def mount(plugin: Any = None) -> str:
    """Mount a plug-in (the chosen one, if none is given) on torch's PrivateUse1 and return the device's name.

    torch has one such slot in a process: mounting the same device again does nothing, another one is an error.
    """
    global _mounted
    # Before the lock: torch mounts the device itself when it is imported for the first time.
    import torch  # noqa: F401

    from hardpoint import plugins
    from hardpoint.kernels import portable
    from hardpoint.torch import _adapter, _exit

    with _lock:
        if _mounted is not None:
            if plugin is None or plugin.name == _mounted:
                return _mounted
            raise PluginError(
                f"'{_mounted}' is mounted on torch already, and torch has room for one: not '{plugin.name}'"
            )
        plugin = plugin if plugin is not None else plugins.choose()
        _check_name(plugin.name)
        # Everything that can be refused is refused before torch is told anything.
        adapter = _adapter.load()
        plugins.mount(plugin)
        portable.register()
        adapter.attach(plugin.name)
        atexit.register(_exit.end_backward_threads, adapter)
        _expose(plugin.name, adapter)
        _mounted = plugin.name
        return str(plugin.name)


def _check_name(name: str) -> None:
    import torch

    slot = torch._C._get_privateuse1_backend_name()
    if slot != "privateuseone":
        raise PluginError(f"torch has room for one device, and '{slot}' has it already: '{name}' cannot be mounted")
    taken = what_hides(name)
    if taken:
        raise PluginError(f"device name '{name}' cannot be used with torch: it {taken}; give the plug-in another name")


def what_hides(name: str) -> str | None:
    """Why torch has no room for a device of this name, or None."""
    import torch

    try:
        torch.device(name)
        return "is a device type of torch itself"
    except RuntimeError:
        if hasattr(torch, name):
            return f"would hide torch.{name}"
        if hasattr(torch.Tensor, name) or hasattr(torch.nn.Module, name):
            return f"would hide Tensor.{name} or Module.{name}"
    return None


def _expose(name: str, adapter: Any) -> None:
    import torch

    from hardpoint.torch import _device_module, distributed, printing, sharing, tracing

    torch.utils.rename_privateuse1_backend(name)
    torch._register_device_module(name, _device_module.make(name, adapter))
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    sharing.register(name, adapter)
    printing.register(name)
    tracing.register()
    distributed.register(name, adapter)
