"""Compare: each operator runs on the device and on the CPU, with the same inputs, and the two must agree."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardpoint.toolbox import options, steps_of_optimizers, switches, verdicts, watching, wording, writing
from hardpoint.toolbox.tolerances import Tolerance
from hardpoint.toolbox.tolerances import check as check_tolerances
from hardpoint.toolbox.tolerances import parse as parse_tolerances

#: all: every call is reported; mismatches: only what is wrong; stop: the first wrong call raises.
MODES = ("all", "mismatches", "stop")
#: Bytes of inputs beyond which a call is not compared.
MAX_BYTES = 1 << 30


class Mismatch(RuntimeError):
    """An operator's result differs from the CPU's."""


class Compare(watching.Tool):
    """Compare each operator with the CPU, from the next one on until :meth:`stop` or the end of a ``with`` block.

    ``mode``: ``all`` reports every call, ``mismatches`` what is wrong, ``stop`` raises :class:`Mismatch` at once.
    ``ops``: only these, as in rules for fallback. ``steps``: ``"2:4"``, counted by optimizers' steps.
    ``reference="float64"``: judge against a wider computation. ``tolerances``: ``{"mm": (rtol, atol)}``. Reports go to
    the terminal, or as JSON lines to ``file``; wrong calls are saved in the folder ``save``, for ``hardpoint replay``.
    ``counts`` says how it went.
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
            raise ValueError(f"compare has the modes {', '.join(MODES)}, not '{mode}'")
        if reference not in ("", "float64"):
            raise ValueError(f"compare can use float64 as a reference, not '{reference}'")
        super().__init__(options.patterns(ops))
        self.mode = mode
        self.first, self.last = _window(steps)
        self.wide = bool(reference)
        self.tolerances = check_tolerances(tolerances or {})
        self.max_bytes = max_bytes
        self.counts: Counter[str] = Counter()
        #: Wrong calls, by operator.
        self.wrong: Counter[str] = Counter()
        self._step = 1
        self._lock = threading.Lock()
        self._steps = steps_of_optimizers.Steps(self.step)
        self.save = None if save is None else writing.folder("compare", save)
        self._reports = writing.Reports("compare", file, text)
        self.start()

    def step(self) -> None:
        """The next step of the window; every optimizer's ``step()`` counts by itself."""
        self._step += 1

    def begin(self, call: watching.Call) -> Any:
        """Copy the inputs, before the call can change them."""
        self._steps.follow()
        return call.trial(self.max_bytes) if self.first <= self._step <= self.last else None

    def end(self, call: watching.Call, state: Any) -> None:
        """Run the same call on the CPU, and compare."""
        if state is None:
            return
        report = state.finish(self.tolerances, self.wide)
        with self._lock:
            self.counts[report["verdict"]] += 1
            if report["verdict"] == "wrong":
                self.wrong[call.name] += 1
                number = self.wrong[call.name]
        if report["verdict"] == "wrong" and self.save is not None:
            report["saved"] = str(state.save(writing.call_file(self.save, call.name, number), report))
        if report["verdict"] == "wrong" or self.mode == "all":
            self._write(report)
        if report["verdict"] == "wrong" and self.mode == "stop":
            self.end_program(Mismatch(text(report)))

    def _write(self, report: dict[str, Any]) -> None:
        if self._reports.to_file or not (self.mode == "stop" and report["verdict"] == "wrong"):
            self._reports.write(report)

    def stop(self) -> None:
        """End it."""
        super().stop()
        self._steps.stop()
        self._reports.close()

    def failed(self) -> bool:
        """Whether any call was wrong."""
        return bool(self.wrong)

    def summary(self) -> str:
        """How it went, in one line."""
        wrong = ", ".join(f"{name} ({count})" for name, count in self.wrong.most_common())
        others = self.counts["not compared"]
        return (
            f"compare: {self.counts['right']} calls right, {self.counts['wrong']} wrong"
            + (f": {wrong}" if wrong else "")
            + (f"; {others} not compared" if others else "")
        )


def _window(steps: str) -> tuple[float, float]:
    first, colon, last = steps.partition(":")
    try:
        start = int(first) if first.strip() else 1
        return start, (int(last) if last.strip() else float("inf")) if colon or not steps.strip() else start
    except ValueError:
        raise ValueError(f"a window of steps is FIRST:LAST, such as 2:4, not '{steps}'") from None


def text(report: dict[str, Any]) -> str:
    """A report for people."""
    place = f", {report['place']}" if report["place"] else ""
    lines = [f"compare {report['operator']} ({report['tier']}{place}): {report['verdict']}"]
    if "reason" in report:
        lines[0] += f": {report['reason']}"
    for each in report.get("tensors", ()):
        lines.append(f"  {each['name']}: {wording.words(each)}")
        lines.append(f"    {verdicts.words(each['wrong'])}")
    if "saved" in report:
        lines.append(f"  run it again: hardpoint replay {report['saved']}")
    return "\n".join(lines)


compare = Compare


def _from_environment(mode: str, given: dict[str, str]) -> Compare:
    settings: dict[str, Any] = dict(given)
    settings["max_bytes"] = options.number(given, "max_bytes", MAX_BYTES, "HARDPOINT_COMPARE")
    settings["tolerances"] = parse_tolerances(given.get("tolerances", ""))
    return Compare("mismatches" if mode in ("1", "") else mode, **settings)


#: ``stop``, or ``all; ops=mm; steps=1:2; tolerances=mm:1e-3:1e-4``.
environment = switches.Switch(
    "HARDPOINT_COMPARE",
    ("ops", "steps", "reference", "tolerances", "file", "save", "max_bytes"),
    _from_environment,
)
