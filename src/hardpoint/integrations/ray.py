"""Ray Train: the mounted device for workers without a GPU, and its process group.

Ray derives a worker's device from the resources that it reserves, such as CUDA's GPUs. A worker without any gets the
CPU and gloo. Here it gets the device with the number of its local rank, or of the GPU that Ray reserved for it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hardpoint.integrations._patches import Patches

TESTED = "2.60"


def _manager_class(base: type, name: str) -> type:
    import torch

    device_module = getattr(torch, name)

    class MountedDeviceManager(base):  # type: ignore[misc]
        """The device that Hardpoint mounted."""

        def is_available(self) -> bool:
            return bool(device_module.is_available())

        def get_devices(self) -> list[torch.device]:
            count = device_module.device_count()
            return [torch.device(name, index % count) for index in _indices()]

        def set_device(self, device: Any) -> None:
            device_module.set_device(device)

        def supports_stream(self) -> bool:
            return True

        def create_stream(self, device: torch.device) -> Any:
            return device_module.Stream(device)

        def get_stream_context(self, stream: Any) -> Any:
            return device_module.stream(stream)

        def get_current_stream(self) -> Any:
            return device_module.current_stream()

    return MountedDeviceManager


def _indices() -> list[int]:
    """Numbers of this process's devices."""
    import ray  # type: ignore[import-not-found]
    import ray.train  # type: ignore[import-not-found]

    if reserved := ray.get_runtime_context().get_accelerator_ids().get("GPU"):
        return [int(index) for index in reserved]
    try:
        return [int(ray.train.get_context().get_local_rank())]
    except RuntimeError:  # not a worker of Ray Train
        return [0]


def _device_manager(module: ModuleType, patches: Patches) -> None:
    import torch

    manager = _manager_class(module.TorchDeviceManager, patches.device)()

    def by_context(original: Any) -> Any:
        def choose() -> Any:
            chosen = original()
            # Of CUDA: a cluster that counts this device as its GPU.
            absent = isinstance(chosen, module.CUDATorchDeviceManager) and not torch.cuda.is_available()
            return manager if absent or isinstance(chosen, module.CPUTorchDeviceManager) else chosen

        return choose

    def by_type(original: Any) -> Any:
        return lambda device_type: manager if device_type == patches.device else original(device_type)

    patches.wrap(module, "get_torch_device_manager_by_context", "", by_context)
    patches.wrap(module, "get_torch_device_manager_by_device_type", "device_type", by_type)


def _config(module: ModuleType, patches: Patches) -> None:
    import torch

    from hardpoint.torch.distributed import BACKEND

    def setup(original: Any) -> Any:
        def setup_process_group(backend: str, *arguments: Any, **options: Any) -> Any:
            if backend == "gloo" or (backend == "nccl" and not torch.cuda.is_available()):
                backend = f"cpu:gloo,{patches.device}:{BACKEND}"
            return original(backend, *arguments, **options)

        return setup_process_group

    def enter(original: Any) -> Any:
        def set_device(self: Any) -> Any:
            import ray.train.torch  # type: ignore[import-not-found]

            device = ray.train.torch.get_device()
            if device.type == patches.device:
                getattr(torch, patches.device).set_device(device)
            return original(self)

        return set_device

    patches.wrap(module, "_setup_torch_process_group", "backend", setup)
    patches.wrap(module.TorchConfigContextManager, "__enter__", "self", enter)


def _local_mode(module: ModuleType, patches: Patches) -> None:
    """Give ``ScalingConfig(num_workers=0)``, which trains in the program's own process, the current device."""
    import torch

    def get_devices(original: Any) -> Any:
        def devices() -> list[torch.device]:
            found: list[torch.device] = original()
            if found != [torch.device("cpu")]:
                return found
            return [torch.device(patches.device, getattr(torch, patches.device).current_device())]

        return devices

    patches.wrap(module, "get_devices", "", get_devices)


PATCHES = {
    "ray.air._internal.device_manager": _device_manager,
    "ray.train.torch.config": _config,
    "ray.train.v2.torch.train_loop_utils": _local_mode,
}
