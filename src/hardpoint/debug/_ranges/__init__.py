"""NaN, Inf and value ranges of tensors."""

from __future__ import annotations

import math

#: Severity of an element. Ordered, so that the worst element of a tensor is its maximum.
FINITE, INF, NAN = 0, 1, 2
#: Names of the severities.
NAMES = ("finite", "Inf", "NaN")


def severity_of(number: float) -> int:
    """The severity of one number."""
    return NAN if math.isnan(number) else INF if math.isinf(number) else FINITE
