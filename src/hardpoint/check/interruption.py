"""Interrupting a run, so that it still reports what was done."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds during which further signals count as the same one: `timeout` signals both the process and its group.
TOGETHER = 2.0


@contextmanager
def reported() -> Iterator[None]:
    """SIGINT and SIGTERM raise :class:`KeyboardInterrupt` once; signals right after it are ignored.

    A signal that was already ignored stays ignored, as SIGINT is in the background of a shell script.
    """
    last = float("-inf")

    def handle(_number: int, _frame: Any) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if last - before > TOGETHER:
            raise KeyboardInterrupt

    previous: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                previous[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
