"""The mutation test: plants bugs in kernels and runtimes, and counts how many ``hardpoint check`` finds.

``python -m hardpoint.check.mutation`` prints the figures of docs/reference/test_results.md, with ``--thorough`` for
that mode of ``check``.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

#: Dtypes and samples of a run. Fewer than by default, so a default run finds at least as many.
DTYPES, SAMPLES = ("float32", "float64", "bfloat16", "int64"), 2
#: Exit statuses of `hardpoint check` if something failed, or nothing could run.
FAILED = (1, 2)


class Outcome(NamedTuple):
    """The outcome for one bug."""

    name: str
    found: bool
    seconds: float
    evidence: str


def run_kernels(pattern: str = "", thorough: bool = False) -> Iterator[Outcome]:
    """Plant each broken kernel in this process, on the mounted device, and check its entry."""
    from hardpoint import check
    from hardpoint.check import worker
    from hardpoint.check.argument_mutants import KernelMutant, argument_mutants
    from hardpoint.check.mutants import Mutant, kernel_mutants
    from hardpoint.check.report import BAD
    from hardpoint.check.value_mutants import value_mutants

    device = worker.mount()
    mutants: list[Mutant | KernelMutant] = [*kernel_mutants(), *argument_mutants(), *value_mutants()]
    for mutant in mutants:
        if not re.search(pattern, mutant.name):
            continue
        start = time.monotonic()
        with mutant.plant(device):
            report = check.run(
                [mutant.mode], ops=f"^{mutant.entry}$", dtypes=DTYPES, samples=SAMPLES, thorough=thorough, isolate=False
            )
        bad = [result.failure for result in report.results if result.verdict in BAD]
        yield Outcome(mutant.name, bool(bad), time.monotonic() - start, bad[0] if bad else "")


def run_runtimes(pattern: str = "", thorough: bool = False) -> Iterator[Outcome]:
    """Check a simple device with each runtime bug, in a separate process."""
    from hardpoint.check import mutant_device

    for bug in mutant_device.BUGS:
        name = f"runtime: {bug}"
        if not re.search(pattern, name):
            continue
        start = time.monotonic()
        done = check_runtime(bug, thorough)
        wrong = [line.strip() for line in done.stdout.splitlines() if "failed" in line or "crashed" in line]
        found = done.returncode in FAILED and bool(wrong)
        yield Outcome(name, found, time.monotonic() - start, wrong[-1] if found else "")


def check_runtime(bug: str, thorough: bool = False) -> subprocess.CompletedProcess[str]:
    """Run modes abi and runtime on the simple device with a bug; an empty one is correct."""
    device = Path(__file__).with_name("mutant_device.py")
    environment = {**os.environ, "HARDPOINT_PLUGIN_PATH": str(device), "HARDPOINT_DEVICE": "mutant"}
    command = [sys.executable, "-m", "hardpoint.cli", "check", "abi", "runtime", "--timeout", "30"]
    return subprocess.run(
        [*command, *(["--thorough"] if thorough else [])],
        env={**environment, "MUTANT_BUG": bug},
        capture_output=True,
        text=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the outcomes; fails unless every bug was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--thorough", action="store_true", help="use the thorough mode")
    parser.add_argument("--only", default="", help="run only bugs whose name matches this regular expression")
    options = parser.parse_args(arguments)
    outcomes = []
    for run in (run_kernels, run_runtimes):
        for outcome in run(options.only, options.thorough):
            outcomes.append(outcome)
            mark = "found " if outcome.found else "MISSED"
            print(f"{mark} {outcome.name} ({outcome.seconds:.1f} s) {outcome.evidence[:140]}", flush=True)
    found = sum(outcome.found for outcome in outcomes)
    mode = "thorough" if options.thorough else "default"
    print(f"{mode} mode: {found} of {len(outcomes)} planted bugs found, {100 * found / max(len(outcomes), 1):.0f}%")
    return 0 if found == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
