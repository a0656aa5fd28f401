"""The module ``torch.<device>``, with the interface of ``torch.cuda``."""

from __future__ import annotations

import contextlib
import sys
import types
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch

from hardpoint._runtime import core
from hardpoint.torch import graphs, legacy_storages, memory_summary
from hardpoint.torch.memory_history import MemoryHistory, replace_accelerator_snapshot


class DeviceProperties(NamedTuple):
    """Device properties reported by the plug-in, under the names of ``torch.cuda``. 0 or empty: unknown."""

    name: str
    total_memory: int
    compute_units: int
    major: int
    minor: int
    uuid: str = ""
    pci_id: str = ""
    max_allocation: int = 0
    native_dtypes: tuple[torch.dtype, ...] = ()
    L2_cache_size: int = 0
    clock_rate: int = 0
    memory_clock_rate: int = 0
    memory_bus_width: int = 0
    warp_size: int = 0
    max_threads_per_block: int = 0
    shared_memory_per_block: int = 0
    shared_memory_per_block_optin: int = 0
    regs_per_multiprocessor: int = 0

    @property
    def multi_processor_count(self) -> int:
        """``compute_units``."""
        return self.compute_units


def make(name: str, adapter: Any) -> types.ModuleType:
    """Create ``torch.<name>`` from the compiled adapter."""
    module = types.ModuleType(f"torch.{name}", f"The device '{name}', mounted by Hardpoint.")
    for part in (_DeviceFunctions, _MemoryFunctions, _RandomFunctions, _AutocastFunctions):
        instance = part(name, adapter)
        for attribute in dir(instance):
            if not attribute.startswith("__") and attribute not in ("device_name", "adapter", "index"):
                setattr(module, attribute, getattr(instance, attribute))
    for storage_name, storage_class in legacy_storages.make(name).items():
        setattr(module, storage_name, storage_class)
    for graph_name, value in graphs.make(name, adapter, module).items():
        setattr(module, graph_name, value)
    sys.modules[module.__name__] = module
    _add_memory_module(module, name, adapter)
    return module


def _add_memory_module(module: types.ModuleType, name: str, adapter: Any) -> None:
    """``torch.<device>.memory``: the memory functions, and the history of allocations."""
    memory = types.ModuleType(f"{module.__name__}.memory", f"Memory of the device '{name}'.")
    for attribute in vars(_MemoryFunctions):
        if not attribute.startswith("_"):
            setattr(memory, attribute, getattr(module, attribute))
    history = MemoryHistory(name, adapter)
    memory._record_memory_history = history.record  # type: ignore[attr-defined]
    memory._snapshot = history.snapshot  # type: ignore[attr-defined]
    memory._dump_snapshot = history.dump  # type: ignore[attr-defined]
    module.memory = memory  # type: ignore[attr-defined]
    sys.modules[memory.__name__] = memory
    replace_accelerator_snapshot(name, history)


class _Functions:
    def __init__(self, name: str, adapter: Any) -> None:
        self.device_name = name
        self.adapter = adapter

    def index(self, device: Any = None) -> int:
        """Index of a device given as None, int, string or torch.device."""
        if device is None:
            return int(self.adapter.current_device())
        if isinstance(device, int):
            return device if device >= 0 else int(self.adapter.current_device())
        parsed = torch.device(device)
        if parsed.type != self.device_name:
            raise ValueError(f"expected a {self.device_name} device, got {device}")
        return int(self.adapter.current_device()) if parsed.index is None else parsed.index


