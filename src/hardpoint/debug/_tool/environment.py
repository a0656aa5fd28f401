"""Applies the tools' environment variables, at start and whenever the running program changes them.

Python raises an audit event when ``os.environ`` changes. Listening to it makes a change effective at the next operator
without reading the environment on every call.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from hardpoint.debug.compare import environment as compare_variable
from hardpoint.debug.dump import environment as dump_variable
from hardpoint.debug.fallback import set_environment as set_fallback
from hardpoint.debug.guard import environment as guard_variable
from hardpoint.debug.leaks import environment as leaks_variable
from hardpoint.debug.nan import environment as nan_variable
from hardpoint.debug.record import environment as record_variable
from hardpoint.debug.report import environment as report_variable
from hardpoint.debug.trace import environment as trace_variable

#: The variables that start a tool. The trace starts before the report, which uses it.
TOOL_VARIABLES = (
    *(dump_variable, compare_variable, nan_variable, record_variable, leaks_variable, guard_variable),
    *(trace_variable, report_variable),
)
#: All variables, and the functions that apply their values.
VARIABLES: dict[str, Callable[[str | None], None]] = {
    "HARDPOINT_FALLBACK": set_fallback,
    **{variable.name: variable.set for variable in TOOL_VARIABLES},
}


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("os.putenv", "os.unsetenv"):
        apply = VARIABLES.get(os.fsdecode(arguments[0]))
        if apply is not None:
            # An invalid value raises in the assignment itself, and the variable keeps its old value.
            apply(os.fsdecode(arguments[1]) if event == "os.putenv" else None)


def start() -> None:
    """Apply the variables, and follow their changes until the process ends."""
    for variable, apply in VARIABLES.items():
        if value := os.environ.get(variable):
            try:
                apply(value)
            except ValueError as error:
                raise SystemExit(f"hardpoint: {variable}: {error}") from None
    sys.addaudithook(_audit)
