"""Options in one string, such as ``2; ops=mm,bmm; file=calls.jsonl``, and the environment variables that hold them."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from typing import Any

from hardpoint.debug._tool.base import Tool
from hardpoint.debug._tool.reports import print_lines
from hardpoint.debug.fallback import parse as parse_rules

#: Creates a tool from the leading value and the options after it. Raises ``ValueError`` for an invalid one.
Factory = Callable[[str, dict[str, Any]], Tool[Any]]
#: Names of options, each with ``str``, or ``int`` for a non-negative integer.
OptionTypes = Mapping[str, type]


def parse_options(text: str, owner: str, types: OptionTypes) -> tuple[str, dict[str, Any]]:
    """The leading value and the options after it. Raises ``ValueError`` for an invalid option."""
    leading, options = "", {}
    for number, item in enumerate(field.strip() for field in text.split(";")):
        name, equals, value = (field.strip() for field in item.partition("="))
        if number == 0 and not equals:
            leading = item
        elif not item:
            continue
        elif not equals or name not in types:
            raise ValueError(f"{owner} has no option '{item}'; the options are {', '.join(f'{n}=' for n in types)}")
        else:
            options[name] = value
    for name, value in options.items():
        if types[name] is int and not value.isdigit():
            raise ValueError(f"{owner}: {name} must be a non-negative integer, not '{value}'")
    return leading, {name: types[name](value) for name, value in options.items()}


def parse_patterns(text: str) -> tuple[str, ...]:
    """Operators to observe, written like fallback rules."""
    return tuple(pattern for pattern, _ in parse_rules(text))


class EnvironmentVariable:
    """A variable that turns a tool on and off: ``HARDPOINT_DUMP='2; ops=mm'``. Empty or 0 means off."""

    def __init__(self, name: str, options: OptionTypes, create: Factory) -> None:
        self.name = name
        self.tool: Tool[Any] | None = None
        self._options = options
        self._create = create
        self._registered = False

    def set(self, text: str | None) -> None:
        """Apply a new value. The tool of the old value is stopped, and its summary is printed."""
        leading, options = parse_options(text or "", self.name, self._options)
        created = self._create(leading, options) if leading not in ("", "0") or options else None
        stopped, self.tool = self.tool, created
        if stopped is not None:
            stopped.stop()
            if summary := stopped.summary():
                print_lines(summary)
        if not self._registered:
            self._registered = True
            atexit.register(self.set, None)
