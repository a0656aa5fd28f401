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


def _generation(module: ModuleType, patches: Patches) -> None:
    # The devices that generate() compiles a model with a static cache for.
    patches.add_to_device_names(module.GenerationMixin, "_valid_auto_compile_criteria", "cuda xpu")

    def compiles(original: Any) -> Any:
        def criteria(self: Any, model_kwargs: dict[str, Any], generation_config: Any) -> bool:
            # Inductor writes code that does not parse for the streams of an offloaded cache.
            offloaded = getattr(model_kwargs.get("past_key_values"), "offloading", False)
            return not offloaded and bool(original(self, model_kwargs, generation_config))

        return criteria

    parameters = "self model_kwargs generation_config"
    patches.wrap(module.GenerationMixin, "_valid_auto_compile_criteria", parameters, compiles)


def _continuous_batching(module: ModuleType, patches: Patches) -> None:
    """Give continuous batching the device's memory to plan with, instead of the host's."""
    import torch

    device_module = getattr(torch, patches.device)

    def breakdown(original: Any) -> Any:
        def device_and_memory() -> tuple[Any, int, int, int]:
            device_module.empty_cache()
            device_module.synchronize()
            free, total = device_module.mem_get_info()
            return torch.device(patches.device), total, device_module.memory_reserved(), total - free

        return device_and_memory

    patches.wrap(module, "get_device_and_memory_breakdown", "", breakdown)


def _caches(module: ModuleType, patches: Patches) -> None:
    """Let offloaded caches wait for this device's stream; they ask torch.cuda for it."""
    import torch

    device_module = getattr(torch, patches.device)
    device = patches.device  # compiled models trace the function below, and Dynamo knows strings but not Patches

    def update(original: Any) -> Any:
        def update_layer(self: Any, key_states: Any, value_states: Any, layer_idx: int, *rest: Any, **more: Any) -> Any:
            if not self.offloading or key_states.device.type != device:
                return original(self, key_states, value_states, layer_idx, *rest, **more)
            while self.layer_class_to_replicate is not None and len(self.layers) <= layer_idx:
                self.layers.append(self.layer_class_to_replicate())
            stream = device_module.default_stream(key_states.device)
            stream.wait_stream(self.prefetch_stream)
            self.prefetch_stream.wait_stream(stream)
            self.prefetch(layer_idx + 1, self.only_non_sliding)
            self.offloading = False
            try:
                result = original(self, key_states, value_states, layer_idx, *rest, **more)
            finally:
                self.offloading = True
            self.offload(layer_idx, self.only_non_sliding)
            return result

        return update_layer

    patches.wrap(module.Cache, "update", "self key_states value_states layer_idx", update)


def _training_args(module: ModuleType, patches: Patches) -> None:
    import torch

    def setup_devices(original: Any) -> Any:
        def setup(self: Any) -> Any:
            device = original(self)
            if device.type != "cpu" or self.use_cpu or self.distributed_state.device.type == "cpu":
                return device
            # Trainer's own list of names for one process. The state's device comes from Accelerate.
            self._n_gpu = 1
            device = torch.device(patches.device, self.distributed_state.device.index or 0)
            getattr(torch, patches.device).set_device(device)
            return device

        return setup

    patches.wrap(module.TrainingArguments, "_setup_devices", "self", setup_devices)


def _trainer(module: ModuleType, patches: Patches) -> None:
    """Save the device's random state with Trainer's, so that a run with dropout resumes bit for bit."""
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
    "transformers.cache_utils": _caches,
    "transformers.generation.continuous_batching.utils": _continuous_batching,
    "transformers.generation.utils": _generation,
    "transformers.training_args": _training_args,
    "transformers.trainer": _trainer,
    "transformers.pipelines.base": _pipelines,
}
