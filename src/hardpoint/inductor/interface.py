"""The device as Dynamo and Inductor see it."""

from __future__ import annotations

import types
from typing import Any

import torch

from hardpoint.inductor import availability
from hardpoint.triton import generators

#: Default for heuristics that ask how many threads run at a time.
COMPUTE_UNITS = 16
CACHE_BYTES = 1 << 20


def register(name: str) -> None:
    """Register the interface of the device and of each index."""
    from torch._dynamo import device_interface

    module = getattr(torch, name)
    interface = _make(name, module, device_interface.DeviceInterface)
    device_interface.get_registered_device_interfaces()  # first torch's own: they are registered once
    device_interface.register_interface_for_device(name, interface)
    for index in range(module.device_count()):
        device_interface.register_interface_for_device(f"{name}:{index}", interface)


def _properties(name: str, module: Any, device: Any = None) -> types.SimpleNamespace:
    found = module.get_device_properties(device)
    is_nvidia = generators.kind(name) == "nvidia"
    return types.SimpleNamespace(
        name=found.name,
        total_memory=found.total_memory,
        multi_processor_count=found.compute_units or COMPUTE_UNITS,
        major=found.major,
        minor=found.minor,
        warp_size=generators.warp_size(name),
        regs_per_multiprocessor=found.regs_per_multiprocessor if is_nvidia else None,
        max_threads_per_multi_processor=_resident_threads(found.major, found.minor) if is_nvidia else None,
        max_threads_per_block=1024,
        L2_cache_size=found.L2_cache_size or CACHE_BYTES,  # so much is overwritten between two measurements
        shared_memory_per_block_optin=found.shared_memory_per_block_optin,
    )


def _resident_threads(major: int, minor: int) -> int:
    """Maximum number of resident threads of an NVIDIA multiprocessor."""
    if (major, minor) == (7, 5):
        return 1024
    return 1536 if (major, minor) in {(8, 6), (8, 7), (8, 9), (12, 0), (12, 1)} else 2048


def _make(name: str, module: Any, base: type[Any]) -> type[Any]:
    def properties(device: Any = None) -> types.SimpleNamespace:
        return _properties(name, module, device)

    def architecture(device: Any = None) -> Any:
        """The target's architecture, part of Triton's cache key."""
        index = torch.device(device).index if isinstance(device, (str, torch.device)) else device
        return generators.architecture(name, module.current_device() if index is None else index)

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
        get_compute_capability = staticmethod(architecture)
        is_bf16_supported = staticmethod(lambda including_emulation=False: True)
        is_triton_capable = staticmethod(lambda device=None: not availability.missing(name))

        @staticmethod
        def raise_if_triton_unavailable(device: Any = None) -> None:
            if reason := availability.missing(name):
                raise RuntimeError(reason)

    return Interface
