"""Dtypes that an operator's portable kernel supports."""

from __future__ import annotations

from collections.abc import Mapping

from hardpoint.ops import Op


def portable_dtypes(op: Op) -> list[str]:
    """The kinds of dtypes (float, int, bool) for which a pointwise operator has an expression."""
    if op.kind != "pointwise":
        return []
    expressions = list(op.variants.values()) or [op.expression]
    return [
        kind
        for kind in ("float", "int", "bool")
        if any(kind in e if isinstance(e, Mapping) else kind == "float" or "M(" not in e for e in expressions)
    ]
