"""The device as Dynamo and Inductor see it."""

from __future__ import annotations

import types
from typing import Any

import torch

from hardpoint._runtime import core
from hardpoint_triton import WARP_SIZE

#: What heuristics assume to run at a time if the plug-in does not say.
COMPUTE_UNITS = 16


def register(name: str) -> None:
    """Register the interface of the device and of each index."""
    from torch._dynamo import device_interface

    module = getattr(torch, name)
    interface = _make(name, module, device_interface.DeviceInterface)
    device_interface.get_registered_device_interfaces()  # first torch's own: they are registered once
    device_interface.register_interface_for_device(name, interface)
    for index in range(module.device_count()):
        device_interface.register_interface_for_device(f"{name}:{index}", interface)


def _properties(module: Any, device: Any = None) -> types.SimpleNamespace:
    found = module.get_device_properties(device)
    return types.SimpleNamespace(
        name=found.name,
        total_memory=found.total_memory,
        multi_processor_count=found.compute_units or COMPUTE_UNITS,
        major=found.major,
        minor=found.minor,
        warp_size=WARP_SIZE,
        regs_per_multiprocessor=None,
        max_threads_per_multi_processor=None,
        max_threads_per_block=1024,
        L2_cache_size=1 << 20,  # so much is overwritten between two measurements
    )


def _make(name: str, module: Any, base: type[Any]) -> type[Any]:
    def properties(device: Any = None) -> types.SimpleNamespace:
        return _properties(module, device)

    def fingerprint(device: Any = None) -> str:
        """The target's architecture, in the key of Triton's cache."""
        return core.compiler(name, 0)[1]  # type: ignore[index]

    class Interface(base):  # type: ignore[misc]
        device = module.device
        Event = torch.Event
        Stream = module.Stream

        class Worker:
            """The device in Inductor's compile processes, which mount it too."""

            set_device = staticmethod(module.set_device)
            current_device = staticmethod(module.current_device)
            get_device_properties = staticmethod(properties)

        current_device = staticmethod(module.current_device)
        set_device = staticmethod(module.set_device)
        exchange_device = staticmethod(module._exchange_device)
        maybe_exchange_device = staticmethod(module._maybe_exchange_device)
        device_count = staticmethod(module.device_count)
        is_available = staticmethod(module.is_available)
        stream = staticmethod(module.stream)
        current_stream = staticmethod(module.current_stream)
        set_stream = staticmethod(module.set_stream)
        synchronize = staticmethod(module.synchronize)
        memory_allocated = staticmethod(module.memory_allocated)
        get_device_properties = staticmethod(properties)
        get_raw_stream = staticmethod(lambda index: 0)  # a launch takes the current stream by itself
        get_compute_capability = staticmethod(fingerprint)
        is_bf16_supported = staticmethod(lambda including_emulation=False: True)
        is_triton_capable = staticmethod(lambda device=None: True)
        raise_if_triton_unavailable = staticmethod(lambda device=None: None)

    return Interface
