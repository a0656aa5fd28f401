"""Memory that stays: what was made during the watch and is in use at its end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

import hardpoint
from hardpoint.toolbox import living


def line(mark: str) -> str:
    return f"test_alive.py:{Path(__file__).read_text().split('# ' + mark)[0].count(chr(10)) + 1}"


def test_what_stays_is_told_with_its_place():
    before = torch.randn(100, 100, device="sim")
    gone = []
    with hardpoint.alive() as kept:
        stay = [before @ before for _ in range(3)]  # product
        for _ in range(5):
            gone = before + 1  # passing
        before.add_(1)
        before.view(-1)[:10].mul_(2)
        small = stay[0][:2].sum(0)
        parts = [stay[0][1:], stay[0].t(), stay[1].view(-1)]  # views of what is counted
        del gone
    assert [(g["operator"], g["storages"], g["bytes"]) for g in kept.groups] == [
        ("aten::mm", 3, 120_000),
        ("aten::sum.dim_IntList", 1, 400),
    ]
    assert line("product") in kept.groups[0]["place"]
    assert kept.groups[0]["tensors"][0] == {"dtype": "float32", "sizes": [100, 100], "bytes": 40_000}
    assert kept.summary().splitlines()[0] == (
        "alive: 4 storages of 120,400 bytes were made since the watch began, and are in use"
    )
    assert "120,000 bytes in 3: aten::mm (vendor, " in kept.summary()
    assert "3 x float32 [100, 100]" in kept.summary()
    assert len(parts) == 3
    assert small.shape == (100,)


def test_an_address_that_is_used_again():
    """Memory of before the watch, freed and given out again, is made during the watch."""
    old = torch.ones(5000, device="sim")
    address = old.data_ptr()
    with hardpoint.alive() as kept:
        del old
        new = torch.empty(5000, device="sim")
        new.zero_()  # the first to write it
    assert new.data_ptr() == address
    assert [(g["operator"], g["bytes"]) for g in kept.groups] == [("aten::zero_", 20_000)]
    with hardpoint.alive() as kept:
        new.zero_()
    assert kept.groups == []


def test_nothing_is_kept_alive_and_cycles_are_not():
    with hardpoint.alive() as kept:
        cycle: list[object] = [torch.ones(1000, device="sim") * 2]
        cycle.append(cycle)
        del cycle
        untouched = torch.empty(300, device="sim")
        assert [g["bytes"] for g in kept.now()] == [1200]
    assert kept.summary().endswith("1,200 bytes in 1: made by no operator that tools see")
    del untouched


def test_what_the_graph_holds_and_gradients(tmp_path: Path):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sigmoid()).to("sim")
    x = torch.randn(4, 8, device="sim")
    with hardpoint.alive(file=tmp_path / "alive") as kept:
        loss = model(x).sum()
    held = {g["operator"]: g for g in kept.groups}
    assert "module Sequential.1" in held["aten::sigmoid"]["place"]
    written = [json.loads(text) for text in (tmp_path / "alive").read_text().splitlines()]
    assert written == kept.groups
    with hardpoint.alive() as kept:
        loss.backward()
    assert sum(g["bytes"] for g in kept.groups) == sum(p.numel() * 4 for p in model.parameters())
    assert all("Backward" in g["place"] for g in kept.groups)


def test_a_call_and_not_its_parts():
    x = torch.randn(50, device="sim")
    with hardpoint.fallback("silu=decomposition"), hardpoint.alive() as kept:
        y = torch.nn.functional.silu(x)
    assert [(g["operator"], g["tier"]) for g in kept.groups] == [("aten::silu", "decomposition")]
    assert y.shape == (50,)


def test_the_environment_of_a_running_program(capfd, monkeypatch):
    monkeypatch.setenv("HARDPOINT_ALIVE", "1; limit=1")
    kept = [torch.ones(10, device="sim") * 2, torch.ones(20, device="sim").exp()]
    assert living.environment.current is not None
    os.environ["HARDPOINT_ALIVE"] = "0"
    written = capfd.readouterr().err
    assert "[hardpoint] alive: 2 storages of 120 bytes" in written
    assert "80 bytes in 1: aten::exp (" in written
    assert "... and 1 more places" in written
    assert len(kept) == 2
    with pytest.raises(ValueError, match="is 0 or 1, not 'yes'"):
        os.environ["HARDPOINT_ALIVE"] = "yes"
