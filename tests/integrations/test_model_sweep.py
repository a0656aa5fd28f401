"""All models of `tiny_models` train on the device as on the CPU, and on the CPU tier alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from library_tools import MISSING

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
from test_cpu_tier_models import DEVICES, sweep
from tiny_models import TIMM, TRANSFORMERS

SIM = {"HARDPOINT_DEVICE": "sim"}


@pytest.mark.parametrize("tier", ["device", *DEVICES])
def test_transformers_nets_train(tier: str, tmp_path: Path) -> None:
    check(tier, list(TRANSFORMERS), "of_transformers", tmp_path)


@pytest.mark.parametrize("tier", ["device", *DEVICES])
def test_timm_nets_train(tier: str, tmp_path: Path) -> None:
    pytest.importorskip("torchvision", reason="timm needs a torchvision that was built for this torch")
    pytest.importorskip("timm.models", reason=MISSING)
    check(tier, list(TIMM), "of_timm", tmp_path)


def check(tier: str, names: list[str], make: str, cache: Path) -> None:
    settings = DEVICES.get(tier, SIM)
    device, found, tiers = sweep(settings, names, make, cache)
    assert device == settings["HARDPOINT_DEVICE"]
    assert found == {}
    assert tiers == ["cpu"] or tier == "device"
