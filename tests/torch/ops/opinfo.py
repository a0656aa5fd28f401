"""Compare operators with the CPU on OpInfo samples; shared by the tests of operator families."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import hardpoint
from hardpoint import ops

LOW = (torch.bfloat16, torch.float16)
FULL = (torch.float32, torch.float64)
FLOATS = (*FULL, *LOW)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)

#: 16-bit floats: computed in float32 and rounded once, as expected of a device.
LOW_IN_SINGLE = dict.fromkeys(LOW, torch.float32)
#: For operators whose float32 results on the CPU are too inaccurate as a reference.
SINGLE_IN_DOUBLE = {**LOW_IN_SINGLE, torch.float32: torch.float64}
#: The same for every floating-point dtype, including 16-bit gradients.
IN_DOUBLE: dict[str, Any] = {"dtypes": FLOATS, "reference": SINGLE_IN_DOUBLE, "gradients": FLOATS}

#: Families of index operators, which serve each other's operators.
INDEX = ("indexing", "scatter", "selection", "embedding_bag")


def label(entry: Any) -> str:
    """Name of an entry with its variant."""
    return f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else str(entry.name)


def entries(*names: str) -> list[Any]:
    """Test parameters: OpInfo entries by name with all their variants, or by name and variant."""
    found = [e for e in op_db if (e.name in names or label(e) in names) and "cudnn" not in e.variant_test_name]
    missing = set(names) - {e.name for e in found} - {label(e) for e in found}
    assert not missing, f"this torch has no sample inputs for {missing}"
    return [pytest.param(e, id=label(e)) for e in found]


def _base(overload: str) -> str:
    return overload.split(".")[0].rstrip("_")


def on_cpu(*families: str) -> list[str]:
    """Overloads of these families that ran on the CPU since the counters were reset."""
    mine = {f"aten::{_base(overload)}" for family in families for op in ops.family_ops(family) for overload in op.aten}
    return [name for name, tiers in hardpoint.counters().items() if "cpu" in tiers and _base(name) in mine]


def move(value: Any, target: Any) -> Any:
    """Move every tensor to a device, or every floating-point and complex tensor to a dtype."""
    if isinstance(value, torch.Tensor):
        if isinstance(target, torch.dtype):
            if not value.is_floating_point() and not value.is_complex():
                return value
            target = target.to_complex() if value.is_complex() else target.to_real()
        return value.detach().to(target).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(move(v, target) for v in value)
    if isinstance(value, dict):
        return {k: move(v, target) for k, v in value.items()}
    if isinstance(target, torch.dtype):
        return target if value in LOW else value
    return target if isinstance(value, (torch.device, str)) and str(value) == "cpu" else value


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors and numbers in a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors(v)]
    return [torch.tensor(value)] if isinstance(value, (bool, int, float, complex)) else []


def close(
    actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, low: float = 2e-2, **options: float
) -> None:
    """Equal within torch's tolerance or the given one; within ``low`` where either side was rounded to 16 bits."""
    if dtype in LOW:
        options = {"rtol": low, "atol": low}
    torch.testing.assert_close(actual.detach().cpu(), expected.detach().to(actual.dtype), equal_nan=True, **options)


@dataclass
class Run:
    """A sample with its results on the device and on the CPU."""

    dtype: torch.dtype
    sample: Any
    given: tuple[Any, list[Any], dict[str, Any]]
    ours: tuple[Any, list[Any], dict[str, Any]]
    expected: list[torch.Tensor]
    actual: list[torch.Tensor]

    def results(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Pairs of device and CPU results."""
        return zip(self.actual, self.expected, strict=True)

    def gradients(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Pairs of device and CPU gradients, of all arguments that have one."""
        leaves, twins = ([t for t in tensors(list(_values(g))) if t.requires_grad] for g in (self.given, self.ours))
        pairs = [(a, b) for a, b in self.results() if b.requires_grad]
        if not leaves or not pairs:
            return
        seeds = [torch.randn_like(b) for _, b in pairs]
        right = torch.autograd.grad([b for _, b in pairs], leaves, seeds, allow_unused=True)
        seeds = [s.to("sim", a.dtype) for s, (a, _) in zip(seeds, pairs, strict=True)]
        got = torch.autograd.grad([a for a, _ in pairs], twins, seeds, allow_unused=True)
        for a, b in zip(got, right, strict=True):
            assert (a is None) == (b is None)
            if b is not None:
                yield a, b


def _values(parts: tuple[Any, list[Any], dict[str, Any]]) -> tuple[Any, ...]:
    return parts[0], parts[1], list(parts[2].values())


def runs(
    entry: Any,
    dtypes: tuple[torch.dtype, ...] = DTYPES,
    limit: int = 12,
    reference: Mapping[torch.dtype, torch.dtype] = LOW_IN_SINGLE,
    gradients: tuple[torch.dtype, ...] = FULL,
    skip: str = "",
) -> Iterator[Run]:
    """Run the entry's samples; the counters are reset before each one.

    ``reference`` maps a dtype to the one that the CPU computes in. ``gradients`` lists the dtypes whose arguments
    require gradients. Samples with the argument ``skip`` are skipped.
    """
    ran = 0
    for dtype in dtypes:
        if dtype not in entry.supported_dtypes("cpu"):
            continue
        grad = dtype in gradients and entry.supports_autograd
        for sample in islice(entry.sample_inputs("cpu", dtype, requires_grad=grad), limit):
            if sample.kwargs.get(skip):
                continue
            parts = (sample.input, sample.args, sample.kwargs)
            given, ours = move(parts, reference.get(dtype, "cpu")), move(parts, "sim")
            try:
                expected = tensors(entry(given[0], *given[1], **given[2]))
            except (RuntimeError, TypeError, ValueError, IndexError):
                continue  # error samples
            hardpoint.reset_counters()
            yield Run(dtype, sample, given, ours, expected, tensors(entry(ours[0], *ours[1], **ours[2])))
            ran += 1
    assert ran > 0, f"no sample of {label(entry)} ran"


def compare(
    entry: Any,
    *families: str,
    index_result: int | None = None,
    cpu: tuple[torch.dtype, ...] = (),
    low: float = 2e-2,
    single: float = 0,
    **how: Any,
) -> None:
    """Compare results and gradients of the samples from ``runs``; no operator of the families may run on the CPU.

    ``index_result``: number of the result with indices of elements. Among equal elements any index is valid, so it is
    only compared for random floats of full precision, which have no equals. ``cpu`` lists dtypes that partly run on the
    CPU; ``low`` and ``single`` are the tolerances for 16-bit floats and float32.
    """
    ran, fell = set(), set()
    for run in runs(entry, **how):
        options = {"rtol": single, "atol": single} if single and run.dtype is torch.float32 else {}
        for number, (actual, expected) in enumerate(run.results()):
            if number == index_result and run.dtype not in FULL:
                assert actual.dtype == expected.dtype == torch.int64
                assert actual.shape == expected.shape
            else:
                close(actual, expected, run.dtype, low, **options)
        if run.dtype in how.get("gradients", FULL):
            for actual, expected in run.gradients():
                # Computed from rounded results.
                close(actual, expected, run.dtype, 4 * low, **options)
        assert run.dtype in cpu or not on_cpu(*families), f"{run.dtype}: {on_cpu(*families)} served by the CPU"
        ran.add(run.dtype)
        if on_cpu(*families):
            fell.add(run.dtype)
    stale = ran.intersection(cpu) - fell
    assert not stale, f"the CPU serves nothing of {label(entry)} in {stale} any more"
