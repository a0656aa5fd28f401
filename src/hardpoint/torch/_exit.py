"""A clean end of the process: torch's backward threads are gone before the interpreter is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

#: Threads that are in the middle of a backward pass are left alone after this.
PATIENCE_SECONDS = 1.0


def end_backward_threads(adapter: Any) -> None:
    """Stop the thread that torch keeps for each device's backward pass, and wait until it has ended.

    Such a thread takes the interpreter's lock on its way out. Python ends threads that ask for it during its own
    shutdown, which C++ answers with an abort of the whole process.
    """
    adapter.stop_autograd()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _backward_threads() and time.monotonic() < deadline:
        time.sleep(0.001)


def _backward_threads() -> bool:
    for name in Path("/proc/self/task").glob("*/comm"):
        try:
            if name.read_text().startswith("pt_autograd_"):
                return True
        except OSError:
            continue  # it ended just now
    return False
