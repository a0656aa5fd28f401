"""DDP, FSDP2, ZeRO, DTensor and checkpoints on the device."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import launch


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "way"), [(2, "plugin"), (2, "host"), (4, "plugin")])
def test_training_equals_that_of_one_process(tmp_path: Path, ranks: int, way: str) -> None:
    for ended in launch("training.py", ranks, str(tmp_path / "checkpoint"), HARDPOINT_COLLECTIVES=way):
        assert ended.text.strip().endswith("done")
