"""Programs of several processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


@dataclass
class Ended:
    """A process that has ended."""

    code: int
    text: str


def launch(
    program: str, ranks: int, *arguments: str, check: bool = True, timeout: float = 200, **variables: str
) -> list[Ended]:
    """Run a program of the folder ``programs`` in as many processes, and wait for all of them."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("HARDPOINT_", "TORCHELASTIC"))}
        environment |= {"HARDPOINT_DEVICE": "sim", "OMP_NUM_THREADS": "1", "TEST_STORE": f"{folder}/store", **variables}
        command = [sys.executable, "-W", "ignore", str(PROGRAMS / program), *arguments]
        logs = [opened.enter_context(open(f"{folder}/{rank}.log", "w+")) for rank in range(ranks)]
        processes = [
            subprocess.Popen(
                command,
                stdout=logs[rank],
                stderr=subprocess.STDOUT,
                env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)},
            )
            for rank in range(ranks)
        ]
        end = time.monotonic() + timeout
        try:
            codes = [process.wait(max(0.1, end - time.monotonic())) for process in processes]
        except subprocess.TimeoutExpired:
            codes = []
        finally:
            for process in processes:
                process.kill()
                process.wait()
        ended = []
        for log, process in zip(logs, processes, strict=True):
            log.seek(0)
            ended.append(Ended(process.returncode, log.read()))
        told = "\n".join(f"--- rank {rank}: {e.code}\n{e.text[-3000:]}" for rank, e in enumerate(ended))
        assert codes, f"{program} did not end in {timeout} s:\n{told}"
        if check:
            assert codes == [0] * ranks, told
        return ended
