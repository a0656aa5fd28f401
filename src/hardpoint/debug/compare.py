"""Compare: runs each operator on the CPU too, with the same inputs, and reports differences."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardpoint.debug._calls.base import Call, Comparison, Report
from hardpoint.debug._comparison.tolerances import Tolerance, parse_tolerances, validate_tolerances
from hardpoint.debug._saved.files import call_file, create_folder, write_call
from hardpoint.debug._tool.base import Tool
from hardpoint.debug._tool.optimizer_steps import OptimizerSteps
from hardpoint.debug._tool.options import EnvironmentVariable, parse_patterns
from hardpoint.debug._tool.paths import shown
from hardpoint.debug._tool.reports import ReportWriter, format_argument, format_origin

#: all: report every call; mismatches: only wrong ones; stop: raise at the first wrong one.
MODES = ("all", "mismatches", "stop")
#: Maximum number of wrong calls in ``findings``.
MAX_FINDINGS = 200
#: Calls with more bytes of inputs are not compared.
MAX_BYTES = 1 << 30


#: The latest comparison, for reports about the run.
_latest: list[Compare] = []


def latest() -> Compare | None:
    """The latest comparison, running or not."""
    return _latest[0] if _latest else None


class Mismatch(RuntimeError):
    """An operator's result differs from the CPU's."""


class Compare(Tool[Comparison]):
    """Compare each operator with the CPU, until :meth:`stop` or the end of a ``with`` block.

    ``mode``: ``all`` reports every call, ``mismatches`` only wrong ones, ``stop`` raises :class:`Mismatch` at the
    first. ``ops`` selects operators, written like fallback rules. ``steps="2:4"`` limits it to these optimizer steps.
    ``reference="float64"`` compares with a wider computation. ``tolerances``: ``{"mm": (rtol, atol)}``. Reports go to
    the terminal, or as JSON lines to ``file``. ``save`` is a folder for wrong calls, for ``hardpoint replay``.
    ``counts`` has the number of calls for each verdict.
    """

    def __init__(
        self,
        mode: str = "mismatches",
        *,
        ops: str = "",
        steps: str = "",
        reference: str = "",
        tolerances: Mapping[str, Tolerance] | None = None,
        max_bytes: int = MAX_BYTES,
        file: str | Path | None = None,
        save: str | Path | None = None,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"compare: mode must be one of {', '.join(MODES)}, not '{mode}'")
        if reference not in ("", "float64"):
            raise ValueError(f"compare: reference must be float64 or empty, not '{reference}'")
        super().__init__(parse_patterns(ops))
        self.mode = mode
        self.first_step, self.last_step = _parse_steps(steps)
        self.wide = bool(reference)
        self.tolerances = validate_tolerances(tolerances or {})
        self.max_bytes = max_bytes
        self.counts: Counter[str] = Counter()
        #: Wrong calls by operator.
        self.wrong: Counter[str] = Counter()
        #: Reports about the first wrong calls.
        self.findings: list[Report] = []
        self._step = 1
        self._lock = threading.Lock()
        self._optimizer_steps = OptimizerSteps(self.step)
        self.save = None if save is None else create_folder("compare", save)
        self._reports = ReportWriter("compare", file, format_report)
        _latest[:] = [self]
        self.start()

    def step(self) -> None:
        """Advance to the next step. Every optimizer's ``step()`` does it automatically."""
        self._step += 1

    def begin(self, call: Call) -> Comparison | None:
        """Copy the inputs before the call can change them."""
        self._optimizer_steps.install()
        if not self.first_step <= self._step <= self.last_step:
            return None
        if call.captured:
            with self._lock:
                self.counts["not compared"] += 1
            return None
        return call.start_comparison(self.max_bytes)

    def end(self, call: Call, state: Comparison | None) -> None:
        """Run the same call on the CPU and compare."""
        if state is None:
            return
        report = state.finish(self.tolerances, self.wide)
        wrong = report["verdict"] == "wrong"
        with self._lock:
            self.counts[report["verdict"]] += 1
            if wrong:
                self.wrong[call.name] += 1
                number = self.wrong[call.name]
                if len(self.findings) < MAX_FINDINGS:
                    self.findings.append(report)
        if wrong and self.save is not None:
            path = call_file(self.save, call.name, number)
            if write_call("compare", path, lambda file: state.save(file, report)):
                report["saved"] = shown(path)
        if wrong or self.mode == "all":
            self.report(report)
        if wrong and self.mode == "stop":
            self.raise_in_program(Mismatch(format_report(report)))

    def report(self, report: Report) -> None:
        """Write a report, unless it is about to be raised."""
        if self._reports.to_file or not (self.mode == "stop" and report["verdict"] == "wrong"):
            self._reports.write(report)

    def stop(self) -> None:
        """Stop comparing."""
        super().stop()
        self._optimizer_steps.remove()
        self._reports.close()

    def failed(self) -> bool:
        """Whether any call was wrong."""
        return bool(self.wrong)

    def summary(self) -> str:
        """The counts on one line."""
        wrong = ", ".join(f"{name} ({count})" for name, count in self.wrong.most_common())
        others = self.counts["not compared"]
        return (
            f"compare: {self.counts['right']} calls right, {self.counts['wrong']} wrong"
            + (f": {wrong}" if wrong else "")
            + (f"; {others} not compared" if others else "")
        )


