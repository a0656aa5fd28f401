"""Vendors' Triton compilers: one Python function from TTIR to a binary that the plug-in loads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

from hardpoint._runtime import core
from hardpoint.triton import generators, stages
from hardpoint.triton.portable import Generator as PortableGenerator
from hardpoint.triton.portable import Options, architecture

__all__ = ["WARP_SIZE", "Binary", "Generator", "architecture", "launcher", "register_compiler", "registered"]

WARP_SIZE = 32


class Binary(NamedTuple):
    """A compiled Triton kernel.

    The kernel takes the arguments of the Triton kernel that are not constants, in their order, then a pointer for each
    element of ``scratch``. Its grid of groups is the grid of programs.

    Attributes:
        data: What ``HpCompiler.load`` takes.
        name: The kernel's name in the binary.
        group_size: Work-items of a program.
        local_bytes: Dynamic local memory of a program.
        scratch: Bytes of device memory per program, one entry for each pointer.
    """

    data: bytes
    name: str
    group_size: tuple[int, int, int] = (1, 1, 1)
    local_bytes: int = 0
    scratch: tuple[int, ...] = ()


Compile = Callable[[str, Options], Binary]


@dataclass(frozen=True)
class _Registration:
    compile: Compile
    version: str
    math: ModuleType | None


_compilers: dict[str, _Registration] = {}


def register_compiler(device: str, compile: Compile, version: str, math: ModuleType | None = None) -> None:
    """Let a function compile Triton kernels for a device, instead of Hardpoint's translation to C or OpenCL C.

    Args:
        device: Name of the device.
        compile: Called with the text of a TTIR module and the options of the launch. An exception reaches the user.
        version: Identifies the compiler in Triton's cache.
        math: Replaces ``triton.language.extra.libdevice`` inside kernels. Default: Hardpoint's module, whose functions
            become calls of ``hp_*`` functions.
    """
    _compilers[device] = _Registration(compile, version, math)
    generators.kind.cache_clear()


def registered(device: str) -> _Registration | None:
    """The compiler of a device, if its vendor has one."""
    return _compilers.get(device)


class Generator(PortableGenerator):
    """See :class:`hardpoint.triton.generators.Generator`."""

    def __init__(self, target: Any) -> None:
        super().__init__(target)
        self.compiler = _compilers[self.device]

    def hash(self) -> str:
        """The version of the vendor's compiler."""
        return f"vendor-{self.compiler.version}-{stages.version()}"

    def get_module_map(self) -> dict[str, ModuleType]:
        """The vendor's math functions, if there are any."""
        if self.compiler.math is None:
            return super().get_module_map()
        return {"triton.language.extra.libdevice": self.compiler.math}

    def add_stages(self, found: dict[str, Any], options: Options, language: Any) -> None:
        """TTIR, binary."""
        found["ttir"] = stages.make_ttir
        found["bin"] = functools.partial(_make_binary, self.compiler.compile, options)


def _make_binary(compile: Compile, options: Options, module: Any, metadata: dict[str, Any]) -> bytes:
    binary = compile(str(module), options)
    metadata["name"] = binary.name
    metadata["shared"] = max(binary.local_bytes, 1)  # programs divide by it
    metadata["local_bytes"] = binary.local_bytes
    metadata["group_size"] = list(binary.group_size)
    metadata["scratch"] = list(binary.scratch)
    return binary.data


def launcher(device: str, metadata: Any, kinds: str) -> Callable[..., None]:
    """The launcher: one group runs a program."""
    x, y, z = metadata.group_size
    return core.binary_grid_launcher(
        device, f"triton::{metadata.name}", kinds, (x, y, z), metadata.local_bytes, (0, 0, 0), 0, metadata.scratch
    )
