"""Leaks: device memory that is still in use at the end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

import hardpoint
from hardpoint.debug.leaks import environment


def line(mark: str) -> str:
    return f"test_leaks.py:{Path(__file__).read_text().split('# ' + mark)[0].count(chr(10)) + 1}"


def test_memory_in_use_is_reported_with_its_location():
    before = torch.randn(100, 100, device="sim")
    gone = []
    with hardpoint.leaks() as found:
        stay = [before @ before for _ in range(3)]  # product
        for _ in range(5):
            gone = before + 1  # passing
        before.add_(1)
        before.view(-1)[:10].mul_(2)
        small = stay[0][:2].sum(0)
        parts = [stay[0][1:], stay[0].t(), stay[1].view(-1)]  # views of counted storages
        del gone
    assert [(g["operator"], g["storages"], g["bytes"]) for g in found.groups] == [
        ("aten::mm", 3, 120_000),
        ("aten::sum.dim_IntList", 1, 400),
    ]
    assert line("product") in found.groups[0]["location"]
    assert found.groups[0]["tensors"][0] == {"dtype": "float32", "sizes": [100, 100], "bytes": 40_000}
    assert found.summary().splitlines()[0] == (
        "leaks: 4 storages (120,400 bytes) allocated under the tool and still in use"
    )
    assert "120,000 bytes in 3 storages: aten::mm (vendor, " in found.summary()
    assert "3 x float32 [100, 100]" in found.summary()
    assert len(parts) == 3
    assert small.shape == (100,)


def test_a_reused_address():
    """Memory from before the tool that is freed and allocated again counts."""
    old = torch.ones(5000, device="sim")
    address = old.data_ptr()
    with hardpoint.leaks() as found:
        del old
        new = torch.empty(5000, device="sim")
        new.zero_()  # the first write
    assert new.data_ptr() == address
    assert [(g["operator"], g["bytes"]) for g in found.groups] == [("aten::zero_", 20_000)]
    with hardpoint.leaks() as found:
        new.zero_()
    assert found.groups == []


def test_the_tool_holds_no_memory_and_cycles_are_collected():
    with hardpoint.leaks() as found:
        cycle: list[object] = [torch.ones(1000, device="sim") * 2]
        cycle.append(cycle)
        del cycle
        untouched = torch.empty(300, device="sim")
        assert [g["bytes"] for g in found.now()] == [1200]
    assert found.summary().endswith("1,200 bytes in 1 storage: not written by any traced operator")
    del untouched


def test_saved_tensors_and_gradients(tmp_path: Path):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sigmoid()).to("sim")
    x = torch.randn(4, 8, device="sim")
    with hardpoint.leaks(file=tmp_path / "leaks") as found:
        loss = model(x).sum()
    held = {g["operator"]: g for g in found.groups}
    assert "module Sequential.1" in held["aten::sigmoid"]["location"]
    written = [json.loads(text) for text in (tmp_path / "leaks").read_text().splitlines()]
    assert written == found.groups
    with hardpoint.leaks() as found:
        loss.backward()
    assert sum(g["bytes"] for g in found.groups) == sum(p.numel() * 4 for p in model.parameters())
    assert all("Backward" in g["location"] for g in found.groups)


def test_the_outermost_call_is_reported():
    x = torch.randn(50, device="sim")
    with hardpoint.fallback("silu=decomposition"), hardpoint.leaks() as found:
        y = torch.nn.functional.silu(x)
    assert [(g["operator"], g["tier"]) for g in found.groups] == [("aten::silu", "decomposition")]
    assert y.shape == (50,)


def test_the_environment_of_a_running_program(capfd, monkeypatch):
    monkeypatch.setenv("HARDPOINT_LEAKS", "1; limit=1")
    kept = [torch.ones(10, device="sim") * 2, torch.ones(20, device="sim").exp()]
    assert environment.tool is not None
    os.environ["HARDPOINT_LEAKS"] = "0"
    written = capfd.readouterr().err
    assert "[hardpoint] leaks: 2 storages (120 bytes)" in written
    assert "80 bytes in 1 storage: aten::exp (" in written
    assert "... and 1 more locations" in written
    assert len(kept) == 2
    with pytest.raises(ValueError, match="must be 0 or 1, not 'yes'"):
        os.environ["HARDPOINT_LEAKS"] = "yes"