def _parse_steps(steps: str) -> tuple[float, float]:
    first, colon, last = steps.partition(":")
    try:
        start = int(first) if first.strip() else 1
        return start, (int(last) if last.strip() else float("inf")) if colon or not steps.strip() else start
    except ValueError:
        raise ValueError(f"compare: steps must be FIRST:LAST, such as 2:4, not '{steps}'") from None


def format_report(report: Report) -> str:
    """A report as text."""
    lines = [f"compare {report['operator']} ({format_origin(report)}): {report['verdict']}"]
    if "reason" in report:
        lines[0] += f": {report['reason']}"
    for tensor in report.get("tensors", ()):
        lines.append(f"  {tensor['name']}: {format_argument(tensor)}")
        lines.append(f"    {_format_difference(tensor['wrong'])}")
    if "saved" in report:
        lines.append(f"  run it again: hardpoint replay {report['saved']}")
    return "\n".join(lines)


def describe_difference(report: Report) -> str:
    """The differences of a call, on one line."""
    found = [f"{t['name']}: {_format_difference(t['wrong'])}" for t in report.get("tensors", ()) if t["wrong"]]
    return "; ".join(found) or str(report.get("reason", ""))


def _format_difference(wrong: Report) -> str:
    if not wrong:
        return "allclose"
    if "wrong" not in wrong:
        return str(wrong["problem"])
    text = (
        f"{wrong['wrong']} of {wrong['of']} elements wrong, "
        f"largest error {float(wrong['max_abs']):.3g} absolute and {float(wrong['max_rel']):.3g} relative, "
        f"worst at {wrong['at']}: {wrong['got']}, expected {wrong['expected']}"
    )
    special = [f", {wrong[key]} differ in {name}" for key, name in (("nan", "NaN"), ("inf", "Inf")) if wrong[key]]
    return text + "".join(special)


compare = Compare
"""Create and start :class:`Compare`; takes the same arguments."""


def _from_environment(mode: str, options: dict[str, Any]) -> Compare:
    tolerances = parse_tolerances(options.pop("tolerances", ""))
    return Compare("mismatches" if mode in ("1", "") else mode, tolerances=tolerances, **options)


#: ``stop``, or ``all; ops=mm; steps=1:2; tolerances=mm:1e-3:1e-4``.
environment = EnvironmentVariable(
    "HARDPOINT_COMPARE",
    {**dict.fromkeys(("ops", "steps", "reference", "tolerances", "file", "save"), str), "max_bytes": int},
    _from_environment,
)
