"""What lies in a tensor: finite elements or not, and their range. In numpy, for the tensors of either framework."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: How bad an element is: the worst of a tensor is found by one reduction, because NaN beats Inf beats the rest.
FINITE, INF, NAN = 0, 1, 2
WORDS = ("finite", "Inf", "NaN")


def of_number(value: float) -> int:
    """How bad a number is."""
    return NAN if math.isnan(value) else INF if math.isinf(value) else FINITE


def measured(array: NDArray[Any]) -> dict[str, Any]:
    """The range of the finite elements (of complex ones: of magnitudes), and how many are not."""
    wide = np.abs(array.astype(np.complex128)) if array.dtype.kind == "c" else array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    report: dict[str, Any] = {"nan": int(np.isnan(wide).sum()), "inf": int(np.isinf(wide).sum())}
    if finite.size:
        report |= {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
    return report


def words(report: dict[str, Any]) -> str:
    """What is said of a tensor, in one line."""
    if "min" in report:
        span = f"min {report['min']:.4g}, max {report['max']:.4g}, mean {report['mean']:.4g}"
    else:
        span = "no finite element"
    return f"{report['dtype']} {report['sizes']}, {span}, {report['nan']} NaN, {report['inf']} Inf"
