"""DDP, FSDP2, ZeRO, DTensor and checkpoints on the device."""

from __future__ import annotations

from pathlib import Path

import pytest
from launcher import launch
from plugin_tools import CC, ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("ranks", "way"), [(2, "plugin"), (2, "host"), (4, "plugin")])
def test_training_equals_one_process(tmp_path: Path, ranks: int, way: str) -> None:
    for ended in launch("training.py", ranks, str(tmp_path / "checkpoint"), HARDPOINT_COLLECTIVES=way):
        assert ended.text.strip().endswith("done")


def test_python_plugin_without_collectives(tmp_path: Path) -> None:
    """Its functions need the GIL, including on the process group's threads."""
    plugin = {
        "HARDPOINT_PLUGIN_PATH": str(ROOT / "tests" / "fixtures" / "compiled.py"),
        "HARDPOINT_DEVICE": "tiny",
        "CC": CC,
    }
    for ended in launch("training.py", 2, str(tmp_path / "checkpoint"), **plugin):
        assert ended.text.strip().endswith("done")
