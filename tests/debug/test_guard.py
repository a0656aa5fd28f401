"""Guard zones: operators that write outside their memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from fork_server import run_python

import hardpoint
from hardpoint.check.mutants import kernel_mutants
from hardpoint.debug import Guard, OutOfBounds


def planted(name: str):
    return next(m for m in kernel_mutants() if m.name == name).plant("sim")


def test_correct_operators_have_no_findings() -> None:
    with Guard() as guard:
        x = torch.randn(1000, 7).to("sim")
        y = torch.nn.functional.gelu(x @ x.mT).sum()
        assert y.item() == pytest.approx(torch.nn.functional.gelu(x.cpu() @ x.cpu().mT).sum().item(), rel=1e-3)
        del x, y
    assert guard.findings == []
    assert not guard.failed()


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("add: writes one element past the end", "0 to 3 bytes past the end of a block of 4000 bytes"),
        ("mul: writes one element past the end", "0 to 3 bytes past the end of a block of 4000 bytes"),
    ],
)
def test_write_past_the_end_is_found(name: str, where: str) -> None:
    x = torch.ones(1000, device="sim")
    with planted(name), Guard() as guard:
        result = x + x if name.startswith("add") else x * x
    assert guard.failed()
    assert any(where in finding["problem"] for finding in guard.findings)
    assert result.cpu()[0] == (2 if name.startswith("add") else 1)


def test_scratch_memory_is_checked_when_it_is_freed() -> None:
    x = torch.ones(1000, device="sim")
    with planted("add: writes one element past the end"), Guard() as guard:
        assert (x + x).sum().item() == 2000  # the sum's argument is freed at once
    assert guard.findings


def test_stop_raises_in_the_program() -> None:
    x = torch.ones(1000, device="sim")
    with (
        planted("add: writes one element past the end"),
        pytest.raises(OutOfBounds, match="past the end"),
        Guard("stop"),
    ):
        x + x


def test_memory_outlives_the_tool() -> None:
    with Guard():
        x = torch.arange(5000, device="sim")
    before = torch.accelerator.memory_allocated()
    assert torch.equal((x + 1).cpu(), torch.arange(1, 5001))
    assert torch.equal(x.view(5, 1000)[3].cpu(), torch.arange(3000, 4000))
    del x
    assert torch.accelerator.memory_allocated() < before


def test_unknown_mode() -> None:
    with pytest.raises(ValueError, match="mode must be one of report, stop"):
        Guard("sometimes")


def test_run_with_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "from hardpoint.check.mutants import kernel_mutants\n"
        "bug = next(m for m in kernel_mutants() if m.name == 'add: writes one element past the end')\n"
        "kernel = bug.plant('sim')\n"
        "x = torch.ones(1000, device='sim')\n"
        "y = x + x\n"
    )
    command = ["-m", "hardpoint.cli", "run", "--guard", script]
    done = run_python(command, env={**os.environ, "HARDPOINT_DEVICE": "sim"}, text="torch")
    assert done.returncode == 1, done.stderr
    assert "bytes past the end of a block of 4000 bytes" in done.stderr
    assert "script.py:6" in done.stderr
    assert "wrote outside their memory" in done.stderr


def test_zones_are_off_outside_the_tool() -> None:
    with Guard():
        pass
    assert hardpoint._runtime.core.check_guard_zones(None) == []
