"""The command ``hardpoint check``: progress, interruption, and the reports."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hardpoint import check
from hardpoint._console import console, line, refuse
from hardpoint._runtime import PluginError, cache_dir
from hardpoint.check import interruption, render, runner


@interruption.reported()
def run_command(
    modes: Sequence[str] | None,
    *,
    resume_file: Path | None,
    blockers: int,
    outputs: Mapping[str, Path | None],
    strict: bool,
    failures: Path | None = None,
    **options: Any,
) -> check.Report:
    """Run the entries with a progress bar, print the report and write the files; exits if the run cannot start.

    ``outputs``: ``html``, ``junit`` and ``json``. Ctrl-C or SIGTERM ends the run early, with the results so far.
    """
    # Without --resume an interrupted run would be lost.
    file = resume_file or cache_dir() / "check" / f"{datetime.now():%Y-%m-%d-%H%M%S}-{os.getpid()}.jsonl"
    failures = failures or cache_dir() / "check" / "failures"
    columns = (TextColumn("{task.description:40.40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("loading", total=None)

        def advance(done: int, total: int, result: check.Result) -> None:
            bar.update(task, completed=done, total=total, description=f"{result.mode} {result.entry}")

        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            report = check.run(modes or check.MODES, resume=file, progress=advance, failures=failures, **options)
        except (ValueError, PluginError, runner.WorkerDied, OSError) as error:
            bar.stop()
            refuse(error, "failed")
        except KeyboardInterrupt:
            bar.stop()
            refuse("interrupted before the first entry", "stopped")
    render.text(report, console, blockers=blockers)
    writers: dict[str, Callable[[Path], None]] = {
        "html": partial(render.html, report),
        "junit": partial(render.junit, report, strict=strict),
        "json": report.save,
    }
    _write({path: writers[kind] for kind, path in outputs.items() if path is not None})
    if report.interrupted:
        line("stopped", "yellow", f"{report.interrupted} entries have not run; to run them: {_resume_command(file)}")
    elif resume_file is None:
        file.unlink(missing_ok=True)
    if not report.results and not report.interrupted:
        line("failed", "red", "no entry matches the options")
    return report


def _write(writers: Mapping[Path, Callable[[Path], None]]) -> None:
    """Write every file, even if another one fails, for example on a full disk."""
    failures = []
    for path, write in writers.items():
        try:
            write(path)
        except OSError as error:
            failures.append(f"cannot write {path}: {error.strerror}")
    if failures:
        refuse("; ".join(failures), "failed")


def _resume_command(file: Path) -> str:
    given = [a for a in sys.argv[1:] if not a.startswith("--resume=")]
    if "--resume" in given:
        at = given.index("--resume")
        del given[at : at + 2]
    return shlex.join(["hardpoint", *given, "--resume", str(file)])
