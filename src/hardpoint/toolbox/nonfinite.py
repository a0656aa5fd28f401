"""Watch for NaN and Inf: the first operator that makes them of inputs that have none."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

from hardpoint.toolbox import options, switches, watching, writing

#: report: the first one, then it goes off; all: every operator that makes some; stop: the first one raises.
MODES = ("report", "all", "stop")
#: Bytes that an operator writes beyond which its inputs are not kept.
MAX_BYTES = 1 << 30


class NotFinite(ArithmeticError):
    """An operator made NaN or Inf."""


class Nonfinite(watching.Tool):
    """Find the operator that makes NaN or Inf of inputs that have none, from the next operator on.

    ``mode``: ``report`` tells the first one and goes off, ``all`` tells every one, ``stop`` raises :class:`NotFinite`
    at the first. ``ops``: only these, as in rules for fallback. ``inf=False``: NaN only. Reports go to the terminal, or
    as JSON lines to ``file``; the calls are saved in the folder ``save``, for ``hardpoint replay``.
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
            raise ValueError(f"the watch for NaN has the modes {', '.join(MODES)}, not '{mode}'")
        super().__init__(options.patterns(ops))
        self.mode = mode
        self.inf = inf
        #: Calls that made NaN or Inf of inputs that had none.
        self.made: list[dict[str, Any]] = []
        #: The first call that had them in its inputs already, where none was seen to make them before.
        self.came_in: dict[str, Any] | None = None
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._save = None if save is None else writing.folder("the watch for NaN", save)
        self._reports = writing.Reports("the watch for NaN", file, text)
        self.start()

    def begin(self, call: watching.Call) -> Any:
        """Keep what the call will write."""

        # What a part of a call makes on its way is its own matter, if it does not come out.
        return None if watching.inside(self) else call.keep(MAX_BYTES, copy=False)

    def end(self, call: watching.Call, state: Any) -> None:
        """Look at the results, and at the inputs if they have any."""
        from hardpoint.toolbox import ranges

        if state is None or (self.made and self.mode != "all"):
            return
        least = ranges.INF if self.inf else ranges.NAN
        found = call.worst(list(call.outputs().values()))
        if found < least:
            return
        had = call.worst(list(state.named().values()))
        if found <= had and (self.came_in is not None or self.made):
            return
        report = _report(call, state, found, had)
        if not any(each[kind] for each in report["results"].values() for kind in ("nan", "inf")):
            return  # the reduction itself overflowed
        with self._lock:
            if report["made"]:
                if self.made and self.mode != "all":
                    return
                self.made.append(report)
                self._counts[call.name] += 1
                number = self._counts[call.name]
            elif self.came_in is None:
                self.came_in = report
            else:
                return
        if report["made"] and self._save is not None and state.complete:
            report["saved"] = str(state.save(writing.call_file(self._save, call.name, number), report))
        if not report["made"] or self.mode != "stop" or self._reports.to_file:
            self._reports.write(report)
        if report["made"] and self.mode != "all":
            super().stop()  # the first is told: nothing else is to be paid for
        if report["made"] and self.mode == "stop":
            self.end_program(NotFinite(text(report)))

    def stop(self) -> None:
        """End it."""
        super().stop()
        self._reports.close()

    def failed(self) -> bool:
        """Whether an operator made NaN or Inf."""
        return bool(self.made)

    def summary(self) -> str:
        """How it went, in one line."""
        if not self.made:
            return "nan: no operator made NaN or Inf" + (", but some came in" if self.came_in else "")
        first = self.made[0]
        return f"nan: {len(self.made)} calls made NaN or Inf, first {first['operator']} ({_where(first)})"


def _report(call: watching.Call, state: Any, found: int, had: int) -> dict[str, Any]:
    from hardpoint.toolbox import ranges

    return {
        "operator": call.name,
        "tier": call.tier,
        "place": str(call.place),
        "made": found > had,
        "kind": ranges.WORDS[found],
        "had": ranges.WORDS[had],
        "inputs": call.ranges(state.named()),
        "results": call.ranges(call.outputs()),
    }


def _where(report: dict[str, Any]) -> str:
    return f"{report['tier']}, {report['place']}" if report["place"] else str(report["tier"])


def text(report: dict[str, Any]) -> str:
    """A report for people."""
    from hardpoint.toolbox import ranges

    if not report["made"]:
        verdict = f"{report['kind']} in its results; its inputs had {report['had']} already"
    elif report["had"] == "finite":
        verdict = f"made {report['kind']}; its inputs had neither NaN nor Inf"
    else:
        verdict = f"made {report['kind']}; its inputs had {report['had']}, but no {report['kind']}"
    lines = [f"nan: {report['operator']} ({_where(report)}): {verdict}"]
    for group, arrow in (("inputs", "  "), ("results", "->")):
        for name, each in report[group].items():
            lines.append(f"  {arrow} {name}: {ranges.words(each) if isinstance(each, dict) else each}")
    if "saved" in report:
        lines.append(f"  run it again: hardpoint replay {report['saved']}")
    return "\n".join(lines)


watch_nan = Nonfinite


def _from_environment(mode: str, given: dict[str, str]) -> Nonfinite:
    settings: dict[str, Any] = dict(given)
    settings["inf"] = options.number(given, "inf", 1, "HARDPOINT_NAN") != 0
    return Nonfinite("report" if mode in ("1", "") else mode, **settings)


#: ``report``, or ``stop; ops=log; inf=0; save=calls``.
environment = switches.Switch("HARDPOINT_NAN", ("ops", "inf", "file", "save"), _from_environment)