class _DeviceFunctions(_Functions):
    # torch.utils.checkpoint saves the random state only for devices with this attribute.
    _initialized = True

    def __init__(self, name: str, adapter: Any) -> None:
        super().__init__(name, adapter)
        functions = self

        class Stream(torch.Stream):  # type: ignore[misc]
            """A device stream; use it as a context manager or with ``torch.<device>.stream``."""

            def __new__(cls, device: Any = None, priority: int = 0, **ids: Any) -> Any:
                if ids:
                    return super().__new__(cls, **ids)
                return super().__new__(cls, torch.device(name, functions.index(device)), priority=priority)

        # torch streams accept exactly torch.Event, not a subclass.
        class EventType(type):
            def __instancecheck__(cls, instance: object) -> bool:
                return isinstance(instance, torch.Event) and instance.device.type == name

        class Event(metaclass=EventType):
            """Creates a ``torch.Event`` of this device."""

            def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
                return torch.Event(name, enable_timing=enable_timing, blocking=blocking)

        class device:
            """Context manager that changes the current device."""

            def __init__(self, device: Any) -> None:
                self.target = functions.index(device)
                self.previous = -1

            def __enter__(self) -> None:
                self.previous = functions.current_device()
                functions.set_device(self.target)

            def __exit__(self, *_: object) -> None:
                functions.set_device(self.previous)

        class device_of(device):
            """Context manager that changes the current device to that of a tensor; no effect for tensors elsewhere."""

            def __init__(self, tensor: torch.Tensor) -> None:
                own = tensor.device.type == name
                super().__init__(tensor.device.index if own else functions.current_device())

        self.Stream, self.Event, self.device, self.device_of = Stream, Event, device, device_of

    def init(self) -> None:
        """Initialize the device now instead of on first use."""
        self._lazy_init()

    def _lazy_init(self) -> None:
        self.adapter.init()

    def is_initialized(self) -> bool:
        """Whether the device can be used in this process."""
        return not self._is_in_bad_fork()

    def _is_in_bad_fork(self) -> bool:
        return bool(self.adapter.in_bad_fork())

    def is_available(self) -> bool:
        """Whether there is a device."""
        return self.device_count() > 0

    def device_count(self) -> int:
        """The number of devices."""
        return int(self.adapter.device_count())

    def current_device(self) -> int:
        """The index of this thread's current device."""
        return int(self.adapter.current_device())

    def set_device(self, device: Any) -> None:
        """Change this thread's current device."""
        self.adapter.set_device(self.index(device))

    def _exchange_device(self, index: int) -> int:
        previous = self.current_device()
        if index >= 0:
            self.set_device(index)
        return previous

    def _maybe_exchange_device(self, index: int) -> int:
        return self._exchange_device(index)

    def synchronize(self, device: Any = None) -> None:
        """Wait until all work on a device is done."""
        self.adapter.synchronize(self.index(device))

    def get_device_properties(self, device: Any = None) -> DeviceProperties:
        """Name, memory, compute units and more."""
        found = core.properties(self.device_name, self.index(device))
        native = tuple(getattr(torch, dtype) for dtype in found["native_dtypes"])
        return DeviceProperties(**{**found, "native_dtypes": native})

    def get_device_name(self, device: Any = None) -> str:
        """Name of a device."""
        return self.get_device_properties(device).name

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """Major and minor version of a device."""
        properties = self.get_device_properties(device)
        return properties.major, properties.minor

    def can_device_access_peer(self, device: Any, peer: Any) -> bool:
        """Whether two devices can copy directly to each other."""
        here, there = self.index(device), self.index(peer)
        return here != there and core.can_access(self.device_name, here, there)

    def current_stream(self, device: Any = None) -> torch.Stream:
        """This thread's current stream on a device."""
        with self.device(self.index(device)):
            return torch.accelerator.current_stream()

    def default_stream(self, device: Any = None) -> torch.Stream:
        """The device's default stream."""
        kind = int(torch._C._autograd.DeviceType.PrivateUse1)
        made: torch.Stream = self.Stream(stream_id=0, device_index=self.index(device), device_type=kind)
        return made

    def set_stream(self, stream: torch.Stream) -> None:
        """Set this thread's current stream on the stream's device."""
        torch.accelerator.set_stream(stream)

    @contextlib.contextmanager
    def stream(self, stream: torch.Stream | None) -> Iterator[None]:
        """Run a block of code on a stream."""
        if stream is None:
            yield
            return
        with stream:
            yield


class _MemoryFunctions(_Functions):
    def empty_cache(self) -> None:
        """Free unused cached memory."""
        for index in range(self.adapter.device_count()):
            self.adapter.empty_cache(index)

    def memory_stats(self, device: Any = None) -> dict[str, Any]:
        """The allocator's statistics, with the keys of ``torch.cuda.memory_stats``."""
        stats: dict[str, Any] = torch.accelerator.memory_stats(self.index(device))
        return stats

    def memory_allocated(self, device: Any = None) -> int:
        """Bytes in use by tensors."""
        return int(torch.accelerator.memory_allocated(self.index(device)))

    def max_memory_allocated(self, device: Any = None) -> int:
        """Peak of bytes in use by tensors since the start or the last reset."""
        return int(torch.accelerator.max_memory_allocated(self.index(device)))

    def memory_reserved(self, device: Any = None) -> int:
        """Bytes held by the allocator, in use or cached."""
        return int(torch.accelerator.memory_reserved(self.index(device)))

    def max_memory_reserved(self, device: Any = None) -> int:
        """Peak of bytes held by the allocator since the start or the last reset."""
        return int(torch.accelerator.max_memory_reserved(self.index(device)))

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Reset the peak statistics."""
        torch.accelerator.reset_peak_memory_stats(self.index(device))

    def reset_accumulated_memory_stats(self, device: Any = None) -> None:
        """Reset the accumulated statistics."""
        torch.accelerator.reset_accumulated_memory_stats(self.index(device))

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """Free and total bytes of a device, as reported by the plug-in."""
        free, total = self.adapter.memory_info(self.index(device))
        return free, total

    def memory_summary(self, device: Any = None, abbreviated: bool = False) -> str:
        """The allocator's statistics as a readable table."""
        index = self.index(device)
        return memory_summary.text(self.device_name, index, self.memory_stats(index), abbreviated)

    def memory_snapshot(self) -> list[dict[str, Any]]:
        """Segments of all allocators, with their blocks."""
        return [segment for i in range(self.adapter.device_count()) for segment in self.adapter.snapshot(i)]

    def set_per_process_memory_fraction(self, fraction: float, device: Any = None) -> None:
        """Limit this process to a fraction of a device's memory."""
        if not 0 < fraction <= 1:
            raise ValueError(f"the fraction must be above 0 and at most 1, got {fraction}")
        self.adapter.set_memory_fraction(fraction, self.index(device))


