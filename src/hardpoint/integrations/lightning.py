"""Lightning: an ``Accelerator`` under the device's name, which ``accelerator="auto"`` and ``"gpu"`` choose.

Lightning is published as ``lightning``, and as ``pytorch_lightning`` with ``lightning_fabric``, with the same modules.
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
    patches.add_to_device_names(connector, "_check_strategy_and_fallback", "cuda gpu")  # FSDP


def _ddp(module: ModuleType, patches: Patches) -> None:
    """Give DDP no device IDs, with which Lightning would open a CUDA stream. DDP uses the parameters' device."""

    def device_ids(original: Any) -> Any:
        return lambda self: None if self.root_device.type == patches.device else original(self)

    strategy = module.DDPStrategy
    name = "determine_ddp_device_ids" if hasattr(strategy, "determine_ddp_device_ids") else "_determine_ddp_device_ids"
    patches.wrap(strategy, name, "self", device_ids)


def _fsdp_precision(module: ModuleType, patches: Patches) -> None:
    patches.replace_device_name(module.FSDPPrecision, "forward_context", "cuda")  # autocast

    def init(original: Any) -> Any:
        def with_scaler(self: Any, precision: Any, scaler: Any = None) -> None:
            original(self, precision, scaler)
            if scaler is None and self.scaler is not None:
                # Made for CUDA, it would scale nothing.
                self.scaler = type(self.scaler)(patches.device)

        return with_scaler

    patches.wrap(module.FSDPPrecision, "__init__", "self precision scaler", init)


def _fsdp(module: ModuleType, patches: Patches) -> None:
    patches.replace_device_name(module.FSDPStrategy, "setup_environment", "cuda")  # a device mesh given as a tuple


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


def _memory(module: ModuleType, patches: Patches) -> None:
    """Let the batch size finder go on after an error of this device's memory: Lightning reads CUDA's message."""
    import torch

    device_module = getattr(torch, patches.device)

    def is_oom_error(original: Any) -> Any:
        return lambda exception: isinstance(exception, torch.OutOfMemoryError) or original(exception)

    def collect(original: Any) -> Any:
        def collect_and_empty() -> None:
            original()
            device_module.empty_cache()

        return collect_and_empty

    patches.wrap(module, "is_oom_error", "exception", is_oom_error)
    patches.wrap(module, "garbage_collection_cuda", "", collect)


def _seed(module: ModuleType, patches: Patches) -> None:
    """Restore the device's random state too, after the sanity check for instance."""
    import torch

    device_module = getattr(torch, patches.device)
    key = f"torch.{patches.device}"

    def collect(original: Any) -> Any:
        def collect_states(include_cuda: bool = True) -> dict[str, Any]:
            states: dict[str, Any] = original(include_cuda)
            return {**states, key: device_module.get_rng_state_all()} if include_cuda else states

        return collect_states

    def restore(original: Any) -> Any:
        def restore_states(rng_state_dict: dict[str, Any]) -> None:
            original(rng_state_dict)
            if key in rng_state_dict:
                device_module.set_rng_state_all(rng_state_dict[key])

        return restore_states

    patches.wrap(module, "_collect_rng_states", "include_cuda", collect)
    patches.wrap(module, "_set_rng_states", "rng_state_dict", restore)


def _throughput(module: ModuleType, patches: Patches) -> None:
    """Wait for the device before its work is timed."""
    import torch

    def update(original: Any) -> Any:
        def wait_and_update(self: Any, trainer: Any, *arguments: Any) -> None:
            if trainer.strategy.root_device.type == patches.device:
                getattr(torch, patches.device).synchronize()
            original(self, trainer, *arguments)

        return wait_and_update

    patches.wrap(module.ThroughputMonitor, "_update", "self trainer", update)


def _profiler(module: ModuleType, patches: Patches) -> None:
    """Record the device's work by default."""
    import torch

    def activities(original: Any) -> Any:
        return lambda self: [*original(self), torch.profiler.ProfilerActivity.PrivateUse1]

    patches.wrap(module.PyTorchProfiler, "_default_activities", "self", activities)


_PACKAGES = (("lightning.fabric", "lightning.pytorch"), ("lightning_fabric", "pytorch_lightning"))
PATCHES = {
    **{f"{package}.plugins.precision.fsdp": _fsdp_precision for pair in _PACKAGES for package in pair},
    **{f"{package}.strategies.fsdp": _fsdp for pair in _PACKAGES for package in pair},
    **dict.fromkeys(("lightning.fabric.accelerators", "lightning_fabric.accelerators"), _accelerators),
    **dict.fromkeys(("lightning.pytorch.accelerators", "pytorch_lightning.accelerators"), _accelerators),
    **dict.fromkeys(("lightning.fabric.connector", "lightning_fabric.connector"), _connector),
    **dict.fromkeys(("lightning.fabric.strategies.ddp", "lightning_fabric.strategies.ddp"), _ddp),
    **dict.fromkeys(("lightning.pytorch.strategies.ddp", "pytorch_lightning.strategies.ddp"), _ddp),
    "lightning.pytorch.trainer.connectors.accelerator_connector": _connector,
    "pytorch_lightning.trainer.connectors.accelerator_connector": _connector,
    "lightning.pytorch.trainer.setup": _trainer_setup,
    "pytorch_lightning.trainer.setup": _trainer_setup,
    **dict.fromkeys(("lightning.fabric.utilities.seed", "lightning_fabric.utilities.seed"), _seed),
    **{
        f"{package}.{part}": patch
        for package in ("lightning.pytorch", "pytorch_lightning")
        for part, patch in (
            ("callbacks.throughput_monitor", _throughput),
            ("profilers.pytorch", _profiler),
            ("utilities.memory", _memory),
        )
    },
}
