"""Transformers: ``Trainer``, ``pipeline`` and mixed precision. Loading goes through Accelerate and safetensors."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

from hardpoint.integrations._patches import Patches

TESTED = "5.22 to 5.23"


def _import_utils(module: ModuleType, patches: Patches) -> None:
    import torch

    device_module = getattr(torch, patches.device)
    # A condition of TrainingArguments(bf16=True).
    patches.wrap(
        module, "is_torch_bf16_gpu_available", "", lambda original: lambda: bool(device_module.is_bf16_supported())
    )


def _training_args(module: ModuleType, patches: Patches) -> None:
    import torch

    def setup_devices(original: Any) -> Any:
        def setup(self: Any) -> Any:
            device = original(self)
            if device.type != "cpu" or self.use_cpu or self.distributed_state.device.type == "cpu":
                return device
            # Its own list of names for one process; the state's device comes from Accelerate.
            self._n_gpu = 1
            device = torch.device(patches.device, self.distributed_state.device.index or 0)
            getattr(torch, patches.device).set_device(device)
            return device

        return setup

    patches.wrap(module.TrainingArguments, "_setup_devices", "self", setup_devices)


def _trainer(module: ModuleType, patches: Patches) -> None:
    """Save the device's random state beside Trainer's own, for a run with dropout to resume bit for bit."""
    import torch

    device_module = getattr(torch, patches.device)

    def states_file(trainer: Any, folder: str) -> Path:
        rank = f"_{trainer.args.process_index}" if trainer.args.world_size > 1 else ""
        return Path(folder) / f"rng_state_{patches.device}{rank}.pth"

    def save(original: Any) -> Any:
        def save_rng_state(self: Any, output_dir: str) -> None:
            original(self, output_dir)
            torch.save(device_module.get_rng_state_all(), states_file(self, output_dir))

        return save_rng_state

    def load(original: Any) -> Any:
        def load_rng_state(self: Any, checkpoint: str | None) -> None:
            original(self, checkpoint)
            if checkpoint is not None and (file := states_file(self, checkpoint)).exists():
                device_module.set_rng_state_all(torch.load(file, weights_only=True))

        return load_rng_state

    patches.wrap(module.Trainer, "_save_rng_state", "self output_dir", save)
    patches.wrap(module.Trainer, "_load_rng_state", "self checkpoint", load)


def _pipelines(module: ModuleType, patches: Patches) -> None:
    import torch

    def init(original: Any) -> Any:
        def init_on_device(self: Any, model: Any, *arguments: Any, device: Any = None, **options: Any) -> None:
            index = 0 if device is None else device
            placed = device is None and getattr(model, "hf_device_map", None) is not None
            if not placed and isinstance(index, int) and index >= 0:
                device = torch.device(patches.device, index)
            original(self, model, *arguments, device=device, **options)

        return init_on_device

    patches.wrap(module.Pipeline, "__init__", "self model", init)


PATCHES = {
    "transformers.utils.import_utils": _import_utils,
    "transformers.training_args": _training_args,
    "transformers.trainer": _trainer,
    "transformers.pipelines.base": _pipelines,
}