class _RandomFunctions(_Functions):
    def __init__(self, name: str, adapter: Any) -> None:
        super().__init__(name, adapter)
        self.default_generators = tuple(adapter.default_generator(i) for i in range(adapter.device_count()))

    def manual_seed(self, seed: int) -> None:
        """Seed the current device's generator."""
        self.default_generators[self.adapter.current_device()].manual_seed(int(seed))

    def manual_seed_all(self, seed: int) -> None:
        """Seed every device's generator; ``torch.manual_seed`` calls this."""
        for generator in self.default_generators:
            generator.manual_seed(int(seed))

    def seed(self) -> None:
        """Seed the current device's generator with a random number."""
        self.default_generators[self.adapter.current_device()].seed()

    def seed_all(self) -> None:
        """Seed every device's generator with one random number."""
        self.manual_seed_all(self.default_generators[0].seed())

    def initial_seed(self) -> int:
        """The seed of the current device's generator."""
        return int(self.default_generators[self.adapter.current_device()].initial_seed())

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        """The state of a device's generator, as a CPU tensor."""
        state: torch.Tensor = self.default_generators[self.index(device)].get_state()
        return state

    def set_rng_state(self, new_state: torch.Tensor, device: Any = None) -> None:
        """Set the state of a device's generator."""
        self.default_generators[self.index(device)].set_state(new_state)

    def get_rng_state_all(self) -> list[torch.Tensor]:
        """States of the generators of all devices."""
        return [self.get_rng_state(i) for i in range(len(self.default_generators))]

    def set_rng_state_all(self, new_states: Iterable[torch.Tensor]) -> None:
        """Set the states of the generators of all devices."""
        for i, state in enumerate(new_states):
            self.set_rng_state(state, i)


class _AutocastFunctions(_Functions):
    def __init__(self, name: str, adapter: Any) -> None:
        super().__init__(name, adapter)

        # Deprecated, as torch.cuda.amp is, in favor of the functions that take the device.
        def deprecated(old: str, new: str) -> None:
            message = f"`torch.{name}.amp.{old}(args...)` is deprecated. "
            warnings.warn(f"{message}Please use `torch.{new}('{name}', args...)` instead.", FutureWarning, stacklevel=3)

        class autocast(torch.autocast):  # type: ignore[misc]
            """Deprecated name of ``torch.autocast`` for this device."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                deprecated("autocast", "amp.autocast")
                super().__init__(name, *args, **kwargs)

        class GradScaler(torch.amp.GradScaler):  # type: ignore[misc]
            """Deprecated name of ``torch.amp.GradScaler`` for this device."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                deprecated("GradScaler", "amp.GradScaler")
                super().__init__(name, *args, **kwargs)

        self.amp = types.SimpleNamespace(autocast=autocast, GradScaler=GradScaler)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """Dtypes that autocast supports."""
        return [torch.float16, torch.bfloat16]

    def is_autocast_enabled(self) -> bool:
        """Whether autocast is enabled for this device."""
        return bool(torch.is_autocast_enabled(self.device_name))

    def set_autocast_enabled(self, enabled: bool) -> None:
        """Enable or disable autocast for this device."""
        torch.set_autocast_enabled(self.device_name, enabled)

    def get_autocast_dtype(self) -> torch.dtype:
        """Dtype of autocast."""
        return torch.get_autocast_dtype(self.device_name)

    def set_autocast_dtype(self, dtype: torch.dtype) -> None:
        """Set the dtype of autocast, one of ``get_amp_supported_dtype()``."""
        if dtype not in self.get_amp_supported_dtype():
            raise ValueError(f"autocast on {self.device_name} supports float16 and bfloat16, got {dtype}")
        torch.set_autocast_dtype(self.device_name, dtype)

    def is_bf16_supported(self) -> bool:
        """Whether bfloat16 is supported."""
        return True
