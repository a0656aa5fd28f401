"""torchrun restarts a job that loses a process, and the result is the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from launcher import PROGRAMS
from plugin_tools import ROOT


def torchrun(folder: Path, fate: str, way: str) -> tuple[str, dict[str, torch.Tensor]]:
    folder.mkdir()
    environment = os.environ | {"HARDPOINT_DEVICE": "sim", "HARDPOINT_COLLECTIVES": way, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    command += [str(PROGRAMS / "elastic.py"), str(folder), str(folder / "weights.pt"), fate]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, torch.load(folder / "weights.pt")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["plugin", "host"])
def test_restart_after_losing_a_process(tmp_path: Path, way: str) -> None:
    text, weights = torchrun(tmp_path / "whole", "go", way)
    assert "rank 0 began at step 0" in text
    text, again = torchrun(tmp_path / "killed", "kill", way)
    assert "rank 0 began at step 4" in text
    for name, value in weights.items():
        torch.testing.assert_close(again[name], value, rtol=0, atol=0)


def test_example() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command.append(str(ROOT / "examples" / "distributed_training.py"))
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "2 processes: " in done.stdout
