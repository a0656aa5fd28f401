"""User kernels in the portable dialect: one source for every device with a compiler.

:mod:`hardpoint.kernels.template` describes the dialect. A kernel is compiled on first use for the call's types and
cached on disk, like the built-in kernels.
"""

from __future__ import annotations

import struct
from typing import Protocol, TypeGuard

import tvm_ffi

from hardpoint._runtime import core, only_mounted
from hardpoint.kernels import specializer, template
from hardpoint.kernels.generator import preamble
from hardpoint.kernels.pointwise import STORAGE

# TVM-FFI only transports registered error kinds. NotImplementedError means that the kernel declines the call.
tvm_ffi.register_error("NotImplementedError", NotImplementedError)

#: Framework (and TVM-FFI) dtype name -> dialect name.
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


class _Indexed(Protocol):
    @property
    def index(self) -> int | None: ...


class DeviceTensor(Protocol):
    """A tensor of TVM-FFI, torch or Paddle."""

    @property
    def device(self) -> _Indexed:
        """The device, with its index."""

    def data_ptr(self) -> int:
        """Return the address of the first element."""


class PortableKernels:
    """Kernels of one source file. ``namespace`` prefixes their names in counters and rules: ``myops::silu_mul``."""

    def __init__(self, source: str, namespace: str) -> None:
        self.source = source
        self.namespace = namespace
        self._loaded: dict[tuple[str, int, str, str], tuple[int, int]] = {}

    def available(self, device: str | None = None) -> bool:
        """Whether the device has a compiler and can run these kernels."""
        return core.compiler(device or only_mounted("available(device)"), 0) is not None

    def launch(
        self,
        kernel: str,
        elements: int,
        *arguments: DeviceTensor | float,
        device: str | None = None,
        **types: object,
    ) -> None:
        """Launch a kernel over ``elements`` elements on the device's current stream.

        Arguments are TVM-FFI or framework tensors, int (passed as ``hp_i64``) and float (``double``). ``types`` sets
        the kernel's type parameters: ``T=x.dtype``. Raises NotImplementedError before anything is queued if the device
        has no compiler, the dialect lacks a type, or a rule denies the call.
        """
        runtime = device or only_mounted("launch(..., device=...)")
        index = next((a.device.index or 0 for a in arguments if _is_tensor(a)), 0)
        description = " ".join(f"{name}={_type(value)}" for name, value in sorted(types.items()))
        key = (runtime, index, kernel, description)
        function, per_group = self._loaded.get(key) or self._load(key)
        if elements == 0:
            return
        groups = -(-elements // per_group)
        packed = [_pack(argument) for argument in arguments]
        if not core.launch_kernel(runtime, index, f"{self.namespace}::{kernel}", function, groups, packed):
            raise NotImplementedError(f"a rule denies {self.namespace}::{kernel} its device kernel")

    def _load(self, key: tuple[str, int, str, str]) -> tuple[int, int]:
        runtime, index, kernel, description = key
        compiler = core.compiler(runtime, index)
        if compiler is None:
            raise NotImplementedError(f"{runtime} has no compiler for {self.namespace}::{kernel}")
        dialect, fingerprint, group_size = compiler
        code, entry, per_group = template.source(self.namespace, self.source, kernel, description, dialect, group_size)
        head = preamble(complex_numbers="c64" in description or "c128" in description)
        binary = specializer.binary(runtime, index, fingerprint, head + code)
        loaded = self._loaded[key] = (core.load_kernel(runtime, index, binary, entry), per_group)
        return loaded


def _type(value: object) -> str:
    if isinstance(value, int):
        return str(value)
    name = str(value).rpartition(".")[2]
    if name not in DTYPES:
        raise NotImplementedError(f"the portable dialect has no type {name}")
    return DTYPES[name]


def _is_tensor(argument: object) -> TypeGuard[DeviceTensor]:
    return hasattr(argument, "data_ptr")


def _pack(argument: DeviceTensor | float) -> tuple[bool, bytes]:
    if _is_tensor(argument):
        return True, struct.pack("P", argument.data_ptr())
    return False, struct.pack("d", argument) if isinstance(argument, float) else struct.pack("q", argument)
