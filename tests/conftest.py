"""What every test may use: a program of its own in a fresh Python process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_collection_finish() -> None:
    """Modules stay: collections after a test look at what that test made."""
    gc.collect()
    gc.freeze()


RunPython = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_python(tmp_path: Path) -> RunPython:
    """Run a program in a fresh process; keyword arguments are environment variables (None takes one away)."""

    def run(
        program: str, *, check: bool = True, timeout: float = 100, **variables: str | None
    ) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HARDPOINT_")}
        environment["HARDPOINT_DEVICE"] = "sim"
        for key, value in variables.items():
            environment.pop(key, None)
            if value is not None:
                environment[key] = value
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(program))
        done = subprocess.run(
            [sys.executable, str(file)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=timeout
        )
        if check:
            assert done.returncode == 0, f"the program ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    return run
