"""Operators against the CPU on PyTorch's own sample inputs; the tests of families of operators share it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import hardpoint
from hardpoint import ops

LOW = (torch.bfloat16, torch.float16)
SAMPLES = 12


def entries(*names: str) -> list[Any]:
    """OpInfo entries by name, with all variants of each, as parameters of a test."""
    found = []
    for entry in op_db:
        name = entry.name + ("." + entry.variant_test_name if entry.variant_test_name else "")
        if entry.name in names or name in names:
            found.append(pytest.param(entry, id=name))
    missing = set(names) - {p.values[0].name for p in found} - {p.id for p in found}
    assert not missing, f"this torch has no sample inputs for {missing}"
    return found


def overloads(family: str) -> set[str]:
    """What ATen calls the operators of a family, without the names of overloads."""
    return {name.split(".")[0] for op in ops.family_ops(family) for name in op.aten}


def on_cpu(family: str) -> list[str]:
    """Operators of the family that the CPU served since counters started."""
    bases = overloads(family)
    return [n for n, tiers in hardpoint.counters().items() if "cpu" in tiers and n[6:].split(".")[0] in bases]


def move(value: Any, target: Any) -> Any:
    """Arguments with every tensor sent to a device, or to a dtype where it is a floating-point one."""
    if isinstance(value, torch.Tensor):
        if isinstance(target, torch.dtype) and not value.is_floating_point():
            return value
        return value.detach().to(target).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(move(v, target) for v in value)
    if isinstance(value, dict):
        return {k: "sim" if k == "device" and target == "sim" else move(v, target) for k, v in value.items()}
    return value


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors in a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors(v)] if isinstance(value, (list, tuple)) else []


def close(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, single: float = 0) -> None:
    # The reference of a low precision is computed in float32; what we return is rounded to the low one.
    options = {"rtol": 2e-2, "atol": 2e-2} if dtype in LOW else {}
    if single and dtype is torch.float32:
        options = {"rtol": single, "atol": single}
    torch.testing.assert_close(actual.cpu(), expected.detach().to(actual.dtype), equal_nan=True, **options)


def check(
    entry: Any, family: str, dtypes: tuple[torch.dtype, ...], cpu: tuple[torch.dtype, ...] = (), single: float = 0
) -> None:
    """Results, and gradients where the dtype is float32 or float64; nothing of the family may go to the CPU.

    ``cpu`` lists dtypes for which that is allowed; ``single`` is a tolerance for float32 other than torch's own.
    """
    ran = 0
    for dtype in dtypes:
        if dtype not in entry.supported_dtypes("cpu"):
            continue
        grad = dtype in (torch.float32, torch.float64) and entry.supports_autograd
        for sample in list(entry.sample_inputs("cpu", dtype, requires_grad=grad))[:SAMPLES]:
            exact = torch.float32 if dtype in LOW else dtype
            given = [move(part, exact) for part in (sample.input, sample.args, sample.kwargs)]
            try:
                expected = entry(given[0], *given[1], **given[2])
            except (RuntimeError, TypeError):
                continue  # samples of mistakes
            hardpoint.reset_counters()
            ours = [move(part, "sim") for part in (sample.input, sample.args, sample.kwargs)]
            actual = entry(ours[0], *ours[1], **ours[2])
            assert len(tensors(actual)) == len(tensors(expected))
            for a, b in zip(tensors(actual), tensors(expected), strict=True):
                close(a, b, dtype, single)
            if grad:
                _gradients(given, ours, expected, actual, dtype, single)
            assert dtype in cpu or not on_cpu(family), f"{dtype}: {on_cpu(family)} served by the CPU"
            ran += 1
    assert ran > 0


def _gradients(given: Any, ours: Any, expected: Any, actual: Any, dtype: torch.dtype, single: float) -> None:
    leaves = [t for t in tensors([given[0], list(given[1])]) if t.requires_grad]
    twins = [t for t in tensors([ours[0], list(ours[1])]) if t.requires_grad]
    pairs = [(a, b) for a, b in zip(tensors(actual), tensors(expected), strict=True) if b.requires_grad]
    if not leaves or not pairs:
        return
    seeds = [torch.randn_like(b) for _, b in pairs]
    right = torch.autograd.grad([b for _, b in pairs], leaves, seeds, allow_unused=True)
    got = torch.autograd.grad([a for a, _ in pairs], twins, [s.to("sim") for s in seeds], allow_unused=True)
    for a, b in zip(got, right, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            close(a, b, dtype, single)
