"""All registrations of a device with Inductor. Several replace private functions of PyTorch; comments say why."""

from __future__ import annotations

import os
from typing import Any

import torch

from hardpoint._runtime import core
from hardpoint.inductor import availability


def register(name: str) -> None:
    """Make Inductor compile for the device, or route to Hardpoint's graph mode without Triton or a compiler."""
    if reason := availability.missing(name):
        from hardpoint.inductor import routing

        routing.install(name, reason)
        return
    from torch._inductor.codegen.common import register_backend_for_device, register_device_op_overrides
    from torch._inductor.codegen.triton import TritonScheduling
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    from hardpoint.inductor import benchmarking, fake_convolution, flex_decoding, padding, templates, wrapper_code

    _extend_gpu_types(name)
    templates.register(name)
    benchmarking.register(name)
    padding.register(name)
    fake_convolution.register(name)
    flex_decoding.register(name)
    _keep_layouts(name)
    register_backend_for_device(name, TritonScheduling, PythonWrapperCodegen, wrapper_code.no_cpp(name))
    register_device_op_overrides(name, wrapper_code.overrides(name))
    _limit_workers(name)


def _extend_gpu_types(name: str) -> None:
    """Add the device to Inductor's list of GPUs, for which there is no public function."""
    from torch._inductor import utils

    if name in utils.GPU_TYPES:
        return
    if utils.get_gpu_type() != "cuda" or torch.cuda.is_available():
        utils.GPU_TYPES.append(name)  # another GPU stays the default: the answer is cached
    else:
        utils.GPU_TYPES.append(name)
        utils.get_gpu_type.cache_clear()


def _keep_layouts(name: str) -> None:
    """Keep the layout of convolutions. Inductor prefers channels last, and converts the weights in every step.

    Portable kernels gain nothing from it, nor do vendor kernels that take contiguous tensors only.
    """
    if (core.kernel_flags(name, "convolution") or 0) & core.KERNEL_CHANNELS_LAST:
        return
    from torch._inductor.graph import GraphLowering

    original = GraphLowering.decide_layout_opt

    def decide_layout_opt(module: torch.fx.GraphModule, *arguments: Any, **named: Any) -> bool:
        for node in module.graph.nodes:
            value = node.meta.get("val") if node.target is torch.ops.aten.convolution.default else None
            if isinstance(value, torch.Tensor) and value.device.type == name:
                return False
        return bool(original(module, *arguments, **named))

    GraphLowering.decide_layout_opt = staticmethod(decide_layout_opt)


def _limit_workers(name: str) -> None:
    """Inductor's compile processes mount the device only if the environment names it."""
    from torch._inductor import config

    if os.environ.get("HARDPOINT_DEVICE") != name:
        config.compile_threads = 1
