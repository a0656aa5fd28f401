"""torch.distributed collectives on the device."""

from __future__ import annotations

import pytest
from launcher import launch


@pytest.mark.slow
@pytest.mark.parametrize("way", ["plugin", "host"])
@pytest.mark.parametrize(("ranks", "group"), [(2, "free"), (2, "bound"), (4, "bound")])
def test_every_collective(ranks: int, group: str, way: str) -> None:
    tier = "vendor" if way == "plugin" else "cpu"
    for ended in launch("collectives.py", ranks, group, tier, tier, HARDPOINT_COLLECTIVES=way):
        assert ended.text.strip().endswith("done")


@pytest.mark.slow
def test_collectives_composed_of_sends_and_receives() -> None:
    for ended in launch("collectives.py", 3, "bound", "cpu", "vendor", HARDPOINT_SIM_COLLECTIVES="pairs"):
        assert ended.text.strip().endswith("done")
