"""Dump: prints each call with its tier, location, arguments and values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hardpoint.debug._calls.base import Call, Report
from hardpoint.debug._tool.base import Tool
from hardpoint.debug._tool.options import EnvironmentVariable, parse_patterns
from hardpoint.debug._tool.reports import ReportWriter, format_argument

#: 0: nothing; 1: operator and tier; 2: also arguments and results; 3: also their values.
LEVELS = (0, 1, 2, 3)


class Dump(Tool[Report]):
    """Write calls to the terminal, or as JSON lines to ``file``.

    ``level``: 1 for operators and tiers, 2 adds arguments and results, 3 adds values. ``ops`` selects operators,
    written like fallback rules.
    """

    def __init__(self, level: int = 1, ops: str = "", file: str | Path | None = None) -> None:
        if level not in LEVELS:
            raise ValueError(f"dump: level must be 0 to {LEVELS[-1]}, not {level}")
        super().__init__(parse_patterns(ops))
        self.level = level
        self._reports = ReportWriter("dump", file if level > 0 else None, _format)
        if level > 0:
            self.start()

    def begin(self, call: Call) -> Report | None:
        """Describe the arguments before the call can change them."""
        return call.describe_arguments(self._values(call)) if self.level > 1 else None

    def _values(self, call: Call) -> bool:
        return self.level > 2 and not call.captured

    def end(self, call: Call, state: Report | None) -> None:
        """Write the call."""
        self._write(call, state, None)

    def fail(self, call: Call, state: Report | None, message: str) -> None:
        """Write the call and the first line of its error."""
        self._write(call, state, message.splitlines()[0] if message else "raised")

    def _write(self, call: Call, arguments: Report | None, error: str | None) -> None:
        report: Report = {**call.header(), "depth": call.depth}
        if call.tier in ("vendor", "portable"):
            report["kernel"] = call.kernel()
        if arguments is not None:
            report["arguments"] = arguments
            report["results"] = call.describe_results(self._values(call))
        if error is not None:
            report["error"] = error
        self._reports.write(report)

    def stop(self) -> None:
        """Stop the dump."""
        super().stop()
        self._reports.close()


def _format(report: Report) -> str:
    indent = "  " * report["depth"]
    location = f"  ({report['location']})" if report["location"] else ""
    kernel = f" kernel {report['kernel']}" if report.get("kernel") else ""
    lines = [f"{indent}{report['operator']}: {report['tier']}{kernel}{location}"]
    for group, arrow in (("arguments", "  "), ("results", "->")):
        for name, value in report.get(group, {}).items():
            lines.append(f"{indent}  {arrow} {name}: {format_argument(value)}")
    if "error" in report:
        lines.append(f"{indent}  raised: {report['error']}")
    return "\n".join(lines)


dump = Dump
"""Create and start :class:`Dump`; takes the same arguments."""


def _from_environment(level: str, options: dict[str, Any]) -> Dump:
    if not (level or "0").isdigit():
        raise ValueError(f"HARDPOINT_DUMP: level must be 0 to {LEVELS[-1]}, not '{level}'")
    return Dump(int(level or 0), **options)


#: ``2``, or ``2; ops=mm; file=calls.jsonl``.
environment = EnvironmentVariable("HARDPOINT_DUMP", {"ops": str, "file": str}, _from_environment)
