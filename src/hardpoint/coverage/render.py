"""Coverage as text, JSON and HTML."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

from hardpoint import _html
from hardpoint.check.expectations import DTYPES
from hardpoint.coverage.tiers import Coverage, Operator


def _format_tiers(operator: Operator) -> str:
    """Tiers with their dtypes: ``portable: float32, float64; cpu: complex64``."""
    groups: dict[str, list[str]] = {}
    for dtype, tier in operator.tiers.items():
        groups.setdefault(tier, []).append(dtype)
    if len(groups) == 1:
        return next(iter(groups))
    return "; ".join(f"{tier}: {', '.join(dtypes)}" for tier, dtypes in groups.items())


def _totals(coverage: Coverage) -> tuple[list[str], list[tuple[object, ...]]]:
    """Columns and rows of the table of totals."""
    totals = coverage.totals()
    tiers = sorted({tier for counts in totals.values() for tier in counts})
    rows = [(dtype, *(counts.get(tier, 0) for tier in tiers)) for dtype, counts in totals.items()]
    return ["dtype", *tiers], rows


def text(coverage: Coverage, console: Console) -> None:
    """Print the overloads and the totals."""
    color = {"cpu": "red", "composite": "yellow", "decomposition": "yellow"}
    columns = ("overload", "standard\noperator", "served by", "measured", "has a\ndecomposition")
    table = Table(*(Column(name, no_wrap=name != "served by") for name in columns), title=coverage.device)
    for op in coverage.operators:
        tiers = f"[{color.get(op.worst_tier(), 'green')}]{_format_tiers(op)}[/]"
        table.add_row(op.name, op.standard, tiers, "yes" if op.measured else "", "yes" if op.decomposable else "")
    # Never cut a name: on a narrow console, print one long line per overload.
    needed = Measurement.get(console, console.options.update_width(10_000), table)
    table.width = needed.maximum if needed.minimum > console.width else None
    console.print(table, crop=False)
    total_columns, rows = _totals(coverage)
    table = Table(*total_columns, title=f"{len(coverage.operators)} overloads")
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)


def save(coverage: Coverage, path: str | Path) -> None:
    """Write the full data to a JSON file."""
    Path(path).write_text(json.dumps({**asdict(coverage), "totals": coverage.totals()}, indent=1) + "\n")


def html(coverage: Coverage, path: str | Path) -> None:
    """Write the overloads and the totals to an HTML file."""
    rows = [
        (op.name, op.standard, op.worst_tier(), *(op.tiers.get(d, "") for d in DTYPES), "yes" if op.measured else "")
        for op in coverage.operators
    ]
    columns = ("overload", "standard operator", "worst tier", *DTYPES, "measured")
    sections = [
        ("Totals", _html.table("totals", *_totals(coverage))),
        ("Overloads", _html.table("overloads", columns, rows)),
    ]
    paragraphs = [f"{len(rows)} ATen overloads that need a kernel on a dense device, and the tier that serves each."]
    Path(path).write_text(_html.page(f"Coverage of {coverage.device}", paragraphs, sections))
