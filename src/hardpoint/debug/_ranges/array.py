"""Value ranges of numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def measure(array: NDArray[Any]) -> dict[str, Any]:
    """Counts of NaN and Inf, and the range of the finite elements (of magnitudes, if complex)."""
    wide = np.abs(array.astype(np.complex128)) if array.dtype.kind == "c" else array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    report: dict[str, Any] = {"nan": int(np.isnan(wide).sum()), "inf": int(np.isinf(wide).sum())}
    if finite.size:
        report |= {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
    return report
