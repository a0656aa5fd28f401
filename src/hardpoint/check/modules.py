"""Mode ``modules``: PyTorch's module database; forward, backward and buffers in training and evaluation."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from typing import Any

import torch

import hardpoint
from hardpoint.check import compare, expectations
from hardpoint.check.report import Result, Step
from hardpoint.check.samples import WIDER, Sample, pick, to_device, widened


def _database() -> dict[str, Any]:
    from torch.testing._internal.common_modules import module_db

    return {info.name: info for info in module_db}


def names(pattern: Callable[[str], bool]) -> list[str]:
    """Names of the entries that match."""
    return [name for name in _database() if pattern(name)]


def _forward_backward(
    module: torch.nn.Module, sample: Sample, seeds: list[torch.Tensor] | None, device: str
) -> tuple[Any, Any]:
    """Outputs, gradients of inputs and parameters, and buffers after one forward and one backward pass."""
    result = module(*sample.args, **sample.kwargs)
    gradients, seeds = compare.gradients(result, [*sample.tensors(), *module.parameters()], seeds, device)
    return [result, [g for g in gradients or () if g is not None], list(module.buffers())], seeds


def _check_sample(info: Any, data: Any, dtype: torch.dtype, training: bool) -> str | None:
    """Describe the mismatch of one constructed module and call: empty if none, None if the sample is skipped."""
    device = hardpoint.torch.device_name() or ""
    sample = Sample(None, tuple(data.forward_input.args), dict(data.forward_input.kwargs))
    if any(t.layout is not torch.strided for t in sample.tensors()):
        return None
    try:
        built = info.module_cls(*data.constructor_input.args, **data.constructor_input.kwargs).to(dtype).train(training)
        if info.is_lazy:
            built(*sample.args, **sample.kwargs)  # creates random parameters, which both sides share
        ours, wide = copy.deepcopy(built), copy.deepcopy(built)
        expected, seeds = _forward_backward(built, sample, None, "cpu")
    except Exception:
        return None
    placed = to_device(sample, device)
    ours = ours.to(device)
    hardpoint.reset_counters()
    try:
        if info.is_lazy:
            # Also create the parameters on the device. (Not after .to(device): torch then turns lazy parameters into
            # ordinary ones on devices it does not know.)
            with torch.device(device):
                lazy = info.module_cls(*data.constructor_input.args, **data.constructor_input.kwargs).to(dtype)
            lazy(*placed.args, **placed.kwargs)
        actual, _ = _forward_backward(ours, placed, seeds, device)
        torch.accelerator.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

    def reference() -> Any:
        with torch.enable_grad():
            return _forward_backward(wide.to(WIDER[dtype]), widened(sample), seeds, "cpu")[0]

    with torch.no_grad():
        return compare.values(actual, expected, device, reference if dtype in WIDER else None)


def run(name: str, device: str, options: dict[str, Any], step: Step) -> Result:
    """Check one module."""
    result = Result("modules", name)
    info = _database()[name]
    for dtype_name in ("float32", "float64", "bfloat16", "float16"):
        dtype = getattr(torch, dtype_name)
        if dtype_name not in options["dtypes"] or (dtype not in info.dtypes and dtype.itemsize > 2):
            continue
        for training in (True, False):
            if training and name in expectations.RANDOM_MODULES:
                continue
            torch.manual_seed(zlib.crc32(f"{name} {dtype_name} {training}".encode()))
            inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
            calls = [Sample(i, i.forward_input.args, i.forward_input.kwargs) for i in inputs if i.forward_input]
            for number, call in enumerate(pick(calls, options["samples"])):
                label = f"{dtype_name}, {'training' if training else 'evaluation'}, sample {number}"
                step(label)
                problem = _check_sample(info, call.input, dtype, training)
                if problem is None:
                    result.count(dtype_name).skipped += 1
                    continue
                result.add_counters(dtype_name, hardpoint.counters())
                result.record(dtype_name, label, problem)
    return result.set_verdict()
