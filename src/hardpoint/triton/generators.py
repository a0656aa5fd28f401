"""The code generators for Triton kernels, and which one serves a device."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

from hardpoint._runtime import core

#: Dialects that Hardpoint itself translates Triton kernels to.
DIALECTS = ("c", "opencl")


class Generator(Protocol):
    """From Triton's IR to a binary of the device: the device-dependent part of Triton's ``BaseBackend``."""

    #: Name of the last stage, which makes the binary.
    binary_ext: str

    def hash(self) -> str:
        """Identity of the generator, for Triton's cache."""

    def parse_options(self, options: dict[str, Any]) -> Any:
        """Options of a compilation."""

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        """Functions for Triton's front end."""

    def get_module_map(self) -> dict[str, ModuleType]:
        """Modules that replace Triton's inside kernels."""

    def load_dialects(self, context: Any) -> None:
        """Load additional MLIR dialects."""

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any) -> None:
        """Add the steps of a compilation."""


@functools.cache
def kind(device: str) -> str | None:
    """Name of the module in this package that generates code for a mounted device; None if there is none."""
    from hardpoint.triton import vendor

    if vendor.registered(device) is not None:
        return "vendor"
    compiler = core.compiler(device, 0)
    dialect = compiler[0] if compiler is not None else None
    if dialect == "cuda" and core.loads(device, "cubin") and _has_nvidia_backend():
        return "nvidia"
    return "portable" if dialect in DIALECTS else None


def _has_nvidia_backend() -> bool:
    try:
        return importlib.util.find_spec("triton.backends.nvidia") is not None
    except ModuleNotFoundError:
        return False


def _module(device: str) -> Any:
    found = kind(device)
    if found is None:
        raise RuntimeError(f"hardpoint: {device} has no compiler for Triton kernels")
    return importlib.import_module(f"hardpoint.triton.{found}")


def make(target: Any) -> Generator:
    """The generator for a target of Triton."""
    generator: Generator = _module(target.backend).Generator(target)
    return generator


def architecture(device: str, index: int = 0) -> Any:
    """The architecture of a device, part of Triton's cache key."""
    return _module(device).architecture(device, index)


def warp_size(device: str) -> int:
    """Work-items that Triton counts as one warp."""
    return int(_module(device).WARP_SIZE)


def launcher(device: str, metadata: Any, kinds: str) -> Callable[..., None]:
    """The native function that launches a kernel. ``kinds``: its arguments, see ``csrc/python/grid_launcher.h``."""
    made: Callable[..., None] = _module(device).launcher(device, metadata, kinds)
    return made
