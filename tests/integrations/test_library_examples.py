"""The examples for libraries run on the device."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from library_tools import MISSING
from plugin_tools import ROOT

EXAMPLES = {"trainer": "accelerate", "lightning_net": "lightning", "lora": "peft", "diffusion": "diffusers"}


def run(*command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HARDPOINT_DEVICE")}
    done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_run() -> None:
    assert {path.stem for path in (ROOT / "examples" / "libraries").glob("*.py")} == {*EXAMPLES, "zero"}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str) -> None:
    pytest.importorskip(EXAMPLES[name], reason=MISSING)
    assert "on sim:0: " in run(str(ROOT / "examples" / "libraries" / f"{name}.py"))


@pytest.mark.slow
def test_example_with_two_ranks() -> None:
    pytest.importorskip("deepspeed", reason=MISSING)
    program = str(ROOT / "examples" / "libraries" / "zero.py")
    text = run("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", program)
    assert "2 processes, this one on sim:0: " in text
