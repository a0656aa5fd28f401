"""NaN, Inf and value ranges of Paddle tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpoint.debug._calls.paddle_tensor import HostTensor
from hardpoint.debug._ranges import FINITE, severity_of
from hardpoint.debug._ranges.array import measure


def _elements(value: Any) -> NDArray[Any] | None:
    """The elements of a host or native tensor; None for other values and for tensors without memory."""
    if isinstance(value, HostTensor):
        return value.values().array
    return HostTensor.copy(value).values().array if getattr(value, "has_memory", False) else None


def severity(values: list[Any]) -> int:
    """The worst severity among tensors and numbers, computed on the host."""
    worst = FINITE
    for value in values:
        if isinstance(value, (float, complex)):
            worst = max(worst, severity_of(abs(value)))
        elif (array := _elements(value)) is not None and array.dtype.kind in "fc" and array.size:
            worst = max(worst, severity_of(float(np.abs(array).max())))
    return worst


def ranges(values: dict[str, Any]) -> dict[str, Any]:
    """The range of each tensor; numbers unchanged."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if (array := _elements(value)) is not None:
            found[name] = {"dtype": value.dtype, "sizes": value.sizes, **measure(array)}
        elif isinstance(value, float):
            found[name] = value
    return found
