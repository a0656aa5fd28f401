"""Loading and launching of Triton kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from hardpoint._runtime import PluginError, core
from hardpoint.torch import device_name
from hardpoint.triton import generators

#: Type of an argument -> format character of the native launcher.
FORMATS = {
    "i1": "B",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u1": "B",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "fp16": "e",
    "bf16": "E",
    "fp32": "f",
    "f32": "f",
    "fp64": "d",
}
CONSTANT = "-"
#: Arguments of a launch before those of the kernel: see GridLauncher in csrc/python.
LEADING_ARGUMENTS = 9
#: Reported to Triton for memory and threads without a limit.
NO_LIMIT = 1 << 30
#: Divisor for heuristics if the plug-in reports no value.
REGISTERS, UNIT_REGISTERS = 32, 1 << 16


def mounted() -> str:
    """Name of the mounted device."""
    name = device_name()
    if name is None:
        raise RuntimeError("hardpoint: no device is mounted")
    return name


def load(name: str, binary: bytes, device: int) -> tuple[int, int, int, int, int]:
    """Load a kernel on a device: module, function, registers, spilled registers, maximum group size."""
    runtime = mounted()
    try:
        function = core.load_kernel(runtime, device, binary, name)
    except PluginError as error:
        raise PluginError(f"Triton kernel {name}: {error}; clear TRITON_CACHE_DIR (default ~/.triton/cache)") from None
    if generators.kind(runtime) != "nvidia":  # elsewhere Triton's threads are not the device's
        return function, function, REGISTERS, 0, NO_LIMIT
    found = core.function_attributes(runtime, device, function)
    return function, function, found["registers"], found["spilled_bytes"] // 4, found["max_group_size"]


def device_properties(device: int) -> dict[str, int]:
    """Limits for Triton's autotuner."""
    runtime = mounted()
    found = getattr(torch, runtime).get_device_properties(device)
    # Where Hardpoint translates kernels, the memory of a program is not limited by hardware.
    local = found.shared_memory_per_block_optin if generators.kind(runtime) == "nvidia" else 0
    return {
        "max_shared_mem": local or NO_LIMIT,
        "multiprocessor_count": found.compute_units or 1,
        "max_num_regs": found.regs_per_multiprocessor or UNIT_REGISTERS,
        "warpSize": generators.warp_size(runtime),
        "sm_clock_rate": found.clock_rate,
        "mem_clock_rate": found.memory_clock_rate,
        "mem_bus_width": found.memory_bus_width,
    }


def make(source: Any, metadata: Any) -> Callable[..., None]:
    """The function that launches a compiled kernel, called as Triton calls every launcher."""
    runtime = mounted()
    if metadata.target.backend != runtime:
        return _of_another_device(source, metadata)
    constants = set(getattr(source, "constants", {}))
    nested: dict[int, Any] = {}
    kinds = ""
    for number, kind in enumerate(source.signature.values()):
        if (number,) in constants:
            kind = "constexpr"
        if isinstance(kind, tuple) or kind.startswith("tensordesc"):
            nested[number] = kind
        kinds += _kinds(kind)
    native = generators.launcher(runtime, metadata, kinds)
    return _Flattening(native, nested) if nested else native


def _of_another_device(source: Any, metadata: Any) -> Callable[..., None]:
    """A kernel for cuda, in a program that mounts a device beside it: Triton has one driver, but several launchers."""
    from triton.backends import backends

    for backend in backends.values():
        if backend.compiler.supports_target(metadata.target):
            made: Callable[..., None] = backend.driver().launcher_cls(source, metadata)
            return made
    raise RuntimeError(f"hardpoint: no Triton backend launches kernels for {metadata.target}")


class _Flattening:
    """A launcher of a kernel with tuples or tensor descriptors among its arguments."""

    def __init__(self, native: Callable[..., None], nested: dict[int, Any]) -> None:
        self.native, self.nested = native, nested

    def __call__(self, *given: Any) -> None:
        """Queue the kernel on the current stream."""
        flat: list[Any] = []
        for number, value in enumerate(given[LEADING_ARGUMENTS:]):
            _flatten(self.nested.get(number, ""), value, flat)
        self.native(*given[:LEADING_ARGUMENTS], *flat)


def _kinds(kind: Any) -> str:
    """Format characters of an argument, several for a tuple or a tensor descriptor."""
    if isinstance(kind, tuple):
        return "".join(map(_kinds, kind))
    if kind == "constexpr":
        return CONSTANT
    if kind.startswith("*"):
        return "P"
    if kind.startswith("tensordesc"):
        rank = int(kind.partition("[")[2].count(",")) + 1
        return "P" + "q" * 2 * rank + "B" * len(_descriptor_flags()) + "i" * rank + "q" * rank
    found = FORMATS.get(kind)
    if found is None:
        raise NotImplementedError(f"arguments of type {kind} are not supported")
    return found


def _flatten(kind: Any, value: Any, flat: list[Any]) -> None:
    if isinstance(kind, tuple):
        for part, inner in zip(kind, value, strict=True):
            _flatten(part, inner, flat)
    elif kind.startswith("tensordesc"):
        # The pointer, sizes, strides and flags that TTIR expects of a descriptor; then the sizes and strides again.
        flags = [flag(value) for flag in _descriptor_flags()]
        flat += [value.base, *value.shape, *value.strides, *flags, *value.shape, *value.strides]
    else:
        flat.append(value)


@functools.cache
def _descriptor_flags() -> tuple[Callable[[Any], bool], ...]:
    """The flags of a tensor descriptor that a kernel takes. Triton 3.6 has only the first."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    flags: tuple[Callable[[Any], bool], ...] = (lambda value: value.padding == "nan",)
    if "round_f32_to_tf32" in TensorDescriptor.__dataclass_fields__:
        flags += (lambda value: value.round_f32_to_tf32,)
    return flags
