"""Run programs in several processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
RANKS = Path(__file__).parent / "ranks.py"


@dataclass
class ExitedProcess:
    """Exit code and output of a process."""

    code: int
    text: str


def launch(
    program: str, ranks: int, *arguments: str, check: bool = True, timeout: float = 200, **variables: str
) -> list[ExitedProcess]:
    """Run a program from ``programs`` on this many ranks and wait for all of them."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HARDPOINT_", "TORCHELASTIC"))}
    environment |= {"HARDPOINT_DEVICE": "sim", "OMP_NUM_THREADS": "1", **variables}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", RANKS, PROGRAMS / program, folder, ranks, *arguments]
        starter = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, env=environment, text=True, start_new_session=True
        )
        try:
            codes = json.loads(starter.communicate(timeout=timeout)[0] or "[]")
        except subprocess.TimeoutExpired:
            codes = []
        finally:
            with suppress(ProcessLookupError):
                os.killpg(starter.pid, signal.SIGKILL)
            starter.wait()
        logs = [Path(folder, f"{rank}.log") for rank in range(ranks)]
        texts = [log.read_text() if log.exists() else "" for log in logs]
    told = "\n".join(f"--- rank {rank}:\n{text[-3000:]}" for rank, text in enumerate(texts))
    assert codes, f"{program} did not end in {timeout} s:\n{told}"
    if check:
        assert codes == [0] * ranks, f"{codes}\n{told}"
    return [ExitedProcess(code, text) for code, text in zip(codes, texts, strict=True)]
