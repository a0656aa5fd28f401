"""Runs a sample of Triton's own tests on a device, from a checkout of Triton.

python tests/triton_backend/triton_own_tests.py CHECKOUT [--device sim] [--cases 4] [--only TEXT] [--file PATH]

Prints how many cases passed, failed and were skipped, and the functions with failures.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any


class Sample:
    """Keeps a few cases of each test function, the same in each run, and collects what failed."""

    def __init__(self, cases: int, only: str) -> None:
        self.cases, self.only = cases, only
        self.outcomes: Counter[str] = Counter()
        self.failed: defaultdict[str, list[str]] = defaultdict(list)
        self.skipped: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        groups: defaultdict[str, list[Any]] = defaultdict(list)
        for item in items:
            if self.only in item.originalname:
                groups[item.originalname].append(item)
        chosen = []
        for name, group in groups.items():
            chosen += random.Random(name).sample(group, min(self.cases, len(group)))
        items[:] = chosen

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.outcome] += 1
        if report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failed[report.location[2].partition("[")[0]].append(crash.message[:300] if crash else "")
        elif report.outcome == "skipped":
            self.skipped[str(report.longrepr[2])] += 1


def main() -> None:
    """Run the tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--device", default="sim")
    parser.add_argument("--cases", type=int, default=4, help="cases of each test function")
    parser.add_argument("--only", default="", help="only functions whose name contains this text")
    parser.add_argument("--file", default="unit/language/test_core.py")
    options = parser.parse_args()
    os.environ["HARDPOINT_DEVICE"] = options.device
    import pytest

    sample = Sample(options.cases, options.only)
    root = (options.checkout / "python" / "test").resolve()
    flags = [
        f"--rootdir={root}",
        f"--confcutdir={root}",
        "-q",
        "--no-header",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:faulthandler",
    ]
    pytest.main([*flags, f"--device={options.device}", str(root / options.file)], [sample])
    print(dict(sample.outcomes))
    for name, messages in sample.failed.items():
        print(f"{name}: {len(messages)} failed: {messages[0].splitlines()[0] if messages[0] else ''}")
    for reason, count in sample.skipped.most_common():
        print(f"skipped {count}: {reason}")


if __name__ == "__main__":
    sys.path.pop(0)  # this folder has a conftest.py of its own
    main()
