"""Stop torch's backward threads before the interpreter shuts down."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

#: How long to wait for threads in a backward pass.
PATIENCE_SECONDS = 1.0


def end_backward_threads(adapter: Any) -> None:
    """Stop torch's per-device backward threads and wait for them.

    An exiting thread takes the GIL. During shutdown Python terminates threads that wait for it, and C++ then aborts the
    process.
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
            continue  # just ended
    return False
