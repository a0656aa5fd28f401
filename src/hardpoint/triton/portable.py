"""Triton kernels in a dialect of the portable kernels: TTIR, C or OpenCL C, and a binary of the plug-in's compiler."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hardpoint._runtime import core
from hardpoint.triton import libdevice, stages

#: Programs are not split into threads, but Inductor's heuristics divide by this and expect a GPU's value.
WARP_SIZE = 32
#: Device memory for tiles that do not fit in local memory. It limits the number of groups that run at a time.
WORKSPACE_BYTES = 1 << 30


@dataclass(frozen=True)
class Options:
    """Options of a compilation. Most describe NVIDIA's hardware; Triton and Inductor expect them of every backend."""

    num_warps: int = 1
    num_ctas: int = 1
    num_stages: int = 1
    warp_size: int = WARP_SIZE
    cluster_dims: tuple[int, int, int] = (1, 1, 1)
    extern_libs: object = None
    debug: bool = False
    sanitize_overflow: bool = False
    backend_name: str = "hardpoint"
    arch: str = ""
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e5", "fp8e4nv", "fp8e5b16", "fp8e4b8")
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
    #: Check the addresses of accesses; set while the tool `guard` is on.
    guard: bool = False
    # Hints for AMD's hardware, which portable programs have in their configurations.
    waves_per_eu: int = 0
    matrix_instr_nonkdim: int = 0
    kpack: int = 1

    def __post_init__(self) -> None:
        assert self.num_warps > 0, "num_warps must be a power of 2"
        assert self.num_warps & (self.num_warps - 1) == 0, "num_warps must be a power of 2"

    def hash(self) -> str:
        """Key of Triton's cache."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


class Generator:
    """See :class:`hardpoint.triton.generators.Generator`."""

    binary_ext = "bin"

    def __init__(self, target: Any) -> None:
        self.device: str = target.backend

    def hash(self) -> str:
        """Identity of the translation and its target."""
        return f"{stages.version()}-{stages.target(self.device)}"

    def parse_options(self, options: dict[str, Any]) -> Options:
        """Ignores unknown options, which describe other hardware."""
        known = Options.__dataclass_fields__
        given = {key: value for key, value in options.items() if key in known and value is not None}
        return Options(**{"guard": core.guard_zones(), **given})

    def get_codegen_implementation(self, options: Options) -> dict[str, Any]:
        """Dot products of any size."""
        return {"min_dot_size": _min_dot_size, "convert_custom_types": None}

    def get_module_map(self) -> dict[str, ModuleType]:
        """Hardpoint's own math functions."""
        return {"triton.language.extra.libdevice": libdevice.module()}

    def load_dialects(self, context: Any) -> None:
        """No additional dialects."""

    def add_stages(self, found: dict[str, Any], options: Options, language: Any) -> None:
        """TTIR, source, binary."""
        found["ttir"] = stages.make_ttir
        found[stages.target(self.device).extension] = functools.partial(stages.make_source, self.device, options)
        found["bin"] = functools.partial(stages.make_binary, self.device, options)


def _min_dot_size(left: Any, right: Any) -> tuple[int, int, int]:
    return 1, 1, 1


def architecture(device: str, index: int) -> str:
    """The fingerprint of the plug-in's compiler."""
    compiler = core.compiler(device, index)
    assert compiler is not None
    return compiler[1]


def launcher(device: str, metadata: Any, kinds: str) -> Callable[..., None]:
    """The launcher: one group runs a program. The sizes of the grid are arguments."""
    workspace = int(metadata.workspace)
    groups = min(core.devices(device)[0]["compute_units"] or 1, WORKSPACE_BYTES // max(workspace, 1))
    name = f"triton::{metadata.kernel}"
    return core.portable_grid_launcher(
        device, name, kinds, metadata.asserts, metadata.addresses, metadata.guarded, workspace, max(groups, 1)
    )
