"""A tool that an environment variable switches on and off, at the start or while the program runs."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Sequence

from hardpoint.toolbox import options
from hardpoint.toolbox.watching import Tool

#: Makes a tool of what comes first in the variable, and of the options after it. Raises ``ValueError`` for a mistake.
Make = Callable[[str, dict[str, str]], Tool]


class Switch:
    """What one variable says: ``HARDPOINT_DUMP='2; ops=mm'``. Nothing, or 0, is off."""

    def __init__(self, variable: str, names: Sequence[str], make: Make) -> None:
        self.variable = variable
        self.current: Tool | None = None
        self._names = names
        self._make = make
        self._at_exit = False

    def set(self, text: str | None) -> None:
        """What the variable says now, in place of what it said before, which tells how it went."""
        first, given = options.parse(text or "", self.variable, self._names)
        made = self._make(first, given) if first not in ("", "0") or given else None
        ended, self.current = self.current, made
        if ended is not None:
            ended.stop()
            if told := ended.summary():
                print("\n".join(f"[hardpoint] {line}" for line in told.splitlines()), file=sys.stderr)
        if not self._at_exit:
            self._at_exit = True
            atexit.register(self.set, None)
