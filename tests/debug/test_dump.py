"""Dump: the fields written for each call."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
import torch

import hardpoint


def records(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_levels(tmp_path: Path):
    a = torch.arange(6.0, device="sim").view(2, 3)
    for level in (1, 2, 3):
        with hardpoint.dump(level, file=tmp_path / f"{level}.jsonl"):
            a.t() @ a
            torch.add(a, 2)
        mm, add = records(tmp_path / f"{level}.jsonl")
        assert (mm["operator"], mm["tier"], mm["kernel"]) == ("aten::mm", "vendor", "matmul")
        assert add["operator"] == "aten::add.Tensor"
        assert "test_dump.py:" in mm["location"]
        assert ("arguments" in mm) == (level > 1)
        if level == 1:
            continue
        assert mm["arguments"]["self"]["sizes"] == [3, 2]
        assert mm["arguments"]["self"]["strides"] == [1, 3]
        assert mm["arguments"]["self"]["view"] is True
        assert mm["arguments"]["self"]["dtype"] == "float32"
        assert mm["arguments"]["self"]["device"] == "sim:0"
        assert int(mm["arguments"]["self"]["data_ptr"], 16) == a.data_ptr()
        assert mm["results"]["result"]["numel"] == 9
        assert add["arguments"]["alpha"] == 1
        assert ("values" in mm["arguments"]["self"]) == (level == 3)
    assert mm["arguments"]["mat2"]["values"] == a.tolist()
    assert add["results"]["result"]["values"] == (a + 2).tolist()


def test_nothing_before_and_after(capfd):
    a = torch.ones(2, device="sim")
    a * a
    with hardpoint.dump(1):
        a * a
    a * a
    assert capfd.readouterr().err.count("aten::mul.Tensor: vendor kernel mul") == 1


def test_a_filter(tmp_path: Path):
    a = torch.ones(2, 2, device="sim")
    with hardpoint.dump(1, ops="mm,ad.*", file=tmp_path / "calls"):
        (a @ a + a) * a
    assert [r["operator"] for r in records(tmp_path / "calls")] == ["aten::mm", "aten::add.Tensor"]


def test_every_tier_forward_and_backward(tmp_path: Path):
    x = torch.randn(4, 3, device="sim", requires_grad=True)
    with hardpoint.fallback("sum,exp"), hardpoint.dump(1, file=tmp_path / "calls"):
        loss = (x.exp().relu().sigmoid() * 2).sum()  # forward
        loss.backward()
    seen = {r["operator"]: r for r in records(tmp_path / "calls")}
    assert seen["aten::exp"]["tier"] == "cpu"
    assert seen["aten::relu"]["tier"] == "vendor"
    assert seen["aten::sigmoid"]["tier"] == "portable"
    backward = seen["aten::sigmoid_backward"]
    line = Path(__file__).read_text().split("# forward")[0].count("\n") + 1
    assert f"test_dump.py:{line}" in backward["location"], "the line of the forward call"
    assert "SigmoidBackward" in backward["location"]


def test_inner_calls_are_indented(tmp_path: Path):
    a = torch.randn(3, device="sim")
    with hardpoint.fallback("silu=decomposition"), hardpoint.dump(1, file=tmp_path / "calls"):
        torch.nn.functional.silu(a)
    *parts, whole = records(tmp_path / "calls")
    assert (whole["operator"], whole["tier"], whole["depth"]) == ("aten::silu", "decomposition", 0)
    assert len(parts) >= 2
    assert all(part["depth"] == 1 for part in parts)
    assert {part["tier"] for part in parts} <= {"vendor", "portable"}


def test_modules_are_named(tmp_path: Path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Sequential(torch.nn.ReLU())).to("sim")
    x = torch.randn(2, 3, device="sim")
    with hardpoint.dump(1, ops="relu|threshold_backward", file=tmp_path / "calls"):
        model(x).sum().backward()
    forward, backward = records(tmp_path / "calls")
    assert "module Sequential.1.0" in forward["location"]
    assert "module Sequential.1.0" in backward["location"]


def test_an_error_is_written(tmp_path: Path):
    a, b = torch.ones(2, 3, device="sim"), torch.ones(2, 3, device="sim")
    with hardpoint.dump(2, file=tmp_path / "calls"), pytest.raises(RuntimeError, match="cannot be multiplied"):
        a @ b
    [record] = records(tmp_path / "calls")
    assert "cannot be multiplied" in record["error"]


def test_the_environment_of_a_running_program(capfd, monkeypatch):
    a = torch.ones(2, device="sim")
    monkeypatch.setenv("HARDPOINT_DUMP", "2")
    a * a
    os.environ["HARDPOINT_DUMP"] = "0"
    a * a
    written = capfd.readouterr().err
    assert written.count("aten::mul.Tensor") == 1
    assert "self: numel:2, sizes:[2], strides:[1], view:0, dtype:float32, device:sim:0, data_ptr:0x" in written
    with pytest.raises(ValueError, match="level must be 0 to 3, not 'all'"):
        os.environ["HARDPOINT_DUMP"] = "all"
    with pytest.raises(ValueError, match="no option 'operators=mm'"):
        os.environ["HARDPOINT_DUMP"] = "1; operators=mm"
    with pytest.raises(ValueError, match="cannot write to /nowhere/calls"):
        os.environ["HARDPOINT_DUMP"] = "1; file=/nowhere/calls"


def test_from_several_threads(tmp_path: Path):
    tensors = [torch.full((3,), float(i), device="sim") for i in range(4)]

    def work(a: torch.Tensor) -> None:
        for _ in range(25):
            a * a

    with hardpoint.dump(3, ops="mul", file=tmp_path / "calls"):
        threads = [threading.Thread(target=work, args=(a,)) for a in tensors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seen = records(tmp_path / "calls")
    assert len(seen) == 100
    for record in seen:
        value = record["arguments"]["self"]["values"][0]
        assert record["results"]["result"]["values"] == [value * value] * 3
