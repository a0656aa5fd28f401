"""Tolerances that a program sets for operators. They override those of the operator tables and of torch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from hardpoint.debug.fallback import matches, split

#: rtol and atol.
Tolerance = tuple[float, float]


def parse_tolerances(text: str) -> dict[str, Tolerance]:
    """Parse ``mm:1e-3:1e-4, .*@bfloat16:1e-2:1e-2``: a pattern with an optional dtype, rtol and atol."""
    found: dict[str, Tolerance] = {}
    for item in split(text):
        pattern, rtol, atol = (["", "", *item.rsplit(":", 2)])[-3:]
        try:
            found[pattern.strip()] = float(rtol), float(atol)
        except ValueError:
            raise ValueError(f"tolerance must be OPERATOR:RTOL:ATOL, such as mm:1e-3:1e-4, not '{item}'") from None
    return validate_tolerances(found)


def validate_tolerances(given: Mapping[str, Tolerance]) -> dict[str, Tolerance]:
    """A copy of the tolerances. Raises ``ValueError`` for an invalid pattern or tolerance."""
    for key, tolerance in given.items():
        pattern = key.partition("@")[0]
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"tolerance for '{key}': '{pattern}' is not a valid regular expression: {error}") from None
        if not pattern or len(tolerance) != 2 or not all(math.isfinite(t) and t >= 0 for t in tolerance):
            raise ValueError(f"tolerance for '{key}': expected an operator and two numbers >= 0, got {tolerance}")
    return dict(given)


def find_tolerance(given: Mapping[str, Tolerance], name: str, dtype: str) -> Tolerance | None:
    """The tolerance for an operator and dtype; the last match wins, as in fallback rules."""
    found = None
    for key, tolerance in given.items():
        pattern, _, only = key.partition("@")
        if only in ("", dtype) and matches(pattern, name):
            found = tolerance
    return found
