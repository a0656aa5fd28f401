"""Tools for a running program: rules, dump, compare, watches for NaN and for memory that stays, record and replay.

All are switched at run time: by the functions of ``hardpoint`` of these names, which are context managers too, by
environment variables (at the start, or set by the running program), and by ``hardpoint run``. Nothing is rebuilt, and
what is off costs nothing: rules and tools leave their marks in each operator's own bits, where a call looks anyway.
"""

from __future__ import annotations

from hardpoint.toolbox.comparing import Compare, Mismatch, compare
from hardpoint.toolbox.dumping import Dump, dump
from hardpoint.toolbox.living import Alive, alive
from hardpoint.toolbox.nonfinite import Nonfinite, NotFinite, watch_nan
from hardpoint.toolbox.recording import Record, record
from hardpoint.toolbox.rules import Fallback, fallback
from hardpoint.toolbox.summary import summary

__all__ = [
    "Alive",
    "Compare",
    "Dump",
    "Fallback",
    "Mismatch",
    "Nonfinite",
    "NotFinite",
    "Record",
    "alive",
    "compare",
    "dump",
    "fallback",
    "record",
    "summary",
    "watch_nan",
]
