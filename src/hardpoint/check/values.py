"""Values that samples lack: all magnitudes, integers of full width, and the points where a function changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch

from hardpoint.check import variations
from hardpoint.check.samples import Sample

#: Where rounding, comparisons and piecewise functions change.
THRESHOLDS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 20.0)
#: Bits of integers that neither float32 nor 32 bits hold exactly. Products of a wide and a narrow one still fit.
WIDE_BITS = {torch.int64: (40, 20), torch.int32: (28, 2), torch.uint8: (8, 8)}


def magnitudes(sample: Sample, dtype: torch.dtype) -> Sample:
    """From the smallest to the largest number, of both signs, and finer steps around zero.

    Some are subnormal. Results that are subnormal themselves count in the thorough mode only.
    """
    info = torch.finfo(dtype)
    first, last = math.log2(info.smallest_normal), math.log2(info.max)
    below = torch.tensor([1.0, 3.0, 0.5 / info.eps], dtype=torch.float64) * info.smallest_normal * info.eps
    powers = torch.cat([below, torch.linspace(first, min(last, 127), 997, dtype=torch.float64).exp2()])
    points = torch.cat([powers, -powers, torch.linspace(-120, 120, 1921, dtype=torch.float64)]).to(dtype)
    return replace(sample, input=points, label="values of all magnitudes")


def thresholds(sample: Sample, function: Callable[..., Any]) -> Sample:
    """Points where the function may change: small numbers, and its own arguments."""
    given = [v for v in (*sample.args, *sample.kwargs.values()) if isinstance(v, (int, float))]
    given += [
        p.default for p in variations.parameters(function) if p.kind in ("int", "float") and p.default is not None
    ]
    points = sorted({abs(float(v)) for v in (*THRESHOLDS, *given) if math.isfinite(v)})
    tensor = torch.tensor([*points, *(-p for p in points)], dtype=torch.float64).to(sample.input.dtype)
    return replace(sample, input=tensor.requires_grad_(sample.input.requires_grad), label="values at thresholds")


def wide(sample: Sample) -> Sample | None:
    """Integers of full width. Every other element of a second operand is close to that of the first."""
    tensors = sample.tensors()
    if not tensors or any(t.dtype not in WIDE_BITS for t in tensors):
        return None
    seen: list[torch.Tensor] = []

    def change(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        bits = WIDE_BITS[value.dtype][bool(seen)]
        low = 0 if value.dtype is torch.uint8 else -(2**bits)
        made = torch.randint(low, 2**bits, (1031,))
        made = torch.where(made == 0, 1, made)  # a divisor
        if seen:
            near = seen[0].long() + torch.arange(1031) % 3 - 1
            made = torch.where((torch.arange(1031) % 2 == 0) & (near != 0), near, made)
        seen.append(made.to(value.dtype))
        return seen[-1]

    return replace(sample.transform(change), label="values of full width")


def distinct(sample: Sample) -> Sample:
    """Integers that float32 cannot tell apart."""
    size = sample.input.numel()
    made = torch.randperm(size).reshape(sample.input.shape) + 2 ** (40 if sample.input.dtype is torch.int64 else 29)
    return replace(sample, input=made.to(sample.input.dtype), label="values of full width")


def along_each(sample: Sample, where: str | int) -> Iterable[Sample]:
    """A square and a volume, along each dimension but the last."""
    tensors = [t for t in sample.tensors() if t.dim()]
    if len(tensors) != 1 or tensors[0] is not sample.input:
        return
    flat = sample.input.detach().flatten()
    for shape, dim in (((17, 17), 0), ((5, 7, 41), 0), ((5, 7, 41), 1)):
        made = flat[torch.randint(flat.numel(), shape)].requires_grad_(sample.input.requires_grad)
        at = variations.along(replace(sample, input=made), where, dim)
        yield replace(at, label=f"{'x'.join(map(str, shape))} along dimension {dim}")
