"""The mode ``modules``: PyTorch's module database, forward, backward and buffers, in training and evaluation."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from typing import Any

import torch

import hardpoint
from hardpoint.check import compare, tables
from hardpoint.check.report import Result
from hardpoint.check.samples import WIDER, Sample, pick, to_device, widened

Step = Callable[[str], None]


def _database() -> dict[str, Any]:
    from torch.testing._internal.common_modules import module_db

    return {info.name: info for info in module_db}


def names(pattern: Callable[[str], bool]) -> list[str]:
    """The entries that match."""
    return [name for name in _database() if pattern(name)]


def _pass(module: torch.nn.Module, sample: Sample, seeds: list[torch.Tensor] | None, device: str) -> tuple[Any, Any]:
    """Outputs, gradients of inputs and parameters, and buffers after one forward and one backward pass."""
    result = module(*sample.args, **sample.kwargs)
    outputs = [t for t in compare.leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    inputs = [t for t in [*sample.tensors(), *module.parameters()] if t.requires_grad]
    gradients: Any = ()
    if outputs and inputs:
        seeds = seeds or [torch.randn(t.shape, dtype=t.dtype) for t in outputs]
        given = [seed.to(device, t.dtype) for seed, t in zip(seeds, outputs, strict=True)]
        gradients = torch.autograd.grad(outputs, inputs, given, allow_unused=True)
    return [result, [g for g in gradients if g is not None], list(module.buffers())], seeds


def _sample(info: Any, data: Any, dtype: torch.dtype, training: bool) -> str | None:
    """What is wrong with one construction and call; None when the CPU does not take it."""
    device = hardpoint.torch.device_name() or ""
    forward = data.forward_input
    if forward is None:
        return None
    sample = Sample(None, tuple(forward.args), dict(forward.kwargs))
    if any(t.layout is not torch.strided for t in sample.tensors()):
        return None
    try:
        built = info.module_cls(*data.constructor_input.args, **data.constructor_input.kwargs).to(dtype).train(training)
        if info.is_lazy:
            built(*sample.args, **sample.kwargs)  # makes its parameters, at random: both sides need the same ones
        ours, wide = copy.deepcopy(built), copy.deepcopy(built)
        expected, seeds = _pass(built, sample, None, "cpu")
    except Exception:
        return None
    placed = to_device(sample, device)
    ours = ours.to(device)
    hardpoint.reset_counters()
    try:
        if info.is_lazy:
            # The device can make the parameters, too. (Not after .to(device): torch then makes ordinary parameters of
            # them on every device that it does not know itself.)
            with torch.device(device):
                made = info.module_cls(*data.constructor_input.args, **data.constructor_input.kwargs).to(dtype)
            made(*placed.args, **placed.kwargs)
        actual, _ = _pass(ours, placed, seeds, device)
        torch.accelerator.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

    def reference() -> Any:
        with torch.enable_grad():
            return _pass(wide.to(WIDER[dtype]), widened(sample), seeds, "cpu")[0]

    with torch.no_grad():
        return compare.values(actual, expected, device, reference if dtype in WIDER else None)


def run(name: str, device: str, options: dict[str, Any], step: Step) -> Result:
    """Check one module."""
    result = Result("modules", name)
    if reason := tables.MODULES_NOT_TESTED.get(name):
        result.detail = reason
        return result
    info = _database()[name]
    for dtype_name in ("float32", "float64", "bfloat16", "float16"):
        dtype = getattr(torch, dtype_name)
        if dtype_name not in options["dtypes"] or (dtype not in info.dtypes and dtype.itemsize > 2):
            continue
        for training in (True, False):
            if training and name in tables.RANDOM_MODULES:
                continue
            torch.manual_seed(zlib.crc32(f"{name} {dtype_name} {training}".encode()))
            inputs = list(
                info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
            )
            calls = [Sample(i, i.forward_input.args, i.forward_input.kwargs) for i in inputs if i.forward_input]
            for number, call in enumerate(pick(calls, options["samples"])):
                state = "training" if training else "evaluation"
                step(f"{dtype_name}, {state}, sample {number}")
                problem = _sample(info, call.input, dtype, training)
                if problem is None:
                    result.count(dtype_name).skipped += 1
                    continue
                result.add_counters(dtype_name, hardpoint.counters())
                if problem:
                    result.count(dtype_name).failed += 1
                    result.failure = result.failure or f"{dtype_name}, {state}, sample {number}: {problem}"
                else:
                    result.count(dtype_name).passed += 1
    return result.settle()
