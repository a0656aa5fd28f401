"""Environment variables of the tools, at the start and whenever the running program sets them.

Python raises an audit event when ``os.environ`` changes. Listening to it makes the change take effect at the next
operator, and nothing ever reads the environment while operators run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from hardpoint.toolbox import comparing, dumping, living, nonfinite, recording, rules

#: Tools that a variable may have switched on.
SWITCHES = tuple(tool.environment for tool in (dumping, comparing, nonfinite, recording, living))
VARIABLES: dict[str, Callable[[str | None], None]] = {
    "HARDPOINT_FALLBACK": rules.set_environment,
    **{switch.variable: switch.set for switch in SWITCHES},
}


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("os.putenv", "os.unsetenv"):
        apply = VARIABLES.get(os.fsdecode(arguments[0]))
        if apply is not None:
            # A mistake raises in the statement that makes it, and the variable keeps its value.
            apply(os.fsdecode(arguments[1]) if event == "os.putenv" else None)


def start() -> None:
    """Follow the variables from now on, for the rest of the process."""
    for variable, apply in VARIABLES.items():
        if value := os.environ.get(variable):
            try:
                apply(value)
            except ValueError as error:
                raise SystemExit(f"hardpoint: {variable}: {error}") from None
    sys.addaudithook(_audit)
