"""Mount a plug-in on PyTorch."""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING, Any

from hardpoint._runtime import PluginError

if TYPE_CHECKING:
    from hardpoint._core import Plugin as LoadedPlugin

_lock = threading.Lock()
_mounted: str | None = None


def device_name() -> str | None:
    """Name of the device mounted on torch, or None."""
    return _mounted


def mount(plugin: LoadedPlugin | None = None) -> str:
    """Mount a plug-in, by default the chosen one, on torch's PrivateUse1 and return the device name.

    torch has one PrivateUse1 slot per process: mounting the same device again does nothing, another one is an error.
    """
    global _mounted
    # Before the lock: the first import of torch mounts the device itself.
    import torch  # noqa: F401

    from hardpoint import _discovery, integrations
    from hardpoint.debug import fallback
    from hardpoint.inductor import hooks
    from hardpoint.kernels import specializer
    from hardpoint.torch import _adapter, _exit, usage
    from hardpoint.triton import driver_choice

    with _lock:
        if _mounted is not None:
            if plugin is None or plugin.name == _mounted:
                return _mounted
            raise PluginError(
                f"cannot mount '{plugin.name}': torch takes one device per process, and '{_mounted}' is mounted"
            )
        plugin = plugin if plugin is not None else _discovery.choose()
        _check_name(plugin.name)
        # Validate everything before changing any state in torch.
        adapter = _adapter.load()
        _discovery.mount(plugin)
        specializer.register()
        adapter.attach(plugin.name)
        atexit.register(_exit.end_backward_threads, adapter)
        _expose(plugin.name, adapter)
        _mounted = plugin.name
        fallback.check_early_rules()
        hooks.install(_mounted)
        driver_choice.install()
        usage.start(_mounted, adapter)
        integrations.activate(_mounted)
        return _mounted


def _check_name(name: str) -> None:
    import torch

    slot = torch._C._get_privateuse1_backend_name()
    if slot != "privateuseone":
        raise PluginError(f"cannot mount '{name}': torch takes one device per process, and '{slot}' is mounted")
    if conflict := name_conflict(name):
        raise PluginError(f"device name '{name}' cannot be used with torch: it {conflict}; rename the plug-in")


def name_conflict(name: str) -> str | None:
    """Reason why torch cannot have a device of this name, or None."""
    import torch

    try:
        torch.device(name)
        return "is a built-in device type of torch"
    except RuntimeError:
        if hasattr(torch, name):
            return f"would hide torch.{name}"
        if hasattr(torch.Tensor, name) or hasattr(torch.nn.Module, name):
            return f"would hide Tensor.{name} or Module.{name}"
    return None


def _expose(name: str, adapter: Any) -> None:
    import torch

    from hardpoint.torch import (
        _device_module,
        distributed,
        dlpack,
        fake_impls,
        ipc,
        memory_reports,
        rng_operators,
        tensor_repr,
    )

    torch.utils.rename_privateuse1_backend(name)
    module = _device_module.make(name, adapter)
    torch._register_device_module(name, module)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    ipc.register(name, adapter)
    tensor_repr.register(name)
    dlpack.register(name)
    fake_impls.register()
    rng_operators.register(name, module)
    memory_reports.register(adapter)
    distributed.register(name, adapter)
