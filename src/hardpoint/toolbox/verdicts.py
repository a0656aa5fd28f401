"""What is wrong with a tensor, in numbers and in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from hardpoint.check import closeness
from hardpoint.check.closeness import Tolerance, Values

#: A wider result than the CPU's own, when that leaves doubt.
Wide = Callable[[], "NDArray[Any] | None"]


def judge(
    actual: Values,
    expected: Values,
    tolerance: Tolerance | None = None,
    wide: Wide | None = None,
    exact: bool = False,
) -> dict[str, Any]:
    """Empty if a device's tensor agrees with the CPU's; otherwise what is wrong, how much, how often and where.

    Right is what is close by the tolerances for the dtype, or as near to ``wide()`` as the CPU's own result is.
    """
    if actual.array.shape != expected.array.shape:
        return {"problem": f"sizes are {list(actual.array.shape)}, expected {list(expected.array.shape)}"}
    if actual.dtype != expected.dtype:
        if not (actual.array.dtype.kind == "f" and expected.array.dtype.kind == "f"):
            return {"problem": f"dtype is {actual.dtype}, expected {expected.dtype}"}
        # Statistics, which the CPU saves in the input's dtype; and what it made in a wider one.
        expected = Values(closeness.rounded(expected.array, actual.dtype), actual.dtype)
    if exact:
        same = actual.array.tobytes() == expected.array.tobytes()
        return {} if same else closeness.measure(actual, expected, (0.0, 0.0))
    if closeness.close(actual, expected, tolerance):
        return {}
    reference = wide() if wide is not None else None
    if reference is not None and closeness.as_accurate(actual, expected, reference):
        return {}
    return closeness.measure(actual, expected, tolerance)


def words(wrong: dict[str, Any]) -> str:
    """The same in one line."""
    if not wrong:
        return "allclose"
    if "wrong" not in wrong:
        return str(wrong["problem"])
    special = [f"{wrong[kind]} differ in {word}" for kind, word in (("nan", "NaN"), ("inf", "Inf")) if wrong[kind]]
    return ", ".join(
        [
            f"{wrong['wrong']} of {wrong['of']} elements wrong",
            f"largest error {wrong['max_abs']:.3g} absolute and {wrong['max_rel']:.3g} relative",
            f"worst at {wrong['at']}: {wrong['got']}, expected {wrong['expected']}",
            *special,
        ]
    )
