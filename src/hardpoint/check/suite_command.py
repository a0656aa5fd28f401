"""The commands ``hardpoint check suites`` and ``hardpoint check paddle``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from hardpoint._console import console, refuse
from hardpoint._runtime import PluginError
from hardpoint.check import interruption, suite
from hardpoint.projects import cli as projects


def run(
    framework: str,
    paths: Sequence[Path],
    jobs: int,
    exclude: Path | None,
    json: Path | None,
    blockers: int,
    options: Mapping[str, Any],
) -> None:
    """Run the test files, print the report and write it to ``json``; exits with 1 after device-only failures."""
    suites = import_module(f"hardpoint.check.{framework}_suite")

    def advance(done: int, total: int, result: suite.FileResult) -> None:
        found = ", ".join(f"{count} {status}" for status, count in result.counts.items())
        console.print(f"{done}/{total} {result.file}: {found or 'no test selected'}", highlight=False)

    projects.use_device()
    with interruption.reported():
        try:
            report: suite.SuiteReport = suites.run(
                paths, exclusions=exclude or suites.EXCLUSIONS, jobs=jobs, progress=advance, **options
            )
        except (ValueError, PluginError) as error:
            refuse(error, "failed")
        suite.text(report, console, blockers=blockers)
        if json is not None:
            report.save(json)
    if not report.ok:
        raise typer.Exit(1)
