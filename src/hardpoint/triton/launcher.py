"""Loading and launching of Triton kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hardpoint._runtime import PluginError, core
from hardpoint.torch import device_name
from hardpoint_triton import WARP_SIZE

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
#: Device memory for tiles that local memory has no room for: as many groups run as find room here.
WORKSPACE_BYTES = 1 << 30
Flatten = Callable[[Any, list[Any]], None]


def _mounted() -> str:
    name = device_name()
    if name is None:
        raise RuntimeError("hardpoint: no device is mounted")
    return name


def load(name: str, binary: bytes, device: int) -> int:
    """Load a kernel on a device and return its handle."""
    try:
        return core.load_kernel(_mounted(), device, binary, name)
    except PluginError as error:
        raise PluginError(f"Triton kernel {name}: {error}; clear TRITON_CACHE_DIR (default ~/.triton/cache)") from None


def device_properties(device: int) -> dict[str, int]:
    """Limits for Triton's autotuner. The memory of a program is not limited by hardware."""
    units = core.devices(_mounted())[device]["compute_units"]
    return {
        "max_shared_mem": 1 << 30,
        "multiprocessor_count": units or 1,
        "max_num_regs": 1 << 16,
        "warpSize": WARP_SIZE,
        "sm_clock_rate": 0,
        "mem_clock_rate": 0,
        "mem_bus_width": 0,
    }


class Launcher:
    """Launches one compiled kernel: packs the arguments as its signature says."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.name = f"triton::{metadata.name}"
        constants = set(getattr(source, "constants", {}))
        self.nested: dict[int, Any] = {}
        kinds = ""
        for number, kind in enumerate(source.signature.values()):
            if (number,) in constants:
                kind = "constexpr"
            if isinstance(kind, tuple) or kind.startswith("tensordesc"):
                self.nested[number] = kind
            kinds += _kinds(kind)
        runtime = _mounted()
        self.current_device: Callable[[], int] = getattr(torch, runtime).current_device
        asserts, workspace = bool(getattr(metadata, "asserts", False)), int(getattr(metadata, "workspace", 0))
        groups = min(core.devices(runtime)[0]["compute_units"] or 1, WORKSPACE_BYTES // max(workspace, 1))
        self.native = core.GridLauncher(runtime, self.name, kinds, asserts, workspace, max(groups, 1))

    def __call__(
        self,
        x: int,
        y: int,
        z: int,
        stream: int,
        function: int,
        packed_metadata: Any,
        launch_metadata: Any,
        enter: Callable[[Any], None] | None,
        leave: Callable[[Any], None] | None,
        *arguments: Any,
    ) -> None:
        """Queue the kernel on the current stream."""
        if enter is not None:
            enter(launch_metadata)
        if self.nested:
            arguments = self._flatten(arguments)
        empty = min(x, y, z) <= 0
        if not empty and not self.native.launch(self.current_device(), function, x, y, z, arguments):
            raise NotImplementedError(f"a rule denies {self.name} its device kernel; a Triton kernel has no other")
        if leave is not None:
            leave(launch_metadata)

    def _flatten(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        flat: list[Any] = []
        for number, value in enumerate(arguments):
            _flatten(self.nested.get(number, ""), value, flat)
        return tuple(flat)


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
        return "P" + "q" * 2 * rank + "BB" + "i" * rank + "q" * rank
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
        rounds = getattr(value, "round_f32_to_tf32", False)
        flat += [value.base, *value.shape, *value.strides, value.padding == "nan", rounds, *value.shape, *value.strides]
    else:
        flat.append(value)
