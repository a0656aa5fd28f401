"""Record: saves all calls, or failing ones, for replay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
import wrong_kernels
from fork_server import run_python

import hardpoint
from hardpoint.debug.record import environment
from hardpoint.debug.replay import find_files, load


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_all_calls_are_saved_and_replayed(tmp_path: Path):
    x = torch.randn(3, 4, device="sim", requires_grad=True)
    values = x.detach().cpu()
    with hardpoint.record(tmp_path) as recorded:
        (x @ x.mT).relu().sum().backward()
    assert "aten.mm-1.call" in names(tmp_path)
    assert "aten.mm-2.call" in names(tmp_path), "of the gradient"
    assert "aten.threshold_backward-1.call" in names(tmp_path)
    assert [str(f) for f in find_files([tmp_path])] == sorted(map(str, recorded.files))
    for file in recorded.files:
        [report], _, _ = load(file).replay("sim")
        assert report["verdict"] == "right"
    saved = load(tmp_path / "aten.mm-1.call").content
    assert torch.equal(saved["arguments"][0], values)
    assert "test_record.py:" in saved["location"]
    assert saved["tier"] == "vendor"


def test_inputs_are_as_they_were_before(tmp_path: Path):
    a, b = torch.ones(3, device="sim"), torch.full((3,), 2.0, device="sim")
    with wrong_kernels.input_written(), hardpoint.record(tmp_path):
        a.mul_(b)
    arguments = load(tmp_path / "aten.mul_.Tensor-1.call").content["arguments"]
    assert [t.tolist() for t in arguments] == [[1.0] * 3, [2.0] * 3]


def test_a_rule_and_limits(tmp_path: Path):
    a = torch.ones(4, 4, device="sim")
    with hardpoint.record(tmp_path / "few", ops="mm|add.*", limit=2) as recorded:
        for _ in range(3):
            a.exp()
            a @ a + a
    assert names(tmp_path / "few") == ["aten.add.Tensor-1.call", "aten.mm-1.call"]
    assert "2 calls in" in recorded.summary()
    assert "limit reached" in recorded.summary()
    with hardpoint.record(tmp_path / "small", max_bytes=300) as recorded:
        for _ in range(5):
            a @ a  # 64 bytes, once
            torch.ones(20, 20, device="sim") @ torch.ones(20, 2, device="sim")
    assert set(names(tmp_path / "small")) >= {"aten.mm-1.call", "aten.mm-2.call"}
    assert sum(file.stat().st_size > 0 for file in recorded.files) == len(recorded.files)
    assert recorded.skipped["beyond max_bytes"] > 5
    assert "not saved: " in recorded.summary()


def test_inner_calls_are_not_saved(tmp_path: Path):
    with hardpoint.fallback("silu=decomposition"), hardpoint.record(tmp_path):
        torch.nn.functional.silu(torch.ones(3, device="sim"))
    assert [name for name in names(tmp_path) if "fill" not in name] == ["aten.silu-1.call"]


def test_a_failing_call_fails_again(tmp_path: Path):
    a, b = torch.randn(2, 3, device="sim"), torch.randn(2, 3, device="sim")
    with hardpoint.record(tmp_path, calls="failing") as recorded:
        a + b
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            a @ b
    [file] = recorded.files
    assert file.name == "aten.mm-1.call"
    assert recorded.failing == 1
    assert torch.equal(load(file).content["arguments"][1], b.cpu())
    [report], spent, _ = load(file).replay("sim")
    assert report["verdict"] == "fails"
    assert report["reason"].startswith("same error as when saved: mat1 and mat2")
    assert "the CPU fails too" in report["reason"]
    assert spent != spent
    program = tmp_path / "report.py"
    program.write_text(load(file).script("sim"))
    assert len(program.read_text().splitlines()) <= 30
    done = run_python([program])
    assert done.returncode == 1
    assert "cannot be multiplied" in done.stderr


def test_a_failing_kernel_that_is_fixed(tmp_path: Path):
    @hardpoint.kernel("mul", strided=True)
    def mul(out, x, y):
        raise RuntimeError("no such luck")

    a = torch.ones(3, device="sim")
    with mul, hardpoint.record(tmp_path, calls="failing") as recorded:
        with pytest.raises(RuntimeError, match="no such luck"):
            a.mul_(a)
        [file] = recorded.files
        [report], _, _ = load(file).replay("sim")
        assert report["verdict"] == "fails"
        assert "same error as when saved" in report["reason"]
        assert "the CPU succeeds" in report["reason"]
    [report], _, _ = load(file).replay("sim")
    assert report["verdict"] == "right"
    assert "no longer fails" in report["reason"]


def test_invalid_options(tmp_path: Path):
    for given, message in (
        ({"calls": "some"}, "must be all or failing"),
        ({"limit": 0}, "must be positive"),
        ({"ops": "("}, "not a valid regular expression"),
    ):
        with pytest.raises(ValueError, match=message):
            hardpoint.record(tmp_path / "calls", **given)
    with pytest.raises(ValueError, match="cannot write to"):
        hardpoint.record("/dev/null/calls")
    with pytest.raises(ValueError, match="contains no saved call"):
        find_files([tmp_path])


def test_the_environment_of_a_running_program(tmp_path: Path, capfd, monkeypatch):
    a = torch.ones(2, 2, device="sim")
    monkeypatch.setenv("HARDPOINT_RECORD", f"{tmp_path}; ops=mm; limit=1")
    a @ a + a
    a @ a
    assert environment.tool.files == [tmp_path / "aten.mm-1.call"]
    os.environ["HARDPOINT_RECORD"] = "0"
    a @ a
    assert names(tmp_path) == ["aten.mm-1.call"]
    assert "record: 1 calls in" in capfd.readouterr().err
    with pytest.raises(ValueError, match="must start with a folder"):
        os.environ["HARDPOINT_RECORD"] = "; ops=mm"
