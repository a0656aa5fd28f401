"""The programs quoted in docs/howto/graph.md."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "printed"), [("graph_training", " -> "), ("graph_vendor", "converted: scaled_sum -> kernel add")]
)
def test_example(name, printed):
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    environment = os.environ | {"HARDPOINT_DEVICE": "sim"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
