"""Small checks that are functions: how the modes ``abi``, ``runtime`` and ``perf`` list and run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hardpoint.check.report import Result

#: Takes the device's name; returns what it found. Fails by raising, is left out by raising Absent.
Check = Callable[[str], str]


class Absent(Exception):
    """The device does not have what is to be checked; the message says what is used instead."""


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
        """The checks that match."""
        return [name for name in self.checks if pattern(name)]

    def run(self, name: str, device: str, options: dict[str, Any], step: Callable[[str], None]) -> Result:
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
