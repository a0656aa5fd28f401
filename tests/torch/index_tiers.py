"""Which operators of the index families the CPU served."""

from __future__ import annotations

import hardpoint
from hardpoint import ops

FAMILIES = ("indexing", "scatter", "selection", "embedding_bag")
BASES = {
    overload.split(".")[0].rstrip("_") for family in FAMILIES for op in ops.family_ops(family) for overload in op.aten
}


def served_by_cpu() -> list[str]:
    """Their names, since the counters were reset; in-place and out= overloads count as well."""
    return [
        name
        for name, tiers in hardpoint.counters().items()
        if "cpu" in tiers and name.removeprefix("aten::").split(".")[0].rstrip("_") in BASES
    ]
