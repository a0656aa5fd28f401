"""DDP, FSDP2, ZeRO, DTensor and checkpoints on the device."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import launch
from plugin_tools import CC, ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("ranks", "way"), [(2, "plugin"), (2, "host"), (4, "plugin")])
def test_training_equals_that_of_one_process(tmp_path: Path, ranks: int, way: str) -> None:
    for ended in launch("training.py", ranks, str(tmp_path / "checkpoint"), HARDPOINT_COLLECTIVES=way):
        assert ended.text.strip().endswith("done")


def test_a_plug_in_in_python_without_collectives(tmp_path: Path) -> None:
    """Its functions need Python's lock, on the threads of the group as well."""
    plugin = {
        "HARDPOINT_PLUGIN_PATH": str(ROOT / "tests" / "data" / "compiled.py"),
        "HARDPOINT_DEVICE": "tiny",
        "CC": CC,
    }
    for ended in launch("training.py", 2, str(tmp_path / "checkpoint"), **plugin):
        assert ended.text.strip().endswith("done")
