"""Compare: each operator runs on the device and on the CPU, with the same inputs, and the two must agree."""

from __future__ import annotations

import atexit
import json
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from hardpoint.toolbox import options, steps_of_optimizers, verdicts, watching, wording

#: all: every call is reported; mismatches: only what is wrong; stop: the first wrong call raises.
MODES = ("all", "mismatches", "stop")
#: Bytes of inputs beyond which a call is not compared.
MAX_BYTES = 1 << 30

Tolerance = tuple[float, float]


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
        self.tolerances = dict(tolerances or {})
        self.max_bytes = max_bytes
        self.save = None if save is None else Path(save)
        self.counts: Counter[str] = Counter()
        #: Wrong calls, by operator.
        self.wrong: Counter[str] = Counter()
        self._mismatch: Mismatch | None = None  # that ended the program's call
        self._step = 1
        self._lock = threading.Lock()
        self._steps = steps_of_optimizers.Steps(self.step)
        self._file: IO[str] | None = None
        try:
            if self.save is not None:
                self.save.mkdir(parents=True, exist_ok=True)
            if file is not None:
                self._file = open(file, "a")  # noqa: SIM115  (closed by stop)
        except OSError as error:
            raise ValueError(f"compare cannot write to {error.filename}: {error.strerror}") from None
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
            safe = call.name.replace("::", ".")
            report["saved"] = str(state.save(self.save / f"{safe}-{number}.call", report))
        if report["verdict"] == "wrong" or self.mode == "all":
            self._write(report)
        if report["verdict"] == "wrong" and self.mode == "stop":
            self._mismatch = Mismatch(text(report))
            raise self._mismatch

    def _write(self, report: dict[str, Any]) -> None:
        with self._lock:
            if self._file is not None and not self._file.closed:
                print(json.dumps(report), file=self._file, flush=True)
            elif self._file is None and not (self.mode == "stop" and report["verdict"] == "wrong"):
                print("\n".join(f"[hardpoint] {line}" for line in text(report).splitlines()), file=sys.stderr)

    def stop(self) -> None:
        """End it."""
        super().stop()
        self._steps.stop()
        with self._lock:
            if self._file is not None:
                self._file.close()

    def summary(self) -> str:
        """How it went, in one line."""
        wrong = ", ".join(f"{name} ({count})" for name, count in self.wrong.most_common())
        others = self.counts["not compared"]
        return (
            f"compare: {self.counts['right']} calls right, {self.counts['wrong']} wrong"
            + (f": {wrong}" if wrong else "")
            + (f"; {others} not compared" if others else "")
        )

    def __enter__(self) -> Compare:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._mismatch is not None and error is not None and not isinstance(error, Mismatch):
            raise self._mismatch from error  # on its way through Paddle it became an error of Paddle's


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

_environment: Compare | None = None


def in_environment() -> Compare | None:
    """What HARDPOINT_COMPARE switched on."""
    return _environment


def set_environment(value: str | None) -> None:
    """What HARDPOINT_COMPARE says, in place of what it said before: ``stop``, or ``all; ops=mm; steps=1:2``."""
    global _environment
    names = ("ops", "steps", "reference", "file", "save", "max_bytes")
    mode, given = options.parse(value or "0", "HARDPOINT_COMPARE", names)
    settings: dict[str, Any] = dict(given)
    if "max_bytes" in given:
        settings["max_bytes"] = int(given["max_bytes"])
    off = mode in ("0", "") and not given
    made = None if off else Compare("mismatches" if mode in ("1", "") else mode, **settings)
    if _environment is not None:
        _environment.stop()
        print(f"[hardpoint] {_environment.summary()}", file=sys.stderr)
    elif made is not None:
        atexit.register(set_environment, None)
    _environment = made
