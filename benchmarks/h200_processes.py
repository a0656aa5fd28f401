"""Processes that the other parts of h200.py start."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session, and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
