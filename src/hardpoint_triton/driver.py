"""The driver of Triton's backend: devices, streams, loading and launching."""

from __future__ import annotations

from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

import hardpoint_triton


class _Utils:
    """Functions that Triton calls through the driver."""

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        """Load a kernel: module, function, registers, spilled registers, most threads of a group."""
        from hardpoint.triton import launcher

        function = launcher.load(name, binary, device)
        return function, function, 32, 0, 1 << 20  # programs divide by the number of registers

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
        self.launcher_cls = launcher.Launcher

    @classmethod
    def is_active(cls) -> bool:
        """Whether a device with a compiler is mounted."""
        return hardpoint_triton.device_name() is not None

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Type of an argument; Hardpoint's launcher needs no C++."""
        return ty

    def get_current_target(self) -> GPUTarget:
        """The mounted device."""
        from hardpoint._runtime import core

        name = self._name()
        compiler = core.compiler(name, 0)
        assert compiler is not None
        return GPUTarget(name, compiler[1], hardpoint_triton.WARP_SIZE)

    def get_active_torch_device(self) -> Any:
        """The current device."""
        import torch

        return torch.device(self._name(), self.get_current_device())

    def get_device_interface(self) -> Any:
        """The module ``torch.<device>``."""
        import torch

        return getattr(torch, self._name())

    def get_current_device(self) -> int:
        """Index of the current device."""
        return int(self.get_device_interface().current_device())

    def set_current_device(self, device: int) -> None:
        """Change the current device."""
        self.get_device_interface().set_device(device)

    def get_current_stream(self, device: int) -> int:
        """Id of the current stream. A launch takes the current stream by itself."""
        return 0

    def get_benchmarker(self) -> Any:
        """How autotuning measures a kernel."""
        from triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """Memory that is overwritten between two measurements."""
        import torch

        return torch.empty(1 << 18, dtype=torch.int32, device=self.get_active_torch_device())

    def clear_cache(self, cache: Any) -> None:
        """Overwrite it."""
        cache.zero_()

    def _name(self) -> str:
        name = hardpoint_triton.device_name()
        if name is None:
            raise RuntimeError("hardpoint: no device with a compiler is mounted")
        return name
