"""Runs a sample of Triton's own tests on a device, from a checkout of Triton.

python tests/triton_backend/triton_own_tests.py CHECKOUT [--device sim] [--cases 4] [--only TEXT]
    [--file PATH] [--log FILE]

Prints how many cases passed, failed and were skipped, and the functions with failures. --log writes outcomes as they
come, one line of JSON each; a second run with the same file leaves out the cases that are in it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any


class Sample:
    """Keeps a few cases of each test function, the same in each run, and collects what failed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.outcomes: dict[str, tuple[str, str]] = {}
        if options.log and options.log.exists():
            for line in options.log.read_text().splitlines():
                name, outcome, reason = json.loads(line)
                self.outcomes[name] = outcome, reason

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        groups: defaultdict[str, list[Any]] = defaultdict(list)
        for item in items:
            if self.options.only in item.originalname:
                groups[item.originalname].append(item)
        chosen = []
        for name, group in groups.items():
            chosen += random.Random(name).sample(group, min(self.options.cases, len(group)))
        items[:] = [item for item in chosen if item.name not in self.outcomes]

    def pytest_runtest_logstart(self, location: Any) -> None:
        # A crash of the process leaves this line behind.
        self._note(location[2], "crashed", "")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        reason = ""
        if report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message if crash else str(report.longrepr)
        elif report.outcome == "skipped":
            reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else "expected failure"
        self._note(report.location[2], report.outcome, reason[:1000])

    def _note(self, name: str, outcome: str, reason: str) -> None:
        self.outcomes[name] = outcome, reason
        if self.options.log:
            with self.options.log.open("a") as file:
                file.write(json.dumps([name, outcome, reason]) + "\n")

    def report(self) -> None:
        """Print the figures."""
        failed: defaultdict[str, list[str]] = defaultdict(list)
        for name, (outcome, reason) in self.outcomes.items():
            if outcome in ("failed", "crashed"):
                failed[name.partition("[")[0]].append(f"{outcome}: {reason}")
        for name, messages in failed.items():
            print(f"{name}: {len(messages)} {messages[0].splitlines()[0]}")
        reasons = Counter(reason for outcome, reason in self.outcomes.values() if outcome == "skipped")
        for reason, count in reasons.most_common():
            print(f"skipped {count}: {reason}")
        print(dict(Counter(outcome for outcome, _ in self.outcomes.values())))


def main() -> None:
    """Run the tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--device", default="sim")
    parser.add_argument("--cases", type=int, default=4, help="cases of each test function")
    parser.add_argument("--only", default="", help="only functions whose name contains this text")
    parser.add_argument("--file", default="unit/language/test_core.py")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one case")
    options = parser.parse_args()
    os.environ["HARDPOINT_DEVICE"] = options.device
    import pytest

    sample = Sample(options)
    root = (options.checkout / "python" / "test").resolve()
    flags = [
        f"--rootdir={root}",
        f"--confcutdir={root}",
        "-q",
        "--no-header",
        "--tb=no",
        f"--timeout={options.timeout}",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:faulthandler",
    ]
    pytest.main([*flags, f"--device={options.device}", str(root / options.file)], [sample])
    sample.report()


if __name__ == "__main__":
    sys.path.pop(0)  # this folder has a conftest.py of its own
    main()
