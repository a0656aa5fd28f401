"""A program that mounts a device but runs on the CPU gets a line at exit, and details from the doctor."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from fork_server import run_python

from hardpoint.torch.usage import OperatorUse

# Most tests start a process that imports torch: too slow for make quick.
pytestmark = pytest.mark.slow

RunPython = Callable[..., CompletedProcess[str]]

ADDITIONS = """
    import torch
    x, y = torch.ones(4), torch.ones(4, device="sim")
    for _ in range({cpu}):
        x = torch.neg(x)
    for _ in range({device}):
        y = torch.neg(y)
    print(x.sum().item(), y.sum().item())
"""


@pytest.mark.parametrize(
    ("device", "cpu", "unused"),
    [(0, 5000, True), (0, 4999, False), (50, 5000, True), (51, 5000, False), (99, 10_000, True), (9000, 9000, False)],
)
def test_verdict(device: int, cpu: int, unused: bool) -> None:
    assert OperatorUse(device, cpu).unused == unused


@pytest.mark.parametrize(
    ("cpu", "device", "warned"), [(20_000, 0, True), (20_000, 50, True), (20_000, 1000, False), (500, 0, False)]
)
def test_line_at_exit(run_python: RunPython, cpu: int, device: int, warned: bool) -> None:
    done = run_python(ADDITIONS.format(cpu=cpu, device=device))
    assert ("the device 'sim' is mounted, but about" in done.stderr) == warned
    assert ("hardpoint doctor --program" in done.stderr) == warned


def test_line_can_be_turned_off(run_python: RunPython) -> None:
    assert run_python(ADDITIONS.format(cpu=20_000, device=0), HARDPOINT_USAGE_WARNING="0").stderr == ""


def test_estimate(run_python: RunPython) -> None:
    program = """
        import torch
        x = torch.ones(4)
        for _ in range(50_000):
            torch.neg(x)
        from hardpoint.torch import usage
        found = usage.operator_use()
        assert 0.7 * 50_000 < found.cpu < 1.4 * 50_000, found  # about 200 samples
        y = torch.ones(4, device="sim")
        for _ in range(50_000):
            torch.neg(y)
        assert usage.operator_use().device >= 50_000
        for _ in range(50_000):
            torch.neg(x)
        assert usage.operator_use().cpu == found.cpu  # the sample has ended: the device is in use
    """
    run_python(program)


def doctor(tmp_path: Path, program: str, *arguments: str) -> CompletedProcess[str]:
    script = tmp_path / "train.py"
    script.write_text(program)
    command = ["-m", "hardpoint.cli", "doctor", "--program", script, "--", *arguments]
    environment = {**os.environ, "HARDPOINT_DEVICE": "sim"}
    return run_python(command, cwd=tmp_path, env=environment, timeout=100, text="torch")


TRAINING = """
import sys
sys.path.insert(0, "site")
import torch
import helper_library
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
helper_library.fit(net, sys.argv[1])
"""
LIBRARY = """
import torch
__version__ = "3.2"

def fit(net, device):
    net.to(device)
    update = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(300):
        net(torch.ones(2, 4, device=device)).sum().backward()
        update.step()
        update.zero_grad()
"""


def test_doctor_names_the_library(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "helper_library.py").write_text(LIBRARY)
    done = doctor(tmp_path, TRAINING, "cpu")
    assert done.returncode == 1
    assert "operators ran on the CPU and 0 on the device" in done.stdout
    assert "Sequential: 300 calls on cpu, by helper_library 3.2 (fit), called from train.py, line 7" in done.stdout
    assert "SGD: 300 calls on cpu, by helper_library 3.2 (fit), called from train.py, line 7" in done.stdout
    assert done.stderr == ""

    done = doctor(tmp_path, TRAINING, "sim")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok   Sequential: 300 calls on sim" in done.stdout


def test_doctor_and_a_failing_program(tmp_path: Path) -> None:
    program = """
        import torch
        device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            torch.ones(2).cuda()
        except AssertionError:
            raise ValueError("broken")
    """
    done = doctor(tmp_path, textwrap.dedent(program).lstrip())
    assert done.returncode == 1
    assert "train.py ended with status 1" in done.stdout
    assert "ValueError: broken" in done.stderr
    text = " ".join(done.stdout.split())
    assert "fix CUDA: train.py, line 2 asks whether CUDA is available" in text
    assert "fix CUDA: train.py, line 4 uses CUDA" in text
    assert "take the device from torch.accelerator.current_accelerator(): it is sim here" in text
    missing = subprocess.run(
        [sys.executable, "-m", "hardpoint.cli", "doctor", "--program", "nowhere.py"], capture_output=True, text=True
    )
    assert missing.returncode == 2
    assert "there is no script 'nowhere.py'" in missing.stdout
