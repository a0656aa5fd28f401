"""Tolerances that a program gives for operators, in place of those of the tables and of torch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from hardpoint.toolbox import rules

Tolerance = tuple[float, float]


def parse(text: str) -> dict[str, Tolerance]:
    """``mm:1e-3:1e-4, .*@bfloat16:1e-2:1e-2``: a pattern, a dtype if it is for that only, rtol and atol."""
    found: dict[str, Tolerance] = {}
    for item in rules.split(text):
        pattern, rtol, atol = (["", "", *item.rsplit(":", 2)])[-3:]
        try:
            found[pattern.strip()] = float(rtol), float(atol)
        except ValueError:
            raise ValueError(f"a tolerance is OPERATOR:RTOL:ATOL, such as mm:1e-3:1e-4, not '{item}'") from None
    return check(found)


def check(given: Mapping[str, Tolerance]) -> dict[str, Tolerance]:
    """The same. Raises ``ValueError`` for what is no pattern or no tolerance."""
    for key, tolerance in given.items():
        pattern = key.partition("@")[0]
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"tolerance for '{key}': '{pattern}' is no regular expression: {error}") from None
        if not pattern or len(tolerance) != 2 or not all(math.isfinite(t) and t >= 0 for t in tolerance):
            raise ValueError(f"tolerance for '{key}': expected an operator and two numbers from 0 on, got {tolerance}")
    return dict(given)


def find(given: Mapping[str, Tolerance], name: str, dtype: str) -> Tolerance | None:
    """What was given for an operator and a dtype; as with rules, the last that matches counts."""
    found = None
    for key, tolerance in given.items():
        pattern, _, only = key.partition("@")
        if only in ("", dtype) and rules.matches(pattern, name):
            found = tolerance
    return found
