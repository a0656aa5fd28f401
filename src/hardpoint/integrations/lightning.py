"""Lightning: an ``Accelerator`` under the device's name, which ``accelerator="auto"`` and ``"gpu"`` choose.

Lightning comes as ``lightning`` and as ``pytorch_lightning`` with ``lightning_fabric``; the modules are the same.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from hardpoint.integrations._patches import Patches

TESTED = "2.6"


def _accelerator_class(base: type, name: str) -> type:
    import torch

    device_module = getattr(torch, name)

    def indices(devices: Any) -> list[int]:
        count = device_module.device_count()
        if isinstance(devices, str):
            devices = [int(i) for i in devices.split(",") if i.strip()] if "," in devices else int(devices)
        if isinstance(devices, int):
            devices = range(count if devices == -1 else devices)
        if not devices or any(not 0 <= i < count for i in devices):
            raise ValueError(f"devices={list(devices)} was requested, but '{name}' has devices 0 to {count - 1}")
        return list(devices)

    class MountedAccelerator(base):  # type: ignore[misc]
        """The device that Hardpoint mounted."""

        def setup_device(self, device: torch.device) -> None:
            """Make a device the current one."""
            if device.type != name:
                raise ValueError(f"expected a {name} device, got {device}")
            device_module.set_device(device)

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            """Statistics of the allocator."""
            return dict(device_module.memory_stats(device))

        def teardown(self) -> None:
            """Free cached memory."""
            device_module.empty_cache()

        parse_devices = staticmethod(indices)

        @staticmethod
        def get_parallel_devices(devices: list[int]) -> list[torch.device]:
            """Devices with these indices."""
            return [torch.device(name, i) for i in devices]

        @staticmethod
        def auto_device_count() -> int:
            """Number of devices for ``devices="auto"``."""
            return int(device_module.device_count())

        @staticmethod
        def is_available() -> bool:
            """Whether there is a device."""
            return bool(device_module.is_available())

        @staticmethod
        def name() -> str:
            """Name for ``Trainer(accelerator=...)``."""
            return name

    return MountedAccelerator


def _accelerators(module: ModuleType, patches: Patches) -> None:
    registry = getattr(module, "AcceleratorRegistry", None) or module.ACCELERATOR_REGISTRY
    made = _accelerator_class(module.Accelerator, patches.device)
    registry.register(patches.device, made, description="mounted by Hardpoint", override=True)


def _connector(module: ModuleType, patches: Patches) -> None:
    connector = getattr(module, "_AcceleratorConnector", None) or module._Connector
    for method in ("_choose_auto_accelerator", "_choose_gpu_accelerator_backend"):
        patches.wrap(connector, method, "", lambda original: lambda: patches.device)
    # The strategy for one device, and the device type of autocast.
    patches.add_to_device_names(connector, "_choose_strategy", "cuda gpu mps")
    patches.add_to_device_names(connector, "_check_and_init_precision", "cpu mps")


def _ddp(module: ModuleType, patches: Patches) -> None:
    """Leave the device to the model's parameters: with device IDs, Lightning opens a CUDA stream."""

    def device_ids(original: Any) -> Any:
        return lambda self: None if self.root_device.type == patches.device else original(self)

    strategy = module.DDPStrategy
    name = "determine_ddp_device_ids" if hasattr(strategy, "determine_ddp_device_ids") else "_determine_ddp_device_ids"
    patches.wrap(strategy, name, "self", device_ids)


def _trainer_setup(module: ModuleType, patches: Patches) -> None:
    """Name the device in the line that Trainer prints about hardware."""

    def log_device_info(original: Any) -> Any:
        def log(trainer: Any) -> None:
            if trainer.accelerator.name() == patches.device:
                rank_zero = importlib.import_module(f"{module.__name__.partition('.trainer')[0]}.utilities.rank_zero")
                rank_zero.rank_zero_info(f"GPU available: True ({patches.device}), used: True")
            else:
                original(trainer)

        return log

    patches.wrap(module, "_log_device_info", "trainer", log_device_info)


PATCHES = {
    **dict.fromkeys(("lightning.fabric.accelerators", "lightning_fabric.accelerators"), _accelerators),
    **dict.fromkeys(("lightning.pytorch.accelerators", "pytorch_lightning.accelerators"), _accelerators),
    **dict.fromkeys(("lightning.fabric.connector", "lightning_fabric.connector"), _connector),
    **dict.fromkeys(("lightning.fabric.strategies.ddp", "lightning_fabric.strategies.ddp"), _ddp),
    **dict.fromkeys(("lightning.pytorch.strategies.ddp", "pytorch_lightning.strategies.ddp"), _ddp),
    "lightning.pytorch.trainer.connectors.accelerator_connector": _connector,
    "pytorch_lightning.trainer.connectors.accelerator_connector": _connector,
    "lightning.pytorch.trainer.setup": _trainer_setup,
    "pytorch_lightning.trainer.setup": _trainer_setup,
}
