"""Record: saves calls and their inputs, one file each, for ``hardpoint replay``."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

from hardpoint.debug._calls.base import Call, SavedInputs
from hardpoint.debug._saved.files import call_file, create_folder, first_line, write_call
from hardpoint.debug._tool.base import Tool, inside_call
from hardpoint.debug._tool.options import EnvironmentVariable, parse_patterns
from hardpoint.debug._tool.paths import shown

#: all: every call; failing: those that raise.
CALLS = ("all", "failing")
#: Number of files, and total bytes of their inputs.
LIMIT = 100
MAX_BYTES = 1 << 30


class Record(Tool[SavedInputs]):
    """Save calls with their inputs in a folder for ``hardpoint replay``.

    ``ops`` selects operators, written like fallback rules. ``calls``: ``all``, or ``failing`` for those that raise.
    Writes at most ``limit`` files and ``max_bytes`` bytes of inputs. Operators inside a saved call are not saved.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        ops: str = "",
        calls: str = "all",
        limit: int = LIMIT,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        if calls not in CALLS:
            raise ValueError(f"record: calls must be {' or '.join(CALLS)}, not '{calls}'")
        if limit < 1 or max_bytes < 1:
            raise ValueError(f"record: limit and max_bytes must be positive, not {limit} and {max_bytes}")
        super().__init__(parse_patterns(ops))
        self.folder = create_folder("record", folder)
        self.calls = calls
        self.limit = limit
        self.max_bytes = max_bytes
        #: Files in the order of the calls.
        self.files: list[Path] = []
        self.failing = 0
        #: Calls that were not saved, by reason.
        self.skipped: Counter[str] = Counter()
        self._bytes = 0
        self._numbers: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.start()

    def begin(self, call: Call) -> SavedInputs | None:
        """Copy the inputs; for failing calls, only what the call overwrites."""
        if inside_call(self):
            return None
        if call.captured:
            self._skip("in a graph capture")
            return None
        inputs = call.save_inputs(self.max_bytes - self._bytes, copy=self.calls == "all")
        if inputs.reason:
            self._skip(inputs.reason)
            return None
        return inputs

    def end(self, call: Call, state: SavedInputs | None) -> None:
        """Save the call if all are wanted."""
        if state is not None and self.calls == "all":
            self._save(call, state, "")

    def fail(self, call: Call, state: SavedInputs | None, message: str) -> None:
        """Save a call that raised."""
        if state is None:
            return
        self._save(call, state, message or "raised")

    def _skip(self, reason: str) -> None:
        with self._lock:
            self.skipped[reason] += 1

    def _save(self, call: Call, inputs: SavedInputs, error: str) -> None:
        with self._lock:
            if len(self.files) >= self.limit:
                return
            self._bytes += inputs.bytes()
            self._numbers[call.name] += 1
            path = call_file(self.folder, call.name, self._numbers[call.name])
            self.files.append(path)
            self.failing += bool(error)
            full = len(self.files) >= self.limit
        report = {"location": str(call.location), "tier": call.tier, "error": first_line(error)}
        # An error here, also one of the device, must not replace the one that the program is about to see.
        if not write_call("record", path, lambda file: inputs.save(file, report)):
            with self._lock:
                self.files.remove(path)
                self.failing -= bool(error)
                self.skipped["could not be written"] += 1
            full = not error  # the disk will not become empty
        if full:
            self.stop()

    def summary(self) -> str:
        """The number of saved calls on one line."""
        skipped = ", ".join(f"{count} {reason}" for reason, count in self.skipped.items())
        return (
            f"record: {len(self.files)} calls in {shown(self.folder)}, {self.failing} of them failing"
            + (", limit reached" if len(self.files) >= self.limit else "")
            + (f"; not saved: {skipped}" if skipped else "")
        )


record = Record
"""Create and start :class:`Record`; takes the same arguments."""


def _from_environment(folder: str, options: dict[str, Any]) -> Record:
    if folder in ("", "0"):
        raise ValueError("HARDPOINT_RECORD must start with a folder: 'calls; ops=mm'")
    return Record(folder, **options)


#: ``calls``, or ``calls; ops=mm|conv.*; calls=failing; limit=10``.
environment = EnvironmentVariable(
    "HARDPOINT_RECORD", {"ops": str, "calls": str, "limit": int, "max_bytes": int}, _from_environment
)
