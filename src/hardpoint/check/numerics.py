"""Numerical comparison of arrays in NumPy, shared by both frameworks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Allowed ratio of the device's error to the CPU's, both against a wider dtype.
ERROR_FACTOR = 4.0
#: Extra error in 16-bit dtypes, in ulps of the largest element: composite operators round intermediate results. (The
#: CPU fuses some of them in float32, so its own error does not show this.)
LOW_PRECISION_UNITS = 2.0
#: Error of each element in 16-bit dtypes, in ulps of that element: an elementwise operator rounds only a few times.
ELEMENTWISE_UNITS = 4.0
#: Tolerance in ulps of a 16-bit composite operator, and the share of elements that may exceed it (cancellation).
OUTLIERS, OUTLIER_UNITS = 0.25, 16.0
#: Min elements for a meaningful two-sample Kolmogorov-Smirnov test.
MIN_DRAWN = 200
#: Critical value of the test: equal distributions fail once in 10,000 tests.
KS_CRITICAL = 2.23

#: Relative and absolute, as in torch.testing.
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
#: Tolerance of 16-bit results that are computed exactly and rounded once: half an ulp, and a little more.
ROUNDED_ONCE = {"float16": (0.53 * 2.0**-10, 2.0**-25), "bfloat16": (0.53 * 2.0**-7, 1e-40)}
#: Results of elementwise operators below the first number must have the second relative accuracy: the absolute
#: tolerances would accept zero.
SMALL, SMALL_ACCURACY = 1e-3, {"float32": 1e-2, "float16": 1e-2, "bfloat16": 3e-2}
#: For elementwise operators in float64, where torch's tolerance would accept a float32 computation.
EXACT_DOUBLE = (1e-10, 1e-10)
#: Distance from 1 to the next larger number.
EPSILONS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}

#: Smallest positive numbers with full precision.
SMALLEST_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126}
#: Numbers below have fewer digits.
SMALLEST_SUBNORMAL = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149}
#: With fewer elements, the share of outliers means nothing.
MIN_FOR_SHARE = 20

Tolerance = tuple[float, float]


class Values(NamedTuple):
    """Elements and their original dtype; dtypes that NumPy lacks are stored in a wider one."""

    array: NDArray[Any]
    dtype: str

    @property
    def inexact(self) -> bool:
        """Whether to compare with a tolerance."""
        return self.array.dtype.kind in "fc"


def close(actual: Values, expected: Values, tolerance: Tolerance | None = None) -> bool:
    """Whether arrays are equal, or within the tolerance of the dtype."""
    a, e = actual.array, expected.array
    if np.array_equal(a, e):
        return True
    if not expected.inexact:
        return False
    rtol, atol = tolerance or TOLERANCES.get(expected.dtype, (0.0, 0.0))
    with np.errstate(invalid="ignore", over="ignore"):
        return bool(np.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True).all())


def rounded(exact: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Round to a dtype; overflow becomes infinity."""
    with np.errstate(over="ignore"):
        if dtype == "bfloat16":
            single = exact.astype(np.float32)
            bits = single.view(np.uint32)
            even = ((bits >> 16) & 1) + np.uint32(0x7FFF)
            rounded_bits = ((bits + even) & np.uint32(0xFFFF0000)).view(np.float32)
            return np.where(np.isnan(single), single, rounded_bits).reshape(exact.shape)
        if dtype == "float16":
            return exact.astype(np.float16).astype(np.float32)
        return exact.astype("complex64" if dtype == "complex32" else dtype)


def loses_small(actual: Values, native: Values, exact: NDArray[Any] | None = None, subnormal: bool = False) -> bool:
    """Whether small results of an elementwise operator are wrong, which absolute tolerances do not show.

    With ``exact``, in a wider dtype, the device may have four times the CPU's error. ``subnormal``: subnormal numbers
    count, too.
    """
    if actual.dtype not in SMALL_ACCURACY or (exact is not None and exact.shape != actual.array.shape):
        return False
    accuracy = SMALL_ACCURACY[actual.dtype]
    floor = 2 * SMALLEST_SUBNORMAL[actual.dtype] if subnormal else SMALLEST_NORMAL[actual.dtype]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        ours, theirs = (values.array.astype(np.float64) for values in (actual, native))
        wrong = (np.abs(theirs) < SMALL) & (np.abs(ours - theirs) > accuracy * np.abs(theirs) + floor)
        if exact is not None and wrong.any():
            wide = exact.astype(np.float64)
            wrong &= np.abs(ours - wide) > accuracy * np.abs(wide) + ERROR_FACTOR * np.abs(theirs - wide) + floor
    return bool(wrong.any())


def loses_sign(actual: Values, native: Values, exact: NDArray[Any] | None = None) -> NDArray[np.bool_]:
    """Where both results are zero, and the device's has the wrong sign: not the CPU's, nor that of ``exact``."""
    if actual.array.dtype.kind != "f" or actual.array.shape != native.array.shape:
        return np.zeros(actual.array.shape, bool)
    ours, theirs = np.signbit(actual.array), np.signbit(native.array)
    wrong = (actual.array == 0) & (native.array == 0) & (ours != theirs)
    if exact is not None and exact.shape == wrong.shape:
        wrong &= np.signbit(exact) == theirs
    return np.asarray(wrong)


