"""The target of a translation: a dialect of the portable kernels, and the limits of a work-group."""

from __future__ import annotations

from dataclasses import dataclass

#: Name of the source's stage in Triton's cache: ``kernel.asm["cl"]``.
EXTENSIONS = {"c": "c", "opencl": "cl", "cuda": "cu"}


@dataclass(frozen=True)
class Target:
    """A device's compiler.

    Attributes:
        dialect: ``c``, ``opencl`` or ``cuda``.
        group_size: Work-items of a group. In the dialect ``c``, one thread runs a program.
        local_memory: Bytes of local memory per group.
        guard: Whether kernels check the addresses of their accesses.
    """

    dialect: str = "c"
    group_size: int = 1
    local_memory: int = 0
    guard: bool = False

    @property
    def spreads(self) -> bool:
        """Whether the work-items of a group share the work of a program."""
        return self.dialect != "c"

    @property
    def extension(self) -> str:
        """Extension of the source's file name."""
        return EXTENSIONS[self.dialect]
