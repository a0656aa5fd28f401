"""A program's own kernels in the portable dialect: one source for every device that has a compiler.

The dialect is that of Hardpoint's own kernels, described in :mod:`hardpoint.kernels.template`. Kernels are compiled
when they are first used, for the types of the call, and kept on disk like Hardpoint's own.
"""

from __future__ import annotations

import struct
from typing import Any

import tvm_ffi

from hardpoint._runtime import core, mounted
from hardpoint.kernels import portable, template
from hardpoint.kernels.pointwise import STORAGE
from hardpoint.kernels.source import preamble

# TVM-FFI passes the kinds of error that it knows by name, and this one means "not this call" to us.
tvm_ffi.register_error("NotImplementedError", NotImplementedError)

#: A dtype's name in the frameworks and in TVM-FFI -> in the dialect.
DTYPES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    "uint8": "u8",
    "bool": "bool",
    "complex64": "c64",
    "complex128": "c128",
}
assert set(DTYPES.values()) == set(STORAGE)


class PortableKernels:
    """The kernels of one source. ``namespace`` goes before their names in counters and rules: ``myops::silu_mul``."""

    def __init__(self, source: str, namespace: str) -> None:
        self.source = source
        self.namespace = namespace
        self._loaded: dict[tuple[str, int, str, str], tuple[int, int]] = {}

    def available(self, device: str | None = None) -> bool:
        """Whether the device has a compiler, so that these kernels can run there."""
        return core.compiler(device or self._device(), 0) is not None

    def launch(self, kernel: str, elements: int, *arguments: Any, device: str | None = None, **types: Any) -> None:
        """Queue a kernel over so many elements on the device's current stream.

        Arguments are tensors (of TVM-FFI, or of a framework), int (``hp_i64``) and float (``double``). ``types`` gives
        the kernel's type parameters: ``T=x.dtype``. Raises NotImplementedError, before anything is queued, where the
        device has no compiler, the dialect no such type, or a rule denies the call.
        """
        runtime = device or self._device()
        index = next((a.device.index or 0 for a in arguments if hasattr(a, "data_ptr")), 0)
        description = " ".join(f"{name}={_type(value)}" for name, value in sorted(types.items()))
        key = (runtime, index, kernel, description)
        function, per_group = self._loaded.get(key) or self._load(key)
        if elements == 0:
            return
        groups = -(-elements // per_group)
        packed = [_pack(argument) for argument in arguments]
        if not core.launch_kernel(runtime, index, f"{self.namespace}::{kernel}", function, groups, packed):
            raise NotImplementedError(f"a rule keeps {self.namespace}::{kernel} off the device's kernel")

    def _device(self) -> str:
        names = mounted()
        if len(names) != 1:
            raise ValueError(f"which device? mounted: {', '.join(names) or 'none'}; say launch(..., device=...)")
        return names[0]

    def _load(self, key: tuple[str, int, str, str]) -> tuple[int, int]:
        runtime, index, kernel, description = key
        compiler = core.compiler(runtime, index)
        if compiler is None:
            raise NotImplementedError(f"{runtime} has no compiler for {self.namespace}::{kernel}")
        dialect, fingerprint, group_size = compiler
        code, entry, per_group = template.source(self.namespace, self.source, kernel, description, dialect, group_size)
        head = preamble(complex_numbers="c64" in description or "c128" in description)
        binary = portable.binary(runtime, index, fingerprint, head + code)
        loaded = self._loaded[key] = (core.load_kernel(runtime, index, binary, entry), per_group)
        return loaded


def _type(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    name = str(value).rpartition(".")[2]
    if name not in DTYPES:
        raise NotImplementedError(f"the portable dialect has no type {name}")
    return DTYPES[name]


def _pack(argument: Any) -> tuple[bool, bytes]:
    if hasattr(argument, "data_ptr"):
        return True, struct.pack("P", argument.data_ptr())
    return False, struct.pack("d", argument) if isinstance(argument, float) else struct.pack("q", argument)
