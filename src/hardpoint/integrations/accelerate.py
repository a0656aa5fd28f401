"""Accelerate: ``Accelerator()``, ``accelerate launch``, ``accelerate env`` and big-model dispatch.

Accelerate picks its device from a list of names that ends with the CPU. Under ``torchrun``, a device that is not on the
list gets no process group: every rank trains alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

from hardpoint.integrations._patches import Patches

TESTED = "1.15"


def _state(module: ModuleType, patches: Patches) -> None:
    import torch

    from hardpoint.torch.distributed import BACKEND

    name = patches.device
    device_module = getattr(torch, name)
    # Accelerate treats this as "one process per accelerator". Only set_device in it is for CUDA; it is replaced below.
    distributed = module.DistributedType.MULTI_GPU

    def default_device(original: Any) -> Any:
        return lambda self: torch.device(name)

    def prepare_backend(original: Any) -> Any:
        def prepare(self: Any, cpu: bool = False, sagemaker_dp: Any = False, backend: str | None = None) -> Any:
            if cpu or sagemaker_dp or int(os.environ.get("LOCAL_RANK", -1)) == -1:
                return original(self, cpu, sagemaker_dp, backend)
            return backend or f"cpu:gloo,{name}:{BACKEND}", distributed

        return prepare

    def set_device(original: Any) -> Any:
        def set_mounted_device(self: Any) -> None:
            if self.device is not None or self.distributed_type != distributed:
                original(self)
                return
            self.device = torch.device(name, self.local_process_index % device_module.device_count())
            device_module.set_device(self.device)

        return set_mounted_device

    patches.wrap(module.PartialState, "default_device", "self", default_device)
    patches.wrap(module.PartialState, "_prepare_backend", "self cpu sagemaker_dp backend", prepare_backend)
    patches.wrap(module.PartialState, "set_device", "self", set_device)


def _accelerator(module: ModuleType, patches: Patches) -> None:
    # Devices that may use fp16.
    patches.add_to_device_names(module.Accelerator, "__init__", "cuda xpu npu")


def _checkpointing(module: ModuleType, patches: Patches) -> None:
    """Save the device's random state with Accelerate's, so that a run with dropout resumes bit for bit."""
    import torch

    device_module = getattr(torch, patches.device)

    def states_file(folder: Any, process_index: int) -> Path:
        return Path(folder) / f"random_states_{patches.device}_{process_index}.pt"

    def save(original: Any) -> Any:
        def save_state(
            output_dir: str,
            model_states: Any,
            optimizers: Any,
            schedulers: Any,
            dataloaders: Any,
            process_index: int,
            *rest: Any,
            **options: Any,
        ) -> Any:
            states = (model_states, optimizers, schedulers, dataloaders)
            result = original(output_dir, *states, process_index, *rest, **options)
            torch.save(device_module.get_rng_state_all(), states_file(output_dir, process_index))
            return result

        return save_state

    def load(original: Any) -> Any:
        def load_state(
            input_dir: str,
            models: Any,
            optimizers: Any,
            schedulers: Any,
            dataloaders: Any,
            process_index: int,
            *rest: Any,
            **options: Any,
        ) -> Any:
            targets = (models, optimizers, schedulers, dataloaders)
            result = original(input_dir, *targets, process_index, *rest, **options)
            if (file := states_file(input_dir, process_index)).exists():
                device_module.set_rng_state_all(torch.load(file, weights_only=True))
            return result

        return load_state

    saved = "output_dir model_states optimizers schedulers dataloaders process_index"
    patches.wrap(module, "save_accelerator_state", saved, save)
    loaded = "input_dir models optimizers schedulers dataloaders process_index"
    patches.wrap(module, "load_accelerator_state", loaded, load)


def _environment(module: ModuleType, patches: Patches) -> None:
    patches.wrap(module, "get_current_device_type", "", lambda original: lambda: (patches.device, "MULTI_GPU"))


def _memory(module: ModuleType, patches: Patches) -> None:
    import torch

    def clear_device_cache(original: Any) -> Any:
        def clear(garbage_collection: bool = False) -> None:
            original(garbage_collection)
            getattr(torch, patches.device).empty_cache()

        return clear

    def should_reduce(original: Any) -> Any:
        # By the text of CUDA's message.
        return lambda exception: isinstance(exception, torch.OutOfMemoryError) or original(exception)

    patches.wrap(module, "clear_device_cache", "garbage_collection", clear_device_cache)
    patches.wrap(module, "should_reduce_batch_size", "exception", should_reduce)


def _dataclasses(module: ModuleType, patches: Patches) -> None:
    """Profile the device by its name, and load weights for FSDP from one rank."""
    import torch

    name = patches.device

    def profiler_activity(original: Any) -> Any:
        def activity_of(self: Any, activity: str) -> Any:
            return torch.profiler.ProfilerActivity.PrivateUse1 if activity == name else original(self, activity)

        return activity_of

    def post_init(original: Any) -> Any:
        def with_device(self: Any) -> None:
            try:
                original(self)
            except RuntimeError as error:
                # Its last step: it looks for a device to make the parameters of the other ranks on.
                if not self.sync_module_states or "no available devices" not in str(error):
                    raise
                device = torch.device(name, getattr(torch, name).current_device())
                self.param_init_fn = lambda module: module.to_empty(device=device, recurse=False)

        return with_device

    patches.wrap(module.ProfileKwargs, "_get_profiler_activity", "self activity", profiler_activity)
    patches.wrap(module.FullyShardedDataParallelPlugin, "__post_init__", "self", post_init)


def _modeling(module: ModuleType, patches: Patches) -> None:
    import torch

    name = patches.device
    device_module = getattr(torch, name)

    def get_max_memory(original: Any) -> Any:
        def max_memory(max_memory: dict[Any, Any] | None = None) -> Any:
            count = device_module.device_count()
            if max_memory is None:
                return {**{i: device_module.mem_get_info(i)[0] for i in range(count)}, "cpu": original(None)["cpu"]}
            # It counts CUDA's devices.
            chosen = sorted(key for key in max_memory if isinstance(key, int))
            if missing := [i for i in chosen if not 0 <= i < count]:
                module.logger.warning(f"max_memory names {missing}, but '{name}' has devices 0 to {count - 1}")
            others = original({key: size for key, size in max_memory.items() if key not in chosen})
            sizes = {i: max_memory[i] for i in chosen}
            as_bytes = module.convert_file_size_to_int
            return {**{i: as_bytes(n) if isinstance(n, str) else n for i, n in sizes.items()}, **others}

        return max_memory

    def get_grad_scaler(original: Any) -> Any:
        def grad_scaler(distributed_type: Any = None, **options: Any) -> Any:
            if distributed_type == module.DistributedType.FSDP:
                return original(distributed_type, device=name, **options)
            return torch.amp.GradScaler(name, **options)

        return grad_scaler

    patches.wrap(module, "get_max_memory", "max_memory", get_max_memory)
    patches.wrap(module, "get_grad_scaler", "distributed_type", get_grad_scaler)


def _env_command(module: ModuleType, patches: Patches) -> None:
    import torch

    device_module = getattr(torch, patches.device)

    def env_command(original: Any) -> Any:
        def command(args: Any) -> Any:
            info = original(args)
            row = f"{patches.device}, {device_module.device_count()} x {device_module.get_device_name()}"
            print(f"- Hardpoint device: {row}")
            return {**info, "Hardpoint device": row}

        return command

    patches.wrap(module, "env_command", "args", env_command)


def _launch(module: ModuleType, patches: Patches) -> None:
    import torch

    device_module = getattr(torch, patches.device)

    def validate(original: Any) -> Any:
        def with_devices(args: Any) -> Any:
            if not args.cpu and args.config_file is None and not os.path.isfile(module.default_config_file):
                if args.num_processes is None:
                    args.num_processes = device_module.device_count()
                args.multi_gpu = args.multi_gpu or args.num_processes > 1
            return original(args)

        return with_devices

    patches.wrap(module, "_validate_launch_command", "args", validate)


PATCHES = {
    "accelerate.state": _state,
    "accelerate.accelerator": _accelerator,
    "accelerate.checkpointing": _checkpointing,
    "accelerate.utils.dataclasses": _dataclasses,
    "accelerate.utils.environment": _environment,
    "accelerate.utils.memory": _memory,
    "accelerate.utils.modeling": _modeling,
    "accelerate.commands.env": _env_command,
    "accelerate.commands.launch": _launch,
}
