"""Tools for a running program: fallback rules, dump, compare, NaN and leak detection, record and replay, traces.

Each tool is a context manager and has a module here; the functions that start them, such as ``hardpoint.compare``, are
exported from ``hardpoint``. Environment variables and ``hardpoint run`` turn them on for an unchanged program. All of
them switch at run time, without a rebuild. A disabled tool costs one byte load per call.
"""

from __future__ import annotations

from hardpoint.debug.compare import Compare, Mismatch
from hardpoint.debug.dump import Dump
from hardpoint.debug.fallback import Fallback
from hardpoint.debug.guard import Guard, OutOfBounds
from hardpoint.debug.leaks import Leaks
from hardpoint.debug.nan import NanWatch, NonFiniteError
from hardpoint.debug.record import Record
from hardpoint.debug.report import Report
from hardpoint.debug.trace import Trace

__all__ = [
    "Compare",
    "Dump",
    "Fallback",
    "Guard",
    "Leaks",
    "Mismatch",
    "NanWatch",
    "NonFiniteError",
    "OutOfBounds",
    "Record",
    "Report",
    "Trace",
]
