"""Reports of a comparison, kept in place of being written."""

from __future__ import annotations

from typing import Any

from hardpoint.toolbox.comparing import Compare


class Collect(Compare):
    """Compares every call, and keeps what there is to say of it in ``reports``."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        super().__init__("all")

    def __enter__(self) -> Collect:
        return self

    def _write(self, report: dict[str, Any]) -> None:
        self.reports.append(report)
