"""The text of ``torch.<device>.memory_summary()``: the allocator's statistics as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_COLUMNS = {"current": "Cur Usage", "peak": "Peak Usage", "allocated": "Tot Alloc", "freed": "Tot Freed"}
_POOLS = {"large_pool": "      from large pool", "small_pool": "      from small pool"}
_WIDTH = 75


def _scaled(units: tuple[str, ...], step: int, limit: int, width: int) -> Callable[[int, int], str]:
    def format_number(value: int, like: int) -> str:
        """The value in a unit that suits another value, so that all rows of a group have the same unit."""
        unit = 0
        while like >= limit and unit < len(units) - 1:
            value, like, unit = value // step, like // step, unit + 1
        return f"{value:{width}d} {units[unit]}"

    return format_number


_bytes = _scaled(("B  ", "KiB", "MiB", "GiB", "TiB", "PiB"), 1024, 768 * 1024, 6)
_count = _scaled(("  ", "K ", "M "), 1000, 750 * 1000, 7)

_METRICS = (
    ("allocated_bytes", "Allocated memory", _bytes),
    ("active_bytes", "Active memory", _bytes),
    ("requested_bytes", "Requested memory", _bytes),
    ("reserved_bytes", "Reserved memory", _bytes),
    ("inactive_split_bytes", "Non-releasable memory", _bytes),
    ("allocation", "Allocations", _count),
    ("active", "Active allocs", _count),
    ("segment", "Reserved segments", _count),
    ("inactive_split", "Non-releasable allocs", _count),
)


def text(device: str, index: int, stats: Mapping[str, Any], abbreviated: bool = False) -> str:
    """Format the statistics of ``memory_stats()``; abbreviated: without the rows of each pool."""
    title = f"PyTorch {device} memory summary, device ID {index}"
    failures = f"{device} OOMs: {stats.get('num_ooms', 0)} | allocation retries: {stats.get('num_alloc_retries', 0)}"
    header = " | ".join(["        Metric        ", *(f"{name:10}" for name in _COLUMNS.values())])
    lines = ["=" * _WIDTH, title.center(_WIDTH), "-" * _WIDTH, failures.center(_WIDTH), "=" * _WIDTH, header]
    for key, name, format_number in _METRICS:
        lines.append("-" * _WIDTH)
        rows = {"all": name} if abbreviated else {"all": name, **_POOLS}
        for pool, label in rows.items():
            cells = [
                format_number(stats.get(f"{key}.{pool}.{column}", 0), stats.get(f"{key}.all.{column}", 0))
                for column in _COLUMNS
            ]
            lines.append(" | ".join([f" {label:21}", *cells]))
    lines.append("=" * _WIDTH)
    return "|" + "|\n|".join(line.ljust(_WIDTH)[:_WIDTH] for line in lines) + "|\n"
