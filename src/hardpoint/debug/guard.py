"""Guard: puts guard zones around every allocation, and names the operator that writes outside its memory."""

from __future__ import annotations

from typing import Any

from hardpoint._runtime import core
from hardpoint.check.guard import describe
from hardpoint.debug._calls.base import Call, Report
from hardpoint.debug._tool.base import Tool
from hardpoint.debug._tool.options import EnvironmentVariable
from hardpoint.debug._tool.reports import ReportWriter, format_origin

#: report: print each finding; stop: raise at the first one.
MODES = ("report", "stop")


class OutOfBounds(RuntimeError):
    """An operator wrote outside its memory."""


class Guard(Tool[None]):
    """Check the memory around each call's tensors, until :meth:`stop` or the end of a ``with`` block.

    ``mode``: ``report`` prints findings, ``stop`` raises :class:`OutOfBounds` at the first. Scratch memory is checked
    when a call returns it, all other memory at the end.
    """

    def __init__(self, mode: str = "report") -> None:
        if mode not in MODES:
            raise ValueError(f"guard: mode must be one of {', '.join(MODES)}, not '{mode}'")
        super().__init__()
        self.mode = mode
        #: Findings: the call, and what it wrote.
        self.findings: list[Report] = []
        self._calls = 0
        self._on = True
        self._reports = ReportWriter("guard", None, _format)
        core.set_guard_zones(True)
        self.start()

    def end(self, call: Call, state: None) -> None:
        """Check the zones around the call's results and around memory freed during the call."""
        self._calls += 1
        self._check(call.header(), [storage.address for storage in call.storages()])

    def _check(self, header: Report, addresses: list[int] | None) -> None:
        if not (problem := describe(core.check_guard_zones(addresses))):
            return
        finding = {**header, "problem": problem}
        self.findings.append(finding)
        if self.mode == "stop" and header["operator"]:
            self.raise_in_program(OutOfBounds(_format(finding)))
        self._reports.write(finding)

    def stop(self) -> None:
        """Stop, and check all memory."""
        super().stop()
        if self._on:
            self._on = False
            self._check({"operator": "", "tier": "", "location": ""}, None)
            core.set_guard_zones(False)
            self._reports.close()

    def failed(self) -> bool:
        """Whether any operator wrote outside its memory."""
        return bool(self.findings)

    def summary(self) -> str:
        """The counts on one line."""
        return f"guard: {self._calls} calls, {len(self.findings)} wrote outside their memory"


def _format(finding: Report) -> str:
    operator = finding["operator"]
    return (
        f"guard {operator} ({format_origin(finding)}): {finding['problem']}"
        if operator
        else f"guard: {finding['problem']}"
    )


guard = Guard
"""Create and start :class:`Guard`; takes the same arguments."""


def _from_environment(mode: str, options: dict[str, Any]) -> Guard:
    return Guard("report" if mode in ("1", "") else mode)


#: ``1``, ``report`` or ``stop``.
environment = EnvironmentVariable("HARDPOINT_GUARD", {}, _from_environment)
