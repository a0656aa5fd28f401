"""PyTorch's own sample inputs, run on the device and on the CPU: what the tests of operator families share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map_only

import hardpoint
from hardpoint import ops

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
LOW = (torch.bfloat16, torch.float16)


def entries(*names: str) -> list[Any]:
    """The entries of PyTorch's table with these names; each must be there."""
    found = [entry for entry in op_db if entry.name in names and "cudnn" not in entry.variant_test_name]
    missing = set(names) - {entry.name for entry in found}
    assert not missing, f"no such entries: {missing}"
    return found


def move(value: Any, target: Any) -> Any:
    """Arguments with every tensor sent to a device, or to a dtype where it is a floating-point one."""

    def one(tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(target, torch.dtype) and not tensor.is_floating_point():
            return tensor
        return tensor.detach().to(target).requires_grad_(tensor.requires_grad)

    return tree_map_only(torch.Tensor, one, value)


def on_the_cpu(families: Iterable[str]) -> list[str]:
    """Overloads of these families' tables that the CPU tier has served."""
    mine = {f"aten::{overload}" for family in families for op in ops.family_ops(family) for overload in op.aten}
    bases = {name.split(".")[0] for name in mine}
    return [n for n, tiers in hardpoint.counters().items() if "cpu" in tiers and n.split(".")[0] in bases]


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def compare(
    entry: Any, families: Iterable[str], limit: int = 12, skip: str = "", low: float = 2e-2, **tolerances: float
) -> None:
    """Results and gradients of an entry's samples, in every floating-point dtype, against the CPU's.

    Samples with a value for the argument ``skip`` are left out.
    """
    ran = 0
    for dtype in FLOATS:
        if dtype not in entry.supported_dtypes("cpu"):
            continue
        # Low precision is computed in float32 and rounded once, which is what a device is expected to do; the CPU's own
        # float32 is not always accurate enough to judge by.
        exact = torch.float32 if dtype in LOW else torch.float64
        close = {"rtol": low, "atol": low} if dtype in LOW else tolerances if dtype is torch.float32 else {}
        for sample in list(entry.sample_inputs("cpu", dtype, requires_grad=entry.supports_autograd))[:limit]:
            if sample.kwargs.get(skip):
                continue
            given = (sample.input, sample.args, sample.kwargs)
            reference, device = move(given, exact), move(given, "sim")
            try:
                expected = tensors(entry(reference[0], *reference[1], **reference[2]))
            except (RuntimeError, TypeError, ValueError):
                continue  # samples of mistakes
            hardpoint.reset_counters()
            actual = tensors(entry(device[0], *device[1], **device[2]))
            for ours, right in zip(actual, expected, strict=True):
                torch.testing.assert_close(ours.detach().cpu(), right.detach().to(ours.dtype), equal_nan=True, **close)
            pairs = [(a, e) for a, e in zip(actual, expected, strict=True) if e.requires_grad and a.requires_grad]
            wanted = [t for t in tensors(reference) if t.requires_grad]
            if pairs and wanted:
                seeds = [torch.randn_like(e) for _, e in pairs]
                right = torch.autograd.grad([e for _, e in pairs], wanted, seeds, allow_unused=True)
                leaves = [t for t in tensors(device) if t.requires_grad]
                seeds = [s.to("sim", a.dtype) for s, (a, _) in zip(seeds, pairs, strict=True)]
                ours = torch.autograd.grad([a for a, _ in pairs], leaves, seeds, allow_unused=True)
                for a, b in zip(ours, right, strict=True):
                    assert (a is None) == (b is None)
                    if a is not None:
                        loose = {k: 4 * v for k, v in close.items()} if dtype in LOW else close
                        torch.testing.assert_close(a.cpu(), b.to(a.dtype), equal_nan=True, **loose)
            assert not on_the_cpu(families), f"{dtype}: served by the CPU"
            ran += 1
    assert ran > 0
