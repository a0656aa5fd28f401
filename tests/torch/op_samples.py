"""PyTorch's own sample inputs, run on the device and on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

import hardpoint
from hardpoint import ops

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
LOW = (torch.bfloat16, torch.float16)
SAMPLES = 8


def overloads(family: str) -> set[str]:
    """The ATen overloads that a family serves, as counters name them; structured forms follow the functional one."""
    return {f"aten::{name}" for op in ops.family_ops(family) for name in op.aten}


def entries(*names: str) -> list[Any]:
    """The entries of these names, each variant of them."""
    found = [entry for entry in op_db if entry.name in names]
    assert {entry.name for entry in found} == set(names)
    return found


def label(entry: Any) -> str:
    return f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else str(entry.name)


def move(value: Any, target: Any) -> Any:
    """Arguments with every tensor sent to a device, or to a dtype where it is a floating-point one."""
    if isinstance(value, torch.Tensor):
        if isinstance(target, torch.dtype) and not value.is_floating_point():
            return value
        return value.detach().to(target).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(move(v, target) for v in value)
    if isinstance(value, dict):
        low = isinstance(target, torch.dtype)
        return {k: target if low and k == "dtype" and v in LOW else move(v, target) for k, v in value.items()}
    return value


def tensors(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    return list(result) if isinstance(result, (list, tuple)) else [torch.tensor(result)]


def close(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    # Low precision is computed in float32 and rounded once; an intermediate result may have been rounded before.
    options = {"rtol": 2e-2, "atol": 2e-2} if dtype in LOW else {}
    torch.testing.assert_close(actual.cpu(), expected.detach().to(actual.dtype), equal_nan=True, **options)


def check_forward(entry: Any, served: set[str]) -> None:
    """Equal to the CPU for every dtype, and none of the overloads `served` by the CPU tier."""
    ran = 0
    for dtype in DTYPES:
        if dtype not in entry.supported_dtypes("cpu"):
            continue
        for sample in list(entry.sample_inputs("cpu", dtype))[:SAMPLES]:
            exact = torch.float32 if dtype in LOW else dtype
            given = [move(part, exact) for part in (sample.input, sample.args, sample.kwargs)]
            try:
                expected = tensors(entry(given[0], *given[1], **given[2]))
            except (RuntimeError, TypeError, IndexError):
                continue  # samples of mistakes
            hardpoint.reset_counters()
            actual = tensors(entry(move(sample.input, "sim"), *move(sample.args, "sim"), **move(sample.kwargs, "sim")))
            for ours, right in zip(actual, expected, strict=True):
                # Of equal elements either may be told; random floats of full precision are not equal.
                places = len(actual) == 2 or entry.name == "argsort"
                if places and ours.dtype == torch.int64 and dtype not in (torch.float32, torch.float64):
                    assert ours.shape == right.shape
                    continue
                close(ours, right, dtype)
            on_cpu = [name for name, tiers in hardpoint.counters().items() if "cpu" in tiers and name in served]
            assert not on_cpu, f"{dtype}: {on_cpu} served by the CPU"
            ran += 1
    assert ran > 0


def check_backward(entry: Any) -> None:
    """Gradients equal to the CPU's."""
    ran = 0
    for dtype in (torch.float32, torch.float64):
        for sample in list(entry.sample_inputs("cpu", dtype, requires_grad=True))[:SAMPLES]:
            given = move(sample.input, "sim")
            expected = [t for t in tensors(entry(sample.input, *sample.args, **sample.kwargs)) if t.requires_grad]
            results = tensors(entry(given, *move(sample.args, "sim"), **move(sample.kwargs, "sim")))
            actual = [t for t in results if t.requires_grad]
            if not expected:
                continue
            seeds = [torch.randn_like(t) for t in expected]
            (right,) = torch.autograd.grad(expected, sample.input, seeds, allow_unused=True)
            (ours,) = torch.autograd.grad(actual, given, [s.to("sim") for s in seeds], allow_unused=True)
            assert (ours is None) == (right is None)
            if right is not None:
                close(ours, right, dtype)
            ran += 1
    assert ran > 0