def as_accurate(
    actual: Values,
    native: Values,
    exact: NDArray[Any],
    elementwise: bool = False,
    units: float = 0.0,
    tolerance: Tolerance | None = None,
) -> bool:
    """Whether the device is as close to a wider reference as the CPU, up to a small factor.

    In 16-bit dtypes the tolerance is relative to the largest element, since composite operators round intermediate
    results. With ``elementwise`` it is relative to each element. ``units`` is an extra error in ulps of the largest
    element, for long sums in another order. ``tolerance`` is for results that are rounded once: nothing else passes.
    """
    if not native.inexact or exact.shape != actual.array.shape:
        return False
    right = rounded(exact, actual.dtype)
    if close(actual, Values(right, actual.dtype), tolerance):
        return True
    if tolerance is not None:
        return False
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.isfinite(right) & np.isfinite(native.array)
        special = np.isclose(actual.array, right, rtol=1e-5, atol=1e-8, equal_nan=True)
        special |= np.isclose(actual.array, native.array, rtol=1e-5, atol=1e-8, equal_nan=True)
        if not special[~finite].all():
            return False
        if not np.isfinite(actual.array[finite]).all():
            return False
        ours = np.abs(actual.array.astype(exact.dtype) - exact)[finite]
        theirs = np.abs(native.array.astype(exact.dtype) - exact)[finite]
        size = np.abs(right.astype(exact.dtype))[finite]
    if not ours.size:
        return True
    rtol, atol = TOLERANCES.get(actual.dtype, (0.0, 0.0))
    if actual.dtype not in EPSILONS:
        allowed = ERROR_FACTOR * float(theirs.max()) + units * float(np.finfo(actual.dtype).eps) * float(size.max())
        return bool((ours <= atol + rtol * size + allowed).all())
    ulp = EPSILONS[actual.dtype] * np.maximum(size, SMALLEST_NORMAL[actual.dtype])
    if elementwise:
        return bool((ours <= ELEMENTWISE_UNITS * ulp + ERROR_FACTOR * theirs).all())
    # A systematic error shows in most elements, cancellation in a few.
    outliers = ours > OUTLIER_UNITS * ulp + ERROR_FACTOR * theirs
    if outliers.size >= MIN_FOR_SHARE and float(outliers.mean()) > OUTLIERS:
        return False
    allowed = ERROR_FACTOR * float(theirs.max()) + LOW_PRECISION_UNITS * EPSILONS[actual.dtype] * float(size.max())
    return bool((ours <= atol + rtol * size + allowed).all())


def measure(actual: Values, expected: Values, tolerance: Tolerance | None = None) -> dict[str, Any]:
    """Count mismatches, locate the largest errors, and count NaN and infinity mismatches."""
    ours, right = np.atleast_1d(actual.array), np.atleast_1d(expected.array)
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    a, e = ours.astype(wide), right.astype(wide)
    rtol, atol = tolerance or TOLERANCES.get(actual.dtype, (0.0, 0.0))
    with np.errstate(all="ignore"):
        wrong = ~np.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True)
        finite = np.isfinite(a) & np.isfinite(e)
        absolute = np.where(finite, np.abs(a - e), 0.0)
        relative = np.where(finite & (e != 0), absolute / np.abs(e), 0.0)
    worst = np.where(wrong & finite, absolute, -1.0) if (wrong & finite).any() else wrong
    where = tuple(int(i) for i in np.unravel_index(int(worst.argmax()), ours.shape))
    return {
        "problem": "values differ",
        "wrong": int(wrong.sum()),
        "of": int(ours.size),
        "max_abs": float(absolute.max()),
        "max_rel": float(relative.max()),
        "at": list(where),
        "got": str(ours[where].item()),
        "expected": str(right[where].item()),
        "nan": int((np.isnan(a) != np.isnan(e)).sum()),
        "inf": int((np.isinf(a) != np.isinf(e)).sum()),
    }


def distribution(drawn: NDArray[Any], expected: NDArray[Any]) -> str:
    """Compare random values by a two-sample Kolmogorov-Smirnov test; empty if they agree or are too few."""
    ours, right = (_numbers(values) for values in (drawn, expected))
    if min(ours.size, right.size) < MIN_DRAWN:
        return ""
    if not np.isfinite(ours).all() and np.isfinite(right).all():
        return "random values are not finite"
    points = np.unique(np.concatenate([ours, right]))
    share = [np.searchsorted(np.sort(s), points, side="right") / s.size for s in (ours, right)]
    distance = float(np.abs(share[0] - share[1]).max())
    limit = KS_CRITICAL * ((ours.size + right.size) / (ours.size * right.size)) ** 0.5
    if distance <= limit:
        return ""
    return (
        f"random values are distributed differently: Kolmogorov-Smirnov distance {distance:.3f}, limit {limit:.3f} "
        f"(mean {float(ours.mean()):.4g}, expected {float(right.mean()):.4g})"
    )


def _numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    flat = values.ravel()
    return (np.concatenate([flat.real, flat.imag]) if flat.dtype.kind == "c" else flat).astype(np.float64)
