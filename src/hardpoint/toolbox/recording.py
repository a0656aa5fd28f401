"""Record: calls are saved, each in one file with its inputs, for ``hardpoint replay``."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

from hardpoint.toolbox import options, saved_calls, switches, watching, writing

#: all: every call; failing: those that raise.
CALLS = ("all", "failing")
#: Files after which no more are written, and bytes of tensors in all of them.
LIMIT = 100
MAX_BYTES = 1 << 30


class Record(watching.Tool):
    """Save calls with their inputs in a folder, from the next operator on, for ``hardpoint replay``.

    ``ops``: only these, as in rules for fallback. ``calls``: ``all``, or ``failing`` for those that raise. No more than
    ``limit`` files are written, of ``max_bytes`` bytes of inputs. Parts of a call are not saved.
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
            raise ValueError(f"record saves {' or '.join(CALLS)} calls, not '{calls}'")
        if limit < 1 or max_bytes < 1:
            raise ValueError(f"record needs limits above 0, not limit={limit}, max_bytes={max_bytes}")
        super().__init__(options.patterns(ops))
        self.folder = writing.folder("record", folder)
        self.calls = calls
        self.limit = limit
        self.max_bytes = max_bytes
        #: What was written, in order.
        self.files: list[Path] = []
        self.failing = 0
        #: Calls that were not saved, by the reason.
        self.left_out: Counter[str] = Counter()
        self._bytes = 0
        self._numbers: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.start()

    def begin(self, call: watching.Call) -> Any:
        """Copy the inputs, or keep what the call will write."""
        if watching.inside(self):
            return None
        kept = call.keep(self.max_bytes - self._bytes, copy=self.calls == "all")
        return self._leave_out(kept.reason) if kept.reason else kept

    def end(self, call: watching.Call, state: Any) -> None:
        """Save the call, unless only failing ones are wanted."""
        if state is not None and self.calls == "all":
            self._save(call, state, "")

    def fail(self, call: watching.Call, state: Any, message: str) -> None:
        """Save a call that raised."""
        if state is None:
            return
        try:
            self._save(call, state, message or "raised")
        except RuntimeError:  # of the device, which the program is to hear of as it was
            self._leave_out("could not be copied")

    def _leave_out(self, reason: str) -> None:
        with self._lock:
            self.left_out[reason] += 1

    def _save(self, call: watching.Call, kept: watching.Kept, error: str) -> None:
        with self._lock:
            if len(self.files) >= self.limit:
                return
            self._bytes += kept.bytes()
            self._numbers[call.name] += 1
            path = writing.call_file(self.folder, call.name, self._numbers[call.name])
            self.files.append(path)
            self.failing += bool(error)
            full = len(self.files) >= self.limit
        kept.save(path, {"place": str(call.place), "tier": call.tier, "error": saved_calls.first_line(error)})
        if full:
            self.stop()  # nothing else is to be paid for

    def summary(self) -> str:
        """How it went, in one line."""
        left_out = ", ".join(f"{count} {reason}" for reason, count in self.left_out.items())
        return (
            f"record: {len(self.files)} calls in {self.folder}, {self.failing} of them failing"
            + (", which is the limit" if len(self.files) >= self.limit else "")
            + (f"; not saved: {left_out}" if left_out else "")
        )


record = Record


def _from_environment(folder: str, given: dict[str, str]) -> Record:
    if folder in ("", "0"):
        raise ValueError("HARDPOINT_RECORD starts with a folder: 'calls; ops=mm'")
    return Record(
        folder,
        ops=given.get("ops", ""),
        calls=given.get("calls", "all"),
        limit=options.number(given, "limit", LIMIT, "HARDPOINT_RECORD"),
        max_bytes=options.number(given, "max_bytes", MAX_BYTES, "HARDPOINT_RECORD"),
    )


#: ``calls``, or ``calls; ops=mm|conv.*; calls=failing; limit=10``.
environment = switches.Switch("HARDPOINT_RECORD", ("ops", "calls", "limit", "max_bytes"), _from_environment)
