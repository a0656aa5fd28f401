"""DeepSpeed: an accelerator object for the mounted device, unless ``DS_ACCELERATOR`` names another one."""

from __future__ import annotations

import functools
import importlib
import os
from types import ModuleType
from typing import Any

from hardpoint.integrations._patches import Patches

TESTED = "0.19"

#: Methods that forward to the function of the same name in torch.<device>.
_DEVICE_FUNCTIONS = (
    *("set_device", "current_device", "device_count", "synchronize", "is_available", "is_bf16_supported"),
    *("set_rng_state", "get_rng_state", "manual_seed", "manual_seed_all", "initial_seed"),
    *("stream", "current_stream", "default_stream", "empty_cache", "memory_allocated", "max_memory_allocated"),
    *("memory_stats", "reset_peak_memory_stats", "memory_reserved", "max_memory_reserved"),
)
#: Older method names.
_RENAMED = {
    "reset_max_memory_allocated": "reset_peak_memory_stats",
    "reset_max_memory_cached": "reset_peak_memory_stats",
    "memory_cached": "memory_reserved",
    "max_memory_cached": "max_memory_reserved",
}
_TENSOR_TYPES = {
    "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8",
    "DoubleTensor": "float64",
    "FloatTensor": "float32",
    "HalfTensor": "float16",
    "IntTensor": "int32",
    "LongTensor": "int64",
}


def _constant(value: Any) -> property:
    return property(lambda self: value)


def accelerator_class(base: type, name: str) -> type:
    """Make the subclass of DeepSpeedAccelerator for a device."""
    import torch

    device_module = getattr(torch, name)
    members: dict[str, Any] = {f: staticmethod(getattr(device_module, f)) for f in _DEVICE_FUNCTIONS}
    members |= {old: staticmethod(getattr(device_module, new)) for old, new in _RENAMED.items()}
    for tensor_type, dtype in _TENSOR_TYPES.items():
        members[tensor_type] = _constant(functools.partial(torch.tensor, dtype=getattr(torch, dtype), device=name))
    members |= {kind: _constant(getattr(device_module, kind)) for kind in ("Stream", "Event")}

    class Rest(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._name = name
            self._communication_backend_name = f"cpu:gloo,{name}:hardpoint"
            self._compile_backend = "hardpoint"

        def is_synchronized_device(self) -> bool:
            return False

        use_host_timers = resolves_data_dependency = handles_memory_backpressure = is_synchronized_device

        def device_name(self, device_index: int | None = None) -> str:
            return name if device_index is None else f"{name}:{device_index}"

        def device(self, device_index: int | None = None) -> Any:
            return device_module.device(device_index)

        def current_device_name(self) -> str:
            return f"{name}:{device_module.current_device()}"

        def random(self) -> Any:
            return torch.random

        def default_generator(self, device_index: int) -> Any:
            return device_module.default_generators[device_index]

        def total_memory(self, device_index: int | None = None) -> int:
            return int(device_module.mem_get_info(device_index)[1])

        def available_memory(self, device_index: int | None = None) -> int:
            return int(device_module.mem_get_info(device_index)[0])

        def is_fp16_supported(self) -> bool:
            return True

        def supported_dtypes(self) -> list[Any]:
            return [torch.float32, torch.float16, torch.bfloat16]

        def range_push(self, msg: str, domain: Any = None, category: Any = None) -> None:
            return None

        def range_pop(self, domain: Any = None) -> None:
            return None

        def lazy_call(self, callback: Any) -> Any:
            return callback()

        def communication_backend_name(self) -> str:
            return str(self._communication_backend_name)

        def is_triton_supported(self) -> bool:
            return False

        def create_graph(self) -> None:
            return None

        def capture_to_graph(self, graph: Any, pool: Any = None, stream: Any = None) -> Any:
            from deepspeed.runtime.utils import noop_context  # type: ignore[import-not-found]

            return noop_context()

        def replay_graph(self, graph: Any) -> None:
            return None

        def on_accelerator(self, tensor: Any) -> bool:
            return bool(tensor.device.type == name)

        def op_builder_dir(self) -> str:
            return "deepspeed.ops.op_builder.cpu"

        def get_op_builder(self, class_name: str) -> Any:
            builders = importlib.import_module(self.op_builder_dir())
            if class_name == "FusedAdamBuilder":
                return _fused_adam_builder(builders.FusedAdamBuilder)
            # Host-side optimizers for offloaded states. No other C++ extension of DeepSpeed works with this device.
            host = ("CPUAdamBuilder", "CPUAdagradBuilder", "CPULionBuilder", "AsyncIOBuilder", "PinMemoryBuilder")
            return getattr(builders, class_name if class_name in host else "NotImplementedBuilder")

        def create_op_builder(self, class_name: str) -> Any:
            return self.get_op_builder(class_name)()

        def build_extension(self) -> Any:
            from torch.utils.cpp_extension import BuildExtension

            return BuildExtension

        def export_envs(self) -> list[str]:
            return ["HARDPOINT"]  # the prefix of variables that its launcher passes on

        def visible_devices_envs(self) -> list[str]:
            return []

        def set_visible_devices_envs(self, current_env: Any, local_accelerator_ids: Any) -> None:
            return None

        def get_compile_backend(self) -> str:
            return str(self._compile_backend)

        def set_compile_backend(self, backend: str) -> None:
            self._compile_backend = backend

    return type("MountedAccelerator", (Rest,), members)


def _fused_adam_builder(base: type) -> type:
    class FusedAdamBuilder(base):  # type: ignore[misc]
        def load(self, verbose: bool = True) -> type[_FusedAdam]:
            return _FusedAdam

    return FusedAdamBuilder


class _FusedAdam:
    """The functions of DeepSpeed's fused_adam extension, with torch's fused optimizers."""

    @staticmethod
    def multi_tensor_adam(
        chunk_size: int,
        noop_flag: Any,
        lists: list[list[Any]],
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        step: int,
        adam_w_mode: bool,
        bias_correction: bool,
        weight_decay: float,
        *_: Any,
    ) -> None:
        import torch

        if not bias_correction:
            raise NotImplementedError("FusedAdam without bias_correction does not run on this device: use torch_adam")
        grads, params, first_moments, second_moments = lists
        # The kernels expect the number of the current step.
        steps = [torch.full((), float(step), device=p.device) for p in params]
        update = torch._fused_adamw_ if adam_w_mode else torch._fused_adam_
        update(
            *(params, grads, first_moments, second_moments, [], steps),
            **{"lr": lr, "beta1": beta1, "beta2": beta2, "weight_decay": weight_decay, "eps": eps},
            amsgrad=False,
            maximize=False,
        )


def _real_accelerator(module: ModuleType, patches: Patches) -> None:
    if "DS_ACCELERATOR" in os.environ:
        return
    base = importlib.import_module("deepspeed.accelerator.abstract_accelerator").DeepSpeedAccelerator
    made = accelerator_class(base, patches.device)
    if missing := sorted(getattr(made, "__abstractmethods__", ())):
        raise TypeError(f"its accelerator has new methods: {', '.join(missing)}")
    module.set_accelerator(made())


PATCHES = {"deepspeed.accelerator.real_accelerator": _real_accelerator}
