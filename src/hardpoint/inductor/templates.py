"""Inductor's Triton templates for matrix products: which devices try them, and with which configurations."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

from hardpoint.triton import generators

#: Minimum number of compute units, as Inductor requires of cuda.
BIG_GPU_UNITS = 68
#: Modules with the configurations: torch 2.11 to 2.14, then 2.15.
REGISTRIES = ("torch._inductor.template_heuristics.registry", "torch._inductor.heuristics.registry")


def register(name: str) -> None:
    """Offer the templates on devices whose kernels come from a compiler for GPUs.

    Devices for which Hardpoint translates Triton kernels to C use their own matrix products.
    """
    for_gpus = generators.kind(name) != "portable"
    units = getattr(torch, name).get_device_properties(0).compute_units
    _judge_size(name, for_gpus and units >= BIG_GPU_UNITS)
    if for_gpus:
        _copy_configurations(name)


def _judge_size(name: str, is_big: bool) -> None:
    """Inductor requires a big GPU for the templates, and asks torch.cuda whether there is one."""
    from torch._inductor import utils

    original = utils.is_big_gpu

    @functools.cache
    def is_big_gpu(index_or_device: int | torch.device = 0) -> bool:
        kind = index_or_device.type if isinstance(index_or_device, torch.device) else utils.get_gpu_type()
        return is_big if kind == name else bool(original(index_or_device))

    utils.is_big_gpu = is_big_gpu


def _copy_configurations(name: str) -> None:
    """Use cuda's configurations for the device, except those with tensor maps."""
    for module_name in REGISTRIES:
        try:
            registry: Any = importlib.import_module(module_name)
        except ModuleNotFoundError:
            continue
        known = registry._TEMPLATE_HEURISTIC_REGISTRY
        for (template, device, op), heuristic in list(known.items()):
            if device == "cuda" and "tma" not in template:
                known.setdefault((template, name, op), heuristic)
