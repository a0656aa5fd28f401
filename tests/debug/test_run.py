"""``hardpoint run`` and ``hardpoint replay`` on the command line."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from fork_server import run_python
from plugin_tools import ROOT

# Each test starts processes that import torch.
pytestmark = pytest.mark.slow

PROGRAM = """
import sys

import torch

a = torch.ones(2, 2, device="sim")
print(sys.argv[1:], (a @ a).sum().item())
"""

WRONG = """
import hardpoint
import torch

hardpoint.kernel("mul", strided=True)(lambda out, x, y: None)
a = torch.ones(3, device="sim")
a * a
"""


def run(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HARDPOINT_")}
    environment |= {"HARDPOINT_DEVICE": "sim", "COLUMNS": "300", "TERM": "dumb"}
    return run_python(["-m", "hardpoint.cli", *arguments], cwd=folder, env=environment, text="torch")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return file


def test_an_unchanged_program_under_all_tools(program: Path):
    done = run(
        *("run", "--fallback", "mm", "--compare", "all", "--dump", "1; ops=mm; file=calls.jsonl", "--summary"),
        *(program, "--epochs", "3"),
        folder=program.parent,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['--epochs', '3'] 8.0\n"
    assert "compare aten::mm (cpu, program.py:7): right" in done.stderr
    assert "calls right, 0 wrong" in done.stderr
    assert [line.split()[:3] for line in done.stderr.splitlines() if line.startswith("aten::mm")] == [
        ["aten::mm", "cpu", "1"]
    ]
    [record] = [json.loads(line) for line in (program.parent / "calls.jsonl").read_text().splitlines()]
    assert record["tier"] == "cpu"


def test_invalid_options_are_reported_before_the_program_runs(program: Path):
    for arguments, message in (
        (("--fallback", "mm=what", program), "expected vendor"),
        (("--compare", "sometimes", program), "not 'sometimes'"),
        (("--dump", "9", program), "level must be 0 to 3"),
        (("nowhere.py",), "there is no script 'nowhere.py'"),
    ):
        done = run("run", *arguments, folder=program.parent)
        assert done.returncode == 2, done.stderr
        assert message in done.stdout
        assert "8.0" not in done.stdout


def test_a_wrong_kernel_is_named_saved_and_replayed(tmp_path: Path):
    (tmp_path / "wrong.py").write_text(WRONG)
    done = run("run", "--compare", "mismatches; save=calls", "wrong.py", folder=tmp_path)
    assert done.returncode == 1
    assert "compare aten::mul.Tensor (vendor, wrong.py:7): wrong" in done.stderr
    assert "hardpoint replay calls/aten.mul.Tensor-1.call" in done.stderr
    again = run("replay", "calls/aten.mul.Tensor-1.call", folder=tmp_path)
    assert again.returncode == 0, again.stderr  # the plug-in's kernel is correct
    assert "aten::mul.Tensor (vendor, wrong.py:7): right" in again.stdout  # where the program called it
    assert "us on sim" in again.stdout
    script = run("replay", "calls/aten.mul.Tensor-1.call", "--script", "report.py", folder=tmp_path)
    assert script.returncode == 0
    assert "aten::mul.Tensor" in (tmp_path / "report.py").read_text()
    assert run("replay", "wrong.py", folder=tmp_path).returncode == 2


def test_stopping_at_the_first(tmp_path: Path):
    (tmp_path / "wrong.py").write_text(WRONG)
    done = run("run", "--compare", "stop", "wrong.py", folder=tmp_path)
    assert done.returncode != 0
    assert "Mismatch: compare aten::mul.Tensor (vendor, wrong.py:7): wrong" in done.stderr
    assert 'wrong.py", line 7' in done.stderr


BAD = """
import torch

a = torch.ones(2, 3, device="sim")
(a - 1).log()
a @ a
"""


def test_nan_record_and_leaks(tmp_path: Path):
    (tmp_path / "bad.py").write_text(BAD)
    done = run(
        *("run", "--nan", "report; save=bad", "--record", "calls; calls=failing", "--leaks", "bad.py"),
        folder=tmp_path,
    )
    assert done.returncode == 1
    assert "nan: aten::log (portable, bad.py:5): produced Inf from finite inputs" in done.stderr
    assert "record: 1 calls in calls, 1 of them failing" in done.stderr
    assert "leaks: 1 storage (24 bytes)" in done.stderr
    assert "24 bytes in 1 storage: aten::fill_.Scalar (vendor, bad.py:4): 1 x float32 [2, 3]" in done.stderr
    again = run("replay", "bad", "calls/aten.mm-1.call", folder=tmp_path)
    assert again.returncode == 1
    assert "aten::log (portable" in again.stdout
    assert (
        "(adapter, bad.py:6): fails: same error as when saved: mat1 and mat2 shapes cannot be multiplied"
        in again.stdout
    )
    assert run("replay", "bad", "calls", "--script", "report.py", folder=tmp_path).returncode == 2


def test_the_commands_of_the_documentation(tmp_path: Path):
    """The commands for a diverging loss, the same on both pages."""
    (tmp_path / "train.py").write_text(WRONG)
    pages = [(ROOT / "docs" / "howto" / page).read_text() for page in ("tools.md", "tools.zh-CN.md")]
    told, translated = (re.search(r"```console\n(.*?)```", page, re.DOTALL)[1] for page in pages)
    assert told == translated
    commands = [shlex.split(line.removeprefix("$ ")) for line in told.splitlines()]
    ends = []
    for command in commands:
        assert command[0] == "hardpoint"
        ends.append(run(*command[1:], folder=tmp_path).returncode)
    # The second command finds the wrong kernel; replay and the last one run without it.
    assert ends == [0, 1, 0, 0, 0]
    assert (tmp_path / "report.py").exists()
