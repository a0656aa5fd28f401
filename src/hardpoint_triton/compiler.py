"""The compiler of Triton's backend: hands every step to the code generator of the mounted device."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from triton.backends.compiler import BaseBackend, GPUTarget

import hardpoint_triton


class HardpointBackend(BaseBackend):  # type: ignore[misc]
    """Compiles kernels for the device that is mounted on torch."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether the target is the mounted device. Inductor names a target after the device."""
        return bool(target.backend == hardpoint_triton.device_name())

    def __init__(self, target: GPUTarget) -> None:
        from hardpoint.triton import generators

        super().__init__(target)
        self.generator = generators.make(target)
        self.binary_ext = self.generator.binary_ext

    def hash(self) -> str:
        """Key of Triton's cache."""
        return f"hardpoint-{self.target.backend}-{self.target.arch}-{self.generator.hash()}"

    def parse_options(self, options: dict[str, Any]) -> Any:
        """Options of a compilation, from those of a launch."""
        return self.generator.parse_options(options)

    def pack_metadata(self, metadata: Any) -> tuple[Any, ...]:
        """The launcher needs no packed metadata."""
        return ()

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        """Functions for Triton's front end."""
        return self.generator.get_codegen_implementation(options)

    def get_module_map(self) -> dict[str, ModuleType]:
        """Modules that replace Triton's inside kernels."""
        return self.generator.get_module_map()

    def load_dialects(self, context: Any) -> None:
        """Additional MLIR dialects."""
        self.generator.load_dialects(context)

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any = None) -> None:
        """The steps of a compilation."""
        self.generator.add_stages(stages, options, language)
