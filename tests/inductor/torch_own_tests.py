"""Runs Inductor's own tests on a device, from a checkout of PyTorch of the version that is installed.

python tests/inductor/torch_own_tests.py CHECKOUT [--device sim] [--every 1] [--only TEXT] [--file PATH] [--log FILE]

Prints how many tests passed, failed and were skipped, and the first line of each failure. --log writes outcomes as they
come, one line of JSON each; a second run with the same file leaves out the tests that are in it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any


class Outcomes:
    """Chooses the tests of the device, and collects their outcomes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.found: dict[str, tuple[str, str]] = {}
        if options.log and options.log.exists():
            for line in options.log.read_text().splitlines():
                name, outcome, reason = json.loads(line)
                self.found[name] = outcome, reason

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        only, without = self.options.only, self.options.without or " "
        mine = [item for item in items if self.options.cls in item.nodeid]
        mine = [item for item in mine if only in item.name and without not in item.name]
        items[:] = [item for item in mine[:: self.options.every] if item.name not in self.found]

    def pytest_runtest_logstart(self, location: Any) -> None:
        # A crash of the process leaves this line behind.
        self._note(location[2].rpartition(".")[2], "crashed", "")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        reason = ""
        if report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message if crash else str(report.longrepr)
        elif report.outcome == "skipped":
            reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else "expected failure"
        self._note(report.location[2].rpartition(".")[2], report.outcome, reason[:2000])

    def _note(self, name: str, outcome: str, reason: str) -> None:
        self.found[name] = outcome, reason
        if self.options.log:
            with self.options.log.open("a") as file:
                file.write(json.dumps([name, outcome, reason]) + "\n")

    def report(self) -> None:
        """Print the figures."""
        for name, (outcome, reason) in self.found.items():
            if outcome in ("failed", "crashed"):
                print(f"{name}: {outcome}: {reason.splitlines()[0] if reason else ''}")
        reasons = Counter(reason for outcome, reason in self.found.values() if outcome == "skipped")
        for reason, count in reasons.most_common():
            print(f"skipped {count}: {reason.splitlines()[0] if reason else ''}")
        print(dict(Counter(outcome for outcome, _ in self.found.values())))


def prepare() -> None:
    """Let tests that require torch.cuda or torch.xpu run for the mounted device."""
    import torch._inductor.compile_fx  # noqa: F401  (registers the device)
    from torch.testing._internal import inductor_utils

    for name in ("HAS_GPU", "HAS_GPU_AND_TRITON", "HAS_TRITON", "RUN_GPU"):
        setattr(inductor_utils, name, True)
    inductor_utils.RUN_CPU = False


def main() -> None:
    """Run the tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--device", default="sim")
    parser.add_argument("--every", type=int, default=1, help="run every n-th test")
    parser.add_argument("--only", default="", help="only tests whose name contains this text")
    parser.add_argument("--without", default="aoti_eager", help="no tests whose name contains this text")
    parser.add_argument("--cls", default="GPUTests::", help="only classes whose name contains this text")
    parser.add_argument("--file", default="inductor/test_torchinductor.py")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one test")
    parser.add_argument("--tracebacks", action="store_true")
    options = parser.parse_args()
    os.environ["HARDPOINT_DEVICE"] = options.device
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    import pytest

    prepare()
    outcomes = Outcomes(options)
    root = (options.checkout / "test").resolve()
    sys.path.insert(0, str(root))
    flags = [
        f"--rootdir={root}",
        f"--confcutdir={root / 'inductor'}",
        "-q",
        "--no-header",
        "--tb=long" if options.tracebacks else "--tb=short",
        *(() if options.tracebacks else ("--show-capture=no",)),
        f"--timeout={options.timeout}",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:faulthandler",
        "-W",
        "ignore",
    ]
    pytest.main([*flags, str(root / options.file)], [outcomes])
    outcomes.report()


if __name__ == "__main__":
    sys.path.pop(0)  # this folder has a conftest.py of its own
    main()
