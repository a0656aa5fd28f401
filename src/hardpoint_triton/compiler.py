"""The compiler of Triton's backend: TTIR, C, and a binary of the plug-in's compiler."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from triton.backends.compiler import BaseBackend, GPUTarget

import hardpoint_triton


@dataclass(frozen=True)
class Options:
    """Options of a compilation. Most describe NVIDIA's hardware; Triton and Inductor expect them of every backend."""

    num_warps: int = 1
    num_ctas: int = 1
    num_stages: int = 1
    warp_size: int = hardpoint_triton.WARP_SIZE
    cluster_dims: tuple[int, int, int] = (1, 1, 1)
    extern_libs: Any = None
    debug: bool = False
    sanitize_overflow: bool = False
    backend_name: str = "hardpoint"
    arch: str = ""
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e5", "fp8e4nv")
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple[str, ...] = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    enable_fp_fusion: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    instrumentation_mode: str = ""
    ir_override: str | None = None
    maxnreg: int | None = None
    fpsan_homomorphic_casts: bool = False
    # Hints for AMD's hardware, which configurations of portable programs contain.
    waves_per_eu: int = 0
    matrix_instr_nonkdim: int = 0
    kpack: int = 1

    def __post_init__(self) -> None:
        assert self.num_warps > 0, "num_warps must be a power of 2"
        assert self.num_warps & (self.num_warps - 1) == 0, "num_warps must be a power of 2"

    def hash(self) -> str:
        """Key of Triton's cache."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


class HardpointBackend(BaseBackend):  # type: ignore[misc]
    """Compiles kernels for the device that is mounted on torch."""

    binary_ext = "bin"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Whether the target is the mounted device. Inductor names a target after the device."""
        return bool(target.backend == hardpoint_triton.device_name())

    def hash(self) -> str:
        """Key of Triton's cache: the compiler's identity."""
        from hardpoint.triton import stages

        name = self.target.backend
        return f"hardpoint-{stages.version()}-{name}-{self.target.arch}-{stages.target(name)}"

    def parse_options(self, options: dict[str, Any]) -> Options:
        """Options of a launch; unknown ones are ignored, as they describe other hardware."""
        known = Options.__dataclass_fields__
        return Options(**{key: value for key, value in options.items() if key in known and value is not None})

    def pack_metadata(self, metadata: Any) -> tuple[Any, ...]:
        """What the launcher needs of the metadata: nothing."""
        return ()

    def get_codegen_implementation(self, options: Options) -> dict[str, Any]:
        """Functions that Triton's front end asks for."""
        return {"min_dot_size": _min_dot_size, "convert_custom_types": None}

    def get_module_map(self) -> dict[str, ModuleType]:
        """Modules that stand for Triton's inside of kernels."""
        from hardpoint.triton import libdevice

        return {"triton.language.extra.libdevice": libdevice.module()}

    def load_dialects(self, context: Any) -> None:
        """No dialects beside Triton's own."""

    def add_stages(self, stages: dict[str, Any], options: Options, language: Any = None) -> None:
        """The steps of a compilation."""
        from hardpoint.triton import stages as ours

        stages["ttir"] = ours.make_ttir
        name = self.target.backend
        stages[ours.target(name).extension] = functools.partial(ours.make_source, name)
        stages["bin"] = functools.partial(ours.make_binary, name, options)


def _min_dot_size(left: Any, right: Any) -> tuple[int, int, int]:
    return 1, 1, 1
