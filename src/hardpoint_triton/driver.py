"""The driver of Triton's backend: devices, streams, loading and launching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

import hardpoint_triton


class _Utils:
    """Functions that Triton calls through the driver."""

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        """Load a kernel: module, function, registers, spilled registers, maximum number of threads in a group."""
        from hardpoint.triton import launcher

        return launcher.load(name, binary, device)

    def unload_module(self, module: int) -> None:
        """Programs stay loaded: queued launches may need them."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Limits that Triton's autotuner asks for."""
        from hardpoint.triton import launcher

        return launcher.device_properties(device)


class HardpointDriver(DriverBase):  # type: ignore[misc]
    """Runs kernels on the device that is mounted on torch."""

    def __init__(self) -> None:
        from hardpoint.triton import launcher

        self.utils = _Utils()
        self.launcher_cls = launcher.make
        #: Index of the current device, asked for by each launch.
        self.get_current_device: Callable[[], int] = self.get_device_interface().current_device

    @classmethod
    def is_active(cls) -> bool:
        """Whether a device that runs Triton kernels is mounted."""
        return hardpoint_triton.device_name() is not None

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Type of an argument; Hardpoint's launcher needs no C++."""
        return ty

    def get_current_target(self) -> GPUTarget:
        """The mounted device."""
        from hardpoint.triton import generators

        name = self._name()
        return GPUTarget(name, generators.architecture(name), generators.warp_size(name))

    def get_active_torch_device(self) -> Any:
        """The current device."""
        import torch

        return torch.device(self._name(), self.get_current_device())

    def get_device_interface(self) -> Any:
        """The module ``torch.<device>``."""
        import torch

        return getattr(torch, self._name())

    def set_current_device(self, device: int) -> None:
        """Change the current device."""
        self.get_device_interface().set_device(device)

    def get_current_stream(self, device: int) -> int:
        """Id of the current stream. A launch takes the current stream by itself."""
        return 0

    def get_benchmarker(self) -> Any:
        """The function that times kernels for autotuning."""
        from triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """A buffer as large as the cache, to overwrite between two measurements."""
        import torch

        device = self.get_active_torch_device()
        cache_bytes = self.get_device_interface().get_device_properties(device).L2_cache_size or 1 << 20
        return torch.empty(cache_bytes // 2, dtype=torch.int32, device=device)

    def clear_cache(self, cache: Any) -> None:
        """Overwrite the buffer."""
        cache.zero_()

    def _name(self) -> str:
        name = hardpoint_triton.device_name()
        if name is None:
            raise RuntimeError("hardpoint: no device that runs Triton kernels is mounted")
        return name
