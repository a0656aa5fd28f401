"""Where the work was done: operators, tiers, and what the CPU tier cost."""

from __future__ import annotations

from hardpoint._runtime import core

HEADER = ("operator", "tier", "calls", "bytes copied", "time lost")


def rows() -> list[tuple[str, str, int, int, float]]:
    """Operator, tier, calls, bytes copied and seconds lost by the CPU tier; the most expensive first."""
    costs = core.cpu_costs()
    found = []
    for name, tiers in core.counters().items():
        for tier, calls in tiers.items():
            copied, spent = costs.get(name, (0, 0)) if tier == "cpu" else (0, 0)
            found.append((name, tier, calls, copied, spent / 1e9))
    return sorted(found, key=lambda row: (-row[4], -row[2], row[0]))


def summary(limit: int | None = None) -> str:
    """A table of every operator that was called since the counters were reset: the first ``limit`` rows of it."""
    found = rows()
    shown = found[:limit]
    cells = [HEADER]
    for name, tier, calls, copied, spent in shown:
        cost = (f"{copied:,}", f"{spent * 1e3:,.3f} ms") if tier == "cpu" else ("", "")
        cells.append((name, tier, f"{calls:,}", *cost))
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADER))]
    lines = []
    for row in cells:
        left = f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}"
        lines.append("  ".join([left, *(f"{row[c]:>{widths[c]}}" for c in (2, 3, 4))]).rstrip())
    if len(shown) < len(found):
        lines.append(f"... and {len(found) - len(shown)} more")
    on_cpu = [row for row in found if row[1] == "cpu"]
    lines.append(
        f"{sum(row[2] for row in found):,} calls, {sum(row[2] for row in on_cpu):,} of them on the CPU: "
        f"{sum(row[3] for row in on_cpu):,} bytes copied, {sum(row[4] for row in on_cpu) * 1e3:,.3f} ms lost"
    )
    return "\n".join(lines)
