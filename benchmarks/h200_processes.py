"""Process handling for h200.py."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a session leader and its whole session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
