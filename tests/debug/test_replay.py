"""Replay: re-runs a saved wrong call, and writes it as a script."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import wrong_kernels
from fork_server import run_python

import hardpoint
from hardpoint.debug._saved.torch import save
from hardpoint.debug.replay import load


def saved(folder: Path, program) -> Path:
    with hardpoint.compare(save=folder):
        program()
    [file] = folder.iterdir()
    return file


def test_a_wrong_call_is_saved_and_found_again(tmp_path: Path):
    base = torch.randn(30, device="sim")
    a, b = base.as_strided((4, 3), (1, 5), 2), torch.randn(4, 3, device="sim")
    with wrong_kernels.strides_ignored():
        file = saved(tmp_path, lambda: a * b)
        assert file.name == "aten.mul.Tensor-1.call"
        again = load(file).arguments_on("sim")
        assert again[0].stride() == (1, 5)
        assert again[0].cpu().equal(a.cpu())
        [report], spent, native = load(file).replay("sim")
        assert report["verdict"] == "wrong"
        assert report["tier"] == "vendor"
        assert spent > 0
        assert native > 0
    [report], _, _ = load(file).replay("sim")
    assert report["verdict"] == "right", "the kernel is fixed"


def test_inputs_are_saved_as_before_the_call(tmp_path: Path):
    a, b = torch.randn(3, device="sim"), torch.randn(3, device="sim")
    before = b.cpu()
    with wrong_kernels.input_written():
        file = saved(tmp_path, lambda: a.mul_(b))
    assert torch.equal(load(file).content["arguments"][1], before)
    assert not torch.equal(b.cpu(), before)


def test_shared_memory_and_numbers_come_back(tmp_path: Path):
    @hardpoint.kernel("add", strided=True)
    def add(out, x, y, alpha):
        pass

    base = torch.arange(8.0, device="sim")
    with add:
        file = saved(tmp_path, lambda: base[:4].add_(base[4:]))
    first, second, alpha = load(file).arguments_on("sim")
    assert alpha == 1
    assert second.data_ptr() - first.data_ptr() == 16
    [report], _, _ = load(file).replay("sim")
    assert report["verdict"] == "right"


def test_a_gradient_is_saved(tmp_path: Path):
    x = torch.randn(4, device="sim", requires_grad=True)
    with wrong_kernels.backward_wrong():
        file = saved(tmp_path, lambda: x.relu().sum().backward())
        [report], _, _ = load(file).replay("sim")
    assert (report["operator"], report["verdict"]) == ("aten::threshold_backward", "wrong")


def test_a_script_for_a_bug_report(tmp_path: Path):
    x = torch.randn(2, 3, 5, 5, device="sim", requires_grad=True)
    w = torch.randn(4, 3, 3, 3, device="sim", requires_grad=True)

    @hardpoint.kernel("convolution_backward_weight")
    def convolution_backward_weight(out, *_):
        wrong_kernels.view(out).zero_()

    calls = tmp_path / "calls"
    with convolution_backward_weight:
        file = saved(calls, lambda: torch.nn.functional.conv2d(x, w).sum().backward())
    assert file.name == "aten.convolution_backward_overrideable-1.call"
    program = tmp_path / "report.py"
    program.write_text(load(file).script("sim"))
    assert len(program.read_text().splitlines()) <= 30
    file.unlink()  # the script needs no other file
    done = run_python([program])
    assert done.returncode == 0, done.stderr  # that process has no wrong kernel
    wrong = program.read_text().replace(
        "import hardpoint\n",
        "import hardpoint\nhardpoint.kernel('convolution_backward_weight')(lambda out, *_: None)\n",
        1,
    )
    program.write_text(wrong)
    done = run_python([program])
    assert done.returncode == 1
    assert "not close" in done.stderr or "not equal" in done.stderr


def test_invalid_files(tmp_path: Path):
    with pytest.raises(ValueError, match="cannot be read"):
        load(tmp_path / "missing.call")
    (tmp_path / "text.call").write_text("hello")
    with pytest.raises(ValueError, match="is not a saved call"):
        load(tmp_path / "text.call")
    torch.save({"a": 1}, tmp_path / "other.call")
    with pytest.raises(ValueError, match="is not a saved call"):
        load(tmp_path / "other.call")
    file = save(tmp_path / "old.call", "aten::neg", [torch.ones(2)], ["sim"], {})
    content = torch.load(file)
    torch.save({**content, "version": 99}, file)
    with pytest.raises(ValueError, match="has format version 99; this Hardpoint reads version 2"):
        load(file)
    torch.save({**content, "operator": "aten::no_such_thing"}, file)
    with pytest.raises(ValueError, match="has no aten::no_such_thing"):
        load(file)
    torch.save({**content, "arguments": []}, file)
    with pytest.raises(ValueError, match="had other arguments"):
        load(file)
