"""Checks written as functions, for the modes ``abi`` and ``runtime``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hardpoint.check.report import Result, Step

#: Takes the device name and returns a finding. Raises on failure, or Absent to skip.
Check = Callable[[str], str]


class Absent(Exception):
    """The device lacks the feature; the message names the substitute."""


class Cases:
    """The checks of one mode, by name."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.checks: dict[str, Check] = {}

    def __call__(self, check: Check) -> Check:
        """Add a check under its function's name."""
        self.checks[check.__name__.strip("_")] = check
        return check

    def names(self, pattern: Callable[[str], bool]) -> list[str]:
        """Names of the checks that match."""
        return [name for name in self.checks if pattern(name)]

    def run(self, name: str, device: str, options: dict[str, Any], step: Step) -> Result:
        """Run one check."""
        step(name)
        try:
            return Result(self.mode, name, "passed", self.checks[name](device))
        except Absent as reason:
            return Result(self.mode, name, "not tested", str(reason))
        except Exception as error:
            text = str(error) or "an assertion failed"
            return Result(self.mode, name, "failed", failure=f"{type(error).__name__}: {text}")


def expect(condition: object, message: str) -> None:
    """Fail with a message; unlike ``assert``, also under ``python -O``."""
    if not condition:
        raise AssertionError(message)
