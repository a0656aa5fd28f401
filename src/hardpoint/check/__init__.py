"""Conformance checks of the mounted plug-in: ``hardpoint check``, and :func:`run`.

Each entry gets a verdict with its evidence: the number of comparisons per dtype, the first failure, and the tier that
served each operator.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hardpoint.check import expectations, worker
from hardpoint.check.report import Blocker, Count, Report, Result
from hardpoint.check.runner import MEMORY, TIMEOUT, WorkerProcess
from hardpoint.check.worker import MODES

__all__ = ["MODES", "Blocker", "Count", "Report", "Result", "run"]

#: Called after each entry with the number done, the total, and the latest result.
Progress = Callable[[int, int, Result], None]

#: Samples per entry and dtype.
SAMPLES = 4


def _resume(path: Path, made_with: dict[str, Any]) -> dict[tuple[str, str], Result]:
    """Read the results in a file. Its first line records the options, which must match."""
    found: dict[tuple[str, str], Result] = {}
    if not path.exists() or not path.stat().st_size:
        path.write_text(json.dumps({"made_with": made_with}) + "\n")
        return found
    try:
        first, *lines = path.read_text().splitlines()
        before = json.loads(first)["made_with"]
        differs = [key for key in made_with if before.get(key) != made_with[key]]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError(f"{path} has no results of `hardpoint check --resume`; use a new file") from None
    if differs:
        raise ValueError(f"{path} has results for different {', '.join(differs)}; use a new file")
    for line in lines:
        try:
            result = Result.from_json(json.loads(line))
        except (ValueError, TypeError, AttributeError):
            continue  # partial line of an interrupted run
        found[result.key] = result
    if found and not path.read_text().endswith("\n"):
        with path.open("a") as end:
            end.write("\n")
    return found


def _compare_saved(result: Result, ours: Path, theirs: Path) -> None:
    from hardpoint.check import saved_results

    found = saved_results.differences(ours, theirs, result.entry) if result.mode == "ops" else {}
    result.matching = sum(not difference for difference in found.values())
    result.differing = {call: difference for call, difference in found.items() if difference}


def run(
    modes: Sequence[str] = MODES,
    *,
    ops: str = "",
    dtypes: Iterable[str] = expectations.DTYPES,
    samples: int = SAMPLES,
    thorough: bool = False,
    guard: bool = False,
    failures: str | Path | None = None,
    resume: str | Path | None = None,
    keep: str | Path | None = None,
    against: str | Path | None = None,
    isolate: bool = True,
    timeout: float = TIMEOUT,
    memory: float = MEMORY,
    progress: Progress | None = None,
) -> Report:
    """Check the chosen device and return the report.

    ``ops`` is a regular expression for entry names. ``thorough`` runs every generated case, ``guard`` puts guard zones
    around every allocation, and ``failures`` is a folder in which to save failing calls. ``resume`` is a file with one
    result per line: entries in it are not run again, and new results are appended. ``keep`` is a folder in which to
    save the device's results of mode ``ops``; ``against`` is such a folder of another run, and the report lists the
    differences. ``isolate=False`` runs everything in this process: kernels registered with ``hardpoint.kernel`` are
    used, and a crash ends the program. Ctrl-C ends the run with a report of the entries so far; ``interrupted`` has the
    number of the others.
    """
    from hardpoint import _discovery

    try:
        re.compile(ops)
    except re.error as error:
        raise ValueError(f"'{ops}' is not a valid regular expression: {error}") from None
    unknown = [m for m in modes if m not in MODES]
    if unknown:
        raise ValueError(f"unknown mode {', '.join(unknown)}; expected {', '.join(MODES)}")
    options: dict[str, Any] = {"dtypes": list(dtypes), "samples": samples, "thorough": thorough, "guard": guard}
    if bad := [d for d in options["dtypes"] if d not in expectations.DTYPES]:
        raise ValueError(f"unknown dtype {', '.join(bad)}; expected {', '.join(expectations.DTYPES)}")
    if against is not None and not Path(against).is_dir():
        raise ValueError(f"no folder {against}; create it with `hardpoint check ops --keep {against}`")
    start, date = time.monotonic(), datetime.now().astimezone().isoformat(timespec="seconds")
    device = str(_discovery.choose().name)
    execute = WorkerProcess(timeout, memory) if isolate else _InProcess()
    file = Path(resume) if resume is not None else None
    known = _resume(file, {"device": device, **options}) if file is not None else {}
    saved = failures and str(Path(failures).resolve())
    results: list[Result] = []
    wanted: list[tuple[str, str]] = []
    with ExitStack() as stack:
        if against is not None and keep is None:
            keep = stack.enter_context(tempfile.TemporaryDirectory())
        stack.callback(execute.close)
        try:
            for mode in modes:
                wanted += [(mode, entry) for entry in execute.entries(mode, ops)]
            for number, (mode, entry) in enumerate(wanted):
                result = known.get((mode, entry))
                if result is None:
                    folder = keep and str(Path(keep).resolve())
                    result = execute.run(mode, entry, {**options, "keep": folder, "failures": saved})
                    if keep is not None and against is not None:
                        _compare_saved(result, Path(keep), Path(against))
                    if file is not None:
                        with file.open("a") as lines:
                            lines.write(json.dumps(asdict(result)) + "\n")
                results.append(result)
                if progress is not None:
                    progress(number + 1, len(wanted), result)
        except KeyboardInterrupt:
            if not wanted:
                raise
            execute.kill()
    seconds = round(time.monotonic() - start, 1)
    versions = {name: version(name) for name in ("hardpoint", "torch")}
    settings = {"modes": list(modes), "ops": ops, **options}
    return Report(device, results, versions, settings, seconds, date, interrupted=len(wanted) - len(results))


class _InProcess:
    """Runs entries in this process."""

    def entries(self, mode: str, pattern: str) -> list[str]:
        worker.mount()
        return worker.entries(mode, pattern)

    def run(self, mode: str, entry: str, options: dict[str, Any]) -> Result:
        return worker.run(mode, entry, options, lambda at: None)

    def close(self) -> None:
        pass

    def kill(self) -> None:
        pass
