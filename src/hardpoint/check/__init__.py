"""Conformance of the mounted plug-in: ``hardpoint check``, and the same as a function.

Each entry gets a verdict with its evidence: how many comparisons were made in each dtype, the first failure, and which
tier served each operator.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hardpoint.check import tables
from hardpoint.check.report import Blocker, Count, Report, Result
from hardpoint.check.runner import MEMORY, TIMEOUT, Worker
from hardpoint.check.worker import MODES

__all__ = ["MODES", "Blocker", "Count", "Report", "Result", "run"]

#: Called after each entry: how many are done, of how many, and the latest result.
Progress = Callable[[int, int, Result], None]

#: Samples for each entry and dtype.
SAMPLES = 4


def _resume(path: Path, made_with: dict[str, Any]) -> dict[tuple[str, str], Result]:
    """The results that a file has. Its first line says how they were made: it must be the same way."""
    found: dict[tuple[str, str], Result] = {}
    if not path.exists():
        path.write_text(json.dumps({"made_with": made_with}) + "\n")
        return found
    for line in path.read_text().splitlines():
        try:
            data = json.loads(line)
        except ValueError:
            continue  # the run was ended while it wrote this line
        if before := data.get("made_with"):
            differs = [key for key in made_with if before.get(key) != made_with[key]]
            if differs:
                raise ValueError(f"{path} was made with another {', '.join(differs)}; name a new file")
            continue
        result = Result.from_json(data)
        found[result.key] = result
    if found and not path.read_text().endswith("\n"):
        with path.open("a") as lines:
            lines.write("\n")
    return found


def _compare_kept(result: Result, ours: Path, theirs: Path) -> None:
    from hardpoint.check import kept

    found = kept.differences(ours, theirs, result.entry) if result.mode == "ops" else {}
    result.same = sum(not difference for difference in found.values())
    result.apart = {call: difference for call, difference in found.items() if difference}


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("hardpoint", "torch")}


def run(
    modes: Sequence[str] = MODES,
    *,
    ops: str = "",
    dtypes: Iterable[str] = tables.DTYPES,
    samples: int = SAMPLES,
    resume: str | Path | None = None,
    keep: str | Path | None = None,
    against: str | Path | None = None,
    isolate: bool = True,
    timeout: float = TIMEOUT,
    memory: float = MEMORY,
    progress: Progress | None = None,
) -> Report:
    """Check the chosen device and return the report.

    ``ops`` is a regular expression that an entry's name must match. ``resume`` names a file of results, one a line:
    what it has is not run again, what is new is added as it comes. ``keep`` names a folder for what the device computed
    in the mode ``ops``, ``against`` one that another run has filled: the report then says where the two differ.
    ``isolate=False`` runs everything in this process,
    where kernels that were put in place with ``hardpoint.kernel`` are seen; a crash then ends the program.
    """
    from hardpoint import plugins

    unknown = [m for m in modes if m not in MODES]
    if unknown:
        raise ValueError(f"there is no mode {', '.join(unknown)}; there are {', '.join(MODES)}")
    options: dict[str, Any] = {"dtypes": list(dtypes), "samples": samples}
    if bad := [d for d in options["dtypes"] if d not in tables.DTYPES]:
        raise ValueError(f"there is no dtype {', '.join(bad)} in a check; there are {', '.join(tables.DTYPES)}")
    if against is not None and not Path(against).is_dir():
        raise ValueError(f"there is no folder {against}; `hardpoint check ops --keep {against}` makes one")
    start = time.monotonic()
    device = str(plugins.choose().name)
    execute = _Isolated(timeout, memory) if isolate else _Here()
    file = Path(resume) if resume is not None else None
    known = _resume(file, {"device": device, **options}) if file is not None else {}
    results: list[Result] = []
    with ExitStack() as stack:
        if against is not None and keep is None:
            keep = stack.enter_context(tempfile.TemporaryDirectory())
        stack.callback(execute.close)
        wanted = [(mode, entry) for mode in modes for entry in execute.entries(mode, ops)]
        for number, (mode, entry) in enumerate(wanted):
            result = known.get((mode, entry))
            if result is None:
                folder = keep and str(Path(keep).resolve())
                result = execute.run(mode, entry, {**options, "keep": folder})
                if keep is not None and against is not None:
                    _compare_kept(result, Path(keep), Path(against))
                if file is not None:
                    with file.open("a") as lines:
                        lines.write(json.dumps(asdict(result)) + "\n")
            results.append(result)
            if progress is not None:
                progress(number + 1, len(wanted), result)
    seconds = round(time.monotonic() - start, 1)
    return Report(device, results, _versions(), {**options, "ops": ops}, seconds)


class _Here:
    """Runs entries in this process."""

    def entries(self, mode: str, pattern: str) -> list[str]:
        from hardpoint.check import worker

        worker.mount()
        return worker.entries(mode, pattern)

    def run(self, mode: str, entry: str, options: dict[str, Any]) -> Result:
        from hardpoint.check import worker

        return worker.run(mode, entry, options, lambda at: None)

    def close(self) -> None:
        pass


class _Isolated(Worker):
    """Runs entries in a process of their own; without it (a plug-in that cannot be mounted) nothing can be listed."""
