"""Summary: operators by tier, and the cost of the CPU tier."""

from __future__ import annotations

from typing import NamedTuple

from hardpoint._runtime import core

HEADER = ("operator", "tier", "calls", "bytes copied", "time lost")


class Row(NamedTuple):
    """The calls of one operator in one tier."""

    operator: str
    tier: str
    calls: int
    bytes_copied: int  # for the CPU tier
    seconds_lost: float  # for the CPU tier


def rows() -> list[Row]:
    """All operators called since the counters were reset; the most expensive first."""
    costs = core.cpu_costs()
    found = []
    for name, tiers in core.counters().items():
        for tier, calls in tiers.items():
            copied, nanoseconds = costs.get(name, (0, 0)) if tier == "cpu" else (0, 0)
            found.append(Row(name, tier, calls, copied, nanoseconds / 1e9))
    return sorted(found, key=lambda row: (-row.seconds_lost, -row.calls, row.operator))


def summary(limit: int | None = None) -> str:
    """A table of all operators called since the counters were reset, cut after ``limit`` rows."""
    found = rows()
    shown = found[:limit]
    cells = [HEADER]
    for row in shown:
        cost = (f"{row.bytes_copied:,}", f"{row.seconds_lost * 1e3:,.3f} ms") if row.tier == "cpu" else ("", "")
        cells.append((row.operator, row.tier, f"{row.calls:,}", *cost))
    widths = [max(len(cell[column]) for cell in cells) for column in range(len(HEADER))]
    lines = []
    for cell in cells:
        left = f"{cell[0]:<{widths[0]}}  {cell[1]:<{widths[1]}}"
        lines.append("  ".join([left, *(f"{cell[c]:>{widths[c]}}" for c in (2, 3, 4))]).rstrip())
    if len(shown) < len(found):
        lines.append(f"... and {len(found) - len(shown)} more")
    on_cpu = [row for row in found if row.tier == "cpu"]
    lines.append(
        f"{sum(row.calls for row in found):,} calls, {sum(row.calls for row in on_cpu):,} of them on the CPU: "
        f"{sum(row.bytes_copied for row in on_cpu):,} bytes copied, "
        f"{sum(row.seconds_lost for row in on_cpu) * 1e3:,.3f} ms lost"
    )
    return "\n".join(lines)
