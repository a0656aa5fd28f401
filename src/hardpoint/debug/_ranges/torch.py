"""NaN, Inf and value ranges of torch tensors."""

from __future__ import annotations

import math
from typing import Any

import torch

from hardpoint.check.compare import values_of
from hardpoint.debug._calls.torch_copy import dtype_name, tensors
from hardpoint.debug._ranges import FINITE, severity_of
from hardpoint.debug._ranges.array import measure


def _max_magnitude(tensor: torch.Tensor) -> torch.Tensor:
    """The largest magnitude, or NaN, as a device scalar."""
    if tensor.itemsize == 1:  # float8 has no arithmetic
        tensor = tensor.to(torch.float32)
    elif tensor.dtype is torch.complex32:
        tensor = tensor.to(torch.complex64)
    return torch.linalg.vector_norm(tensor, math.inf)


def severity(values: list[Any]) -> int:
    """The worst severity among tensors and numbers. Takes a reduction per tensor and one small copy per device."""
    worst = max((severity_of(abs(number)) for number in _numbers(values)), default=FINITE)
    scalars: dict[tuple[torch.device, torch.dtype], list[torch.Tensor]] = {}
    for tensor in tensors(values):
        if _may_be_nonfinite(tensor):
            scalar = _max_magnitude(tensor)
            scalars.setdefault((scalar.device, scalar.dtype), []).append(scalar)
    for group in scalars.values():
        host = (group[0].reshape(1) if len(group) == 1 else torch.stack(group)).cpu()
        worst = max(worst, *map(severity_of, host.tolist()))
    return worst


def _may_be_nonfinite(tensor: torch.Tensor) -> bool:
    floating = tensor.is_floating_point() or tensor.is_complex()
    return floating and tensor.layout is torch.strided and tensor.numel() > 0 and tensor.device.type != "meta"


def _numbers(values: Any) -> list[float | complex]:
    if isinstance(values, (float, complex)):
        return [values]
    if isinstance(values, (list, tuple)):
        return [number for value in values for number in _numbers(value)]
    return []


def ranges(values: dict[str, Any]) -> dict[str, Any]:
    """The range of each tensor; numbers unchanged."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        is_list = isinstance(value, (list, tuple))
        for position, tensor in enumerate(tensors(value)):
            found[f"{name}[{position}]" if is_list else name] = _range(tensor)
        if isinstance(value, float):
            found[name] = value
    return found


def _range(tensor: torch.Tensor) -> dict[str, Any]:
    report: dict[str, Any] = {"dtype": dtype_name(tensor), "sizes": list(tensor.shape)}
    if tensor.layout is not torch.strided:
        return {**report, "nan": 0, "inf": 0}
    return {**report, **measure(values_of(tensor).array)}
