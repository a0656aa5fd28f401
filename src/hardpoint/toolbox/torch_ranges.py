"""What lies in a tensor of torch: finite elements or not, and their range."""

from __future__ import annotations

import math
from typing import Any

import torch

from hardpoint.check.compare import values_of
from hardpoint.toolbox import snapshots
from hardpoint.toolbox.ranges import FINITE, measured, of_number

#: Dtypes whose own arithmetic is too narrow, or not there.
_WIDER = {torch.complex32: torch.complex64}


def _largest(tensor: torch.Tensor) -> torch.Tensor:
    """The largest magnitude, or NaN; still on the device."""
    if tensor.itemsize == 1:  # float8
        tensor = tensor.to(torch.float32)
    return torch.linalg.vector_norm(tensor.to(_WIDER.get(tensor.dtype, tensor.dtype)), math.inf)


def worst(values: Any) -> int:
    """The worst among tensors and numbers: a reduction for each tensor, one small copy for all on one device."""
    found = max((of_number(abs(v)) for v in _numbers(values)), default=FINITE)
    scalars: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
    for tensor in snapshots.tensors(values):
        if may_be_bad(tensor):
            scalar = _largest(tensor)
            scalars.setdefault((scalar.device, scalar.dtype), []).append(scalar)
    for group in scalars.values():
        host = (group[0].reshape(1) if len(group) == 1 else torch.stack(group)).cpu()
        found = max(found, *map(of_number, host.tolist()))
    return found


def may_be_bad(tensor: torch.Tensor) -> bool:
    """Whether it can hold NaN or Inf, and is one that tools can read."""
    floating = tensor.is_floating_point() or tensor.is_complex()
    return floating and tensor.layout is torch.strided and tensor.numel() > 0 and tensor.device.type != "meta"


def _numbers(values: Any) -> list[float | complex]:
    if isinstance(values, (float, complex)):
        return [values]
    if isinstance(values, (list, tuple)):
        return [number for value in values for number in _numbers(value)]
    return []


def describe(tensor: torch.Tensor) -> dict[str, Any]:
    """Sizes and dtype, the range of the finite elements (of complex ones: of magnitudes), and how many are not."""
    report: dict[str, Any] = {"dtype": str(tensor.dtype).removeprefix("torch."), "sizes": list(tensor.shape)}
    if tensor.layout is not torch.strided:
        return {**report, "nan": 0, "inf": 0}
    return {**report, **measured(values_of(tensor).array)}
