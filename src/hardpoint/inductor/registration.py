"""All registrations of a device with Inductor. They work on private functions of PyTorch: see the comments."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import torch

import hardpoint_triton
from hardpoint._runtime import PluginError, core
from hardpoint.kernels import specializer


def register(name: str) -> None:
    """Make Inductor compile for the device; without Triton or a compiler, route to Hardpoint's own graph mode."""
    if reason := missing(name):
        from hardpoint.inductor import routing

        routing.install(name, reason)
        return
    from torch._inductor.codegen.common import register_backend_for_device, register_device_op_overrides
    from torch._inductor.codegen.triton import TritonScheduling
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    from hardpoint.inductor import fake_convolution, interface, wrapper_code

    interface.register(name)
    _extend_gpu_types(name)
    _accept_triton()
    _decline_templates(name)
    _register_benchmark(name)
    fake_convolution.register(name)
    _keep_layouts(name)
    register_backend_for_device(name, TritonScheduling, PythonWrapperCodegen)
    register_device_op_overrides(name, wrapper_code.overrides(name))
    _limit_workers(name)


def missing(name: str) -> str:
    """Why Inductor cannot compile for the device; empty if it can."""
    from torch.utils._triton import has_triton_package

    if not has_triton_package():
        return "Triton is not installed"
    if hardpoint_triton.device_name() != name:
        return f"{name} has no compiler for the C or OpenCL C that Triton kernels become"
    compiler = core.compiler(name, 0)
    assert compiler is not None
    kernel = "__kernel void hp_probe(void) {}\n" if compiler[0] == "opencl" else "void hp_probe(void) {}\n"
    try:
        specializer.binary(name, 0, compiler[1], kernel)
    except PluginError as error:
        return str(error)
    return ""


def _extend_gpu_types(name: str) -> None:
    """Inductor takes for a GPU what is in a list; there is no function to add to it."""
    from torch._inductor import utils

    if name in utils.GPU_TYPES:
        return
    if utils.get_gpu_type() != "cuda" or torch.cuda.is_available():
        utils.GPU_TYPES.append(name)  # another GPU stays the default: the answer is cached
    else:
        utils.GPU_TYPES.append(name)
        utils.get_gpu_type.cache_clear()


def _accept_triton() -> None:
    """torch 2.14 asks the registered interfaces whether Triton works; older ones have a list of devices."""
    from torch.utils import _triton

    original = _triton.has_triton
    original.cache_clear()
    if original():
        return

    @functools.cache
    def has_triton() -> bool:
        return True

    for module_name, module in list(sys.modules.items()):  # other modules have imported the function by its name
        if module_name.startswith("torch.") and getattr(module, "__dict__", {}).get("has_triton") is original:
            vars(module)["has_triton"] = has_triton


def _decline_templates(name: str) -> None:
    """Matrix products stay the device's own. Inductor would decide the same, with a warning about too few units."""
    from torch._inductor import utils

    original = utils.is_big_gpu

    @functools.cache
    def is_big_gpu(index_or_device: int | torch.device = 0) -> bool:
        kind = index_or_device.type if isinstance(index_or_device, torch.device) else utils.get_gpu_type()
        return kind != name and bool(original(index_or_device))

    utils.is_big_gpu = is_big_gpu


def _keep_layouts(name: str) -> None:
    """Inductor prefers channels last for convolutions, and converts the weights in every step.

    Convolutions of portable kernels are not faster for it.
    """
    from torch._inductor.graph import GraphLowering

    original = GraphLowering.decide_layout_opt

    def decide_layout_opt(module: torch.fx.GraphModule, *arguments: Any, **named: Any) -> bool:
        for node in module.graph.nodes:
            value = node.meta.get("val") if node.target is torch.ops.aten.convolution.default else None
            if isinstance(value, torch.Tensor) and value.device.type == name:
                return False
        return bool(original(module, *arguments, **named))

    GraphLowering.decide_layout_opt = staticmethod(decide_layout_opt)


def _register_benchmark(name: str) -> None:
    """How variants of a kernel are measured: with the device's events."""
    from torch._inductor.runtime import benchmarking

    register_benchmarker = getattr(benchmarking, "register_benchmarker", None)  # torch 2.12 and later
    if register_benchmarker is None:
        return

    def measure(self: Any, call: Any, **options: Any) -> Any:
        return self.benchmark_gpu(call, device_type=name, **options)

    register_benchmarker(name, measure, override=True)


def _limit_workers(name: str) -> None:
    """Inductor's compile processes mount the device only if the environment names it."""
    from torch._inductor import config

    if os.environ.get("HARDPOINT_DEVICE") != name:
        config.compile_threads = 1
