"""Whether Triton compiles for the mounted device: what Dynamo and Inductor ask, and why not."""

from __future__ import annotations

import functools
import sys

import hardpoint_triton
from hardpoint._runtime import PluginError, core
from hardpoint.kernels import specializer
from hardpoint.triton import generators


@functools.cache
def missing(name: str) -> str:
    """Why Inductor cannot compile for the device; empty if it can."""
    from torch.utils._triton import has_triton_package

    if not has_triton_package():
        return "Triton is not installed"
    if hardpoint_triton.device_name() != name:
        return f"{name} has no compiler for Triton kernels, nor for the C or OpenCL C that they become"
    if generators.kind(name) != "portable":
        return ""
    compiler = core.compiler(name, 0)
    assert compiler is not None
    kernel = "__kernel void hp_probe(void) {}\n" if compiler[0] == "opencl" else "void hp_probe(void) {}\n"
    try:
        specializer.binary(name, 0, compiler[1], kernel)
    except PluginError as error:
        return str(error)
    return ""


def accept_triton(name: str) -> None:
    """Let PyTorch see that Triton works. It looks for a device in a fixed list of names.

    Dynamo asks while it traces: without Triton it would trace into the launcher of a Triton kernel.
    """
    from torch.utils import _triton

    original = _triton.has_triton

    @functools.cache
    def has_triton() -> bool:
        return bool(original()) or not missing(name)

    for module_name, module in list(sys.modules.items()):  # other modules have imported the function by name
        if module_name.startswith("torch.") and getattr(module, "__dict__", {}).get("has_triton") is original:
            vars(module)["has_triton"] = has_triton
