"""Triton kernels on a plug-in that loads cubins: Triton's own compiler builds them, the plug-in launches them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from hardpoint._runtime import core

WARP_SIZE = 32
#: Values of HpLaunch.flags.
COOPERATIVE, OVERLAP = 1, 2


class Generator:
    """See :class:`hardpoint.triton.generators.Generator`."""

    def __init__(self, target: Any) -> None:
        from triton.backends import backends
        from triton.backends.compiler import GPUTarget

        self.backend = backends["nvidia"].compiler(GPUTarget("cuda", int(target.arch), WARP_SIZE))
        self.binary_ext: str = self.backend.binary_ext

    def hash(self) -> str:
        """Version of ptxas."""
        return f"nvidia-{self.backend.hash()}"

    def parse_options(self, options: dict[str, Any]) -> Any:
        """As Triton does for cuda."""
        return self.backend.parse_options(options)

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        """As Triton does for cuda."""
        found: dict[str, Any] = self.backend.get_codegen_implementation(options)
        return found

    def get_module_map(self) -> dict[str, ModuleType]:
        """NVIDIA's libdevice."""
        found: dict[str, ModuleType] = self.backend.get_module_map()
        return found

    def load_dialects(self, context: Any) -> None:
        """NVIDIA's dialects."""
        self.backend.load_dialects(context)

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any) -> None:
        """As Triton does for cuda, but tensor descriptors become plain pointers: the contract has no tensor maps."""
        self.backend.add_stages(stages, options, language)
        make_ttir = stages.get("ttir")
        if make_ttir is not None:
            stages["ttir"] = lambda module, metadata: _without_descriptors(make_ttir(module, metadata))


def _without_descriptors(module: Any) -> Any:
    if "tensordesc" not in str(module):
        return module
    from triton._C.libtriton import ir, passes

    manager = ir.pass_manager(module.context)
    passes.ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
    passes.common.add_canonicalizer(manager)
    passes.ttir.add_combine(manager)
    passes.common.add_cse(manager)
    passes.common.add_symbol_dce(manager)
    manager.run(module, "without_descriptors")
    return module


def architecture(device: str, index: int) -> int:
    """The compute capability, such as 90."""
    import torch

    properties = getattr(torch, device).get_device_properties(index)
    return int(properties.major * 10 + properties.minor)


def launcher(device: str, metadata: Any, kinds: str) -> Callable[..., None]:
    """The launcher: a cluster of groups runs a program. Addresses of scratch memory follow the kernel's arguments."""
    clusters = int(metadata.num_ctas)
    cooperative, overlap = bool(metadata.launch_cooperative_grid), bool(metadata.launch_pdl)
    return core.binary_grid_launcher(
        device,
        f"triton::{metadata.name}",
        kinds,
        (WARP_SIZE * int(metadata.num_warps), 1, 1),
        int(metadata.shared),
        (clusters, 1, 1) if clusters > 1 else (0, 0, 0),
        COOPERATIVE * cooperative | OVERLAP * overlap,
        [int(metadata.global_scratch_size or 0), int(getattr(metadata, "profile_scratch_size", 0) or 0)],
    )
