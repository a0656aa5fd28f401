"""NaN watch: finds the first operator that produces NaN or Inf from inputs without any."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

from hardpoint.debug._calls.base import Call, Report, SavedInputs
from hardpoint.debug._ranges import INF, NAMES, NAN
from hardpoint.debug._saved.files import call_file, create_folder, write_call
from hardpoint.debug._tool.base import Tool, inside_call
from hardpoint.debug._tool.options import EnvironmentVariable, parse_patterns
from hardpoint.debug._tool.paths import shown
from hardpoint.debug._tool.reports import ReportWriter, format_origin

#: report: report the first operator, then turn off; all: report every operator; stop: raise at the first.
MODES = ("report", "all", "stop")
#: Overwritten arguments larger than this are not copied.
MAX_BYTES = 1 << 30


class NonFiniteError(ArithmeticError):
    """An operator produced NaN or Inf."""


class NanWatch(Tool[SavedInputs]):
    """Find operators that produce NaN or Inf from inputs without any.

    ``mode``: ``report`` reports the first one and turns off, ``all`` reports every one, ``stop`` raises
    :class:`NonFiniteError` at the first. ``ops`` selects operators, written like fallback rules. ``inf=False`` ignores
    Inf. Reports go to the terminal, or as JSON lines to ``file``. ``save`` is a folder for the calls, for
    ``hardpoint replay``.
    """

    def __init__(
        self,
        mode: str = "report",
        *,
        ops: str = "",
        inf: bool = True,
        file: str | Path | None = None,
        save: str | Path | None = None,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"watch_nan: mode must be one of {', '.join(MODES)}, not '{mode}'")
        super().__init__(parse_patterns(ops))
        self.mode = mode
        self.inf = inf
        #: Calls that produced NaN or Inf.
        self.produced: list[Report] = []
        #: The first call whose inputs already had NaN or Inf, if no operator had produced any before.
        self.inherited: Report | None = None
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._folder = None if save is None else create_folder("watch_nan", save)
        self._reports = ReportWriter("watch_nan", file, format_report)
        self.start()

    def begin(self, call: Call) -> SavedInputs | None:
        """Copy what the call will overwrite."""
        # Intermediate results inside a call do not matter unless they reach its outputs.
        return None if inside_call(self) or call.captured else call.save_inputs(MAX_BYTES, copy=False)

    def end(self, call: Call, state: SavedInputs | None) -> None:
        """Check the outputs, and the inputs if the outputs are not finite."""
        if state is None or (self.produced and self.mode != "all"):
            return
        found = call.severity(list(call.outputs().values()))
        if found < (INF if self.inf else NAN):
            return
        before = call.severity(list(state.named().values()))
        if found <= before and (self.inherited is not None or self.produced):
            return
        report = _report(call, state, found, before)
        if not any(each[kind] for each in report["results"].values() for kind in ("nan", "inf")):
            return  # the reduction itself overflowed
        produced = report["produced"]
        with self._lock:
            if produced:
                if self.produced and self.mode != "all":
                    return
                self.produced.append(report)
                self._counts[call.name] += 1
                number = self._counts[call.name]
            elif self.inherited is None:
                self.inherited = report
            else:
                return
        if produced and self._folder is not None and state.complete:
            path = call_file(self._folder, call.name, number)
            if write_call("nan", path, lambda file: state.save(file, report)):
                report["saved"] = shown(path)
        if not produced or self.mode != "stop" or self._reports.to_file:
            self._reports.write(report)
        if produced and self.mode != "all":
            super().stop()  # later calls need no check
        if produced and self.mode == "stop":
            self.raise_in_program(NonFiniteError(format_report(report)))

    def stop(self) -> None:
        """Stop the watch."""
        super().stop()
        self._reports.close()

    def failed(self) -> bool:
        """Whether an operator produced NaN or Inf."""
        return bool(self.produced)

    def summary(self) -> str:
        """The result on one line."""
        if not self.produced:
            return "nan: no operator produced NaN or Inf" + (", but some inputs had them" if self.inherited else "")
        first = self.produced[0]
        return (
            f"nan: {len(self.produced)} calls produced NaN or Inf, first {first['operator']} ({format_origin(first)})"
        )


def _report(call: Call, state: SavedInputs, found: int, before: int) -> Report:
    return {
        "operator": call.name,
        "tier": call.tier,
        "location": str(call.location),
        "produced": found > before,
        "result_kind": NAMES[found],
        "input_kind": NAMES[before],
        "inputs": call.ranges(state.named()),
        "results": call.ranges(call.outputs()),
    }


def _format_range(report: Report) -> str:
    if "min" in report:
        span = f"min {report['min']:.4g}, max {report['max']:.4g}, mean {report['mean']:.4g}"
    else:
        span = "no finite element"
    return f"{report['dtype']} {report['sizes']}, {span}, {report['nan']} NaN, {report['inf']} Inf"


def format_report(report: Report) -> str:
    """A report as text."""
    kind, before = report["result_kind"], report["input_kind"]
    if not report["produced"]:
        verdict = f"{kind} in its results; its inputs already had {before}"
    elif before == "finite":
        verdict = f"produced {kind} from finite inputs"
    else:
        verdict = f"produced {kind}; its inputs had {before}, but no {kind}"
    lines = [f"nan: {report['operator']} ({format_origin(report)}): {verdict}"]
    for group, arrow in (("inputs", "  "), ("results", "->")):
        for name, each in report[group].items():
            lines.append(f"  {arrow} {name}: {_format_range(each) if isinstance(each, dict) else each}")
    if "saved" in report:
        lines.append(f"  run it again: hardpoint replay {report['saved']}")
    return "\n".join(lines)


watch_nan = NanWatch
"""Create and start :class:`NanWatch`; takes the same arguments."""


def _from_environment(mode: str, options: dict[str, Any]) -> NanWatch:
    inf = options.pop("inf", 1) != 0
    return NanWatch("report" if mode in ("1", "") else mode, inf=inf, **options)


#: ``report``, or ``stop; ops=log; inf=0; save=calls``.
environment = EnvironmentVariable(
    "HARDPOINT_NAN", {"ops": str, "inf": int, "file": str, "save": str}, _from_environment
)
