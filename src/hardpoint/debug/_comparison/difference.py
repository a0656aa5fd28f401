"""The difference between a device's tensor and the CPU's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from hardpoint.check import numerics
from hardpoint.check.numerics import Tolerance, Values
from hardpoint.debug._calls.base import Report

#: Computes the result in a wider dtype; None if that is not possible.
WideResult = Callable[[], "NDArray[Any] | None"]


def difference(
    actual: Values,
    expected: Values,
    tolerance: Tolerance | None = None,
    wide_result: WideResult | None = None,
) -> Report:
    """How a device's tensor differs from the CPU's; empty if they agree.

    They agree if they are close by the tolerance, or if the device is as close to ``wide_result()`` as the CPU is.
    """
    if actual.array.shape != expected.array.shape:
        return {"problem": f"sizes are {list(actual.array.shape)}, expected {list(expected.array.shape)}"}
    if actual.dtype != expected.dtype:
        if not (actual.array.dtype.kind == "f" and expected.array.dtype.kind == "f"):
            return {"problem": f"dtype is {actual.dtype}, expected {expected.dtype}"}
        # The CPU saves statistics in the input's dtype, and computes some results in a wider one.
        expected = Values(numerics.rounded(expected.array, actual.dtype), actual.dtype)
    if numerics.close(actual, expected, tolerance):
        return {}
    wide = wide_result() if wide_result is not None else None
    if wide is not None and numerics.as_accurate(actual, expected, wide):
        return {}
    return numerics.measure(actual, expected, tolerance)


def input_difference(actual: Values, before: Values) -> Report:
    """How an input differs from its copy from before the call, bit by bit; empty if the call did not write it."""
    resized = actual.array.shape != before.array.shape
    if not resized and actual.array.tobytes() == before.array.tobytes():
        return {}
    return {**({} if resized else numerics.measure(actual, before, (0.0, 0.0))), "problem": "an input was written"}


def verdict(report: Report, tensors: list[Report]) -> Report:
    """The report with its tensors and the overall verdict."""
    wrong = any(tensor["wrong"] for tensor in tensors)
    return {**report, "tensors": tensors, "verdict": "wrong" if wrong else "right"}


def not_compared(report: Report, reason: str) -> Report:
    """The report of a call that could not be compared."""
    return {**report, "verdict": "not compared", "reason": reason}
