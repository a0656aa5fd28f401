"""Names of tests, and the log, for processes that run a framework's test files.

A process appends one JSON object per line to its log: ``{"tests": number}`` or ``{"planned": [test, ...]}`` once the
file is imported, ``{"start": test}`` before each test, ``{"test": ..., "status": ..., "detail": ...}`` after it, and at
the end ``{"tiers": ...}``.
"""

# ruff: noqa: D102 (unittest documents the methods of a result)

from __future__ import annotations

import json
import re
import unittest
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO

_FIXTURE = re.compile(r"^(setUp|tearDown)(Class|Module) \((.*)\)$")


def owner(test: str) -> str:
    """The class of a test or of a failed class fixture."""
    fixture = _FIXTURE.match(test)
    return fixture.group(3).removeprefix("__main__.") if fixture else test.rpartition(".")[0]


def is_fixture(test: str) -> bool:
    """Whether this is the failure of a class or module fixture."""
    return _FIXTURE.match(test) is not None


def name_of(test: unittest.TestCase) -> str:
    """``CLASS.TEST``."""
    return test.id().removeprefix("__main__.")


def tests_of(suite: Iterable[Any]) -> Iterable[unittest.TestCase]:
    """The tests of a suite and of the suites in it."""
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from tests_of(item)
        else:
            yield item


class Log(unittest.TestResult):
    """Writes each result at once, so that a crash loses none."""

    def __init__(
        self,
        stream: TextIO,
        *,
        before: Callable[[], None] = lambda: None,
        name: Callable[[unittest.TestCase], str] = name_of,
        settle: Callable[[], str] = lambda: "",
    ) -> None:
        """``before`` runs before each test. ``settle`` runs after it and returns an error that the test left behind."""
        super().__init__()
        self._stream = stream
        self._before = before
        self._name = name
        self._settle = settle

    def write(self, **record: Any) -> None:
        """Append a record."""
        self._stream.write(json.dumps(record) + "\n")
        self._stream.flush()

    def write_tiers(self, counters: Mapping[str, Mapping[Any, int]]) -> None:
        """Append how many calls each tier served."""
        tiers: Counter[str] = Counter()
        cpu: Counter[str] = Counter()
        for operator, counts in counters.items():
            tiers.update(counts)
            if counts.get("cpu"):
                cpu[operator] += counts["cpu"]
        self.write(tiers=tiers, cpu=cpu)

    def _add(self, test: unittest.TestCase, status: str, detail: str = "") -> None:
        late = self._settle()
        if late and status == "passed":
            status, detail = "failed", late
        # A skipped subtest stands for its test, which unittest then does not report. `test_case` may also be a
        # test's own method.
        skipped = getattr(test, "test_case", test)
        if isinstance(skipped, unittest.TestCase):
            test = skipped
        self.write(test=self._name(test), status=status, detail=detail)

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.write(start=self._name(test))
        self._before()

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._add(test, "passed")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._add(test, "failed", self._message(err))

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._add(test, "failed", self._message(err))

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self._add(test, "failed", self._message(err))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._add(test, "skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._add(test, "passed")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._add(test, "failed", "unexpected success")

    @staticmethod
    def _message(err: Any) -> str:
        text = str(err[1]).partition("\nTo execute this test, run")[0]  # PyTorch's, with a name that differs here
        lines = [line for line in text.strip().splitlines() if line.strip()]
        # Paddle puts the message last, numpy the figures.
        return f"{err[0].__name__}: " + "\n".join([*lines[:2], *lines[2:][-6:]])[:1200]
