"""Models train on the CPU tier alone as on the CPU: a device of memory and copies only, and `sim` with the rule ``.*``.

``make integrations`` runs all models of `tiny_models`; here are those with the most different operators.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from plugin_tools import ROOT, ask_python
from tiny_models import TRANSFORMERS

pytestmark = pytest.mark.slow  # each test starts a process

DEVICES = {
    "bare": {"HARDPOINT_PLUGIN_PATH": str(ROOT / "tests" / "fixtures" / "bare.py"), "HARDPOINT_DEVICE": "bare"},
    "rule": {"HARDPOINT_DEVICE": "sim", "HARDPOINT_FALLBACK": ".*"},
}
CHOSEN = ("Bert", "DebertaV2", "Longformer", "Mixtral", "Mamba2", "T5", "Swin", "Segformer", "Wav2Vec2", "PatchTST")

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import hardpoint, hardpoint.torch, tiny_models
device = hardpoint.torch.mount()
found = tiny_models.differences({names!r}, tiny_models.{make}, device)
tiers = {{tier for name, calls in hardpoint.counters().items() for tier in calls if name != "aten::copy_"}}
answer = [device, found, sorted(tiers)]
"""


def sweep(device: dict[str, str], names: list[str], make: str, cache: Path) -> list[object]:
    """The device's name, the models that differ from the CPU's, and the tiers of all operators but copies."""
    program = PROGRAM.format(folder=str(Path(__file__).parent), names=names, make=make)
    answer: list[object] = ask_python(program, cache, timeout=900, OMP_NUM_THREADS="1", **device)
    return answer


@pytest.mark.parametrize("device", DEVICES)
def test_models_train_as_on_the_cpu(device: str, tmp_path: Path) -> None:
    assert set(CHOSEN) <= set(TRANSFORMERS)
    settings = DEVICES[device]
    name = settings["HARDPOINT_DEVICE"]
    assert sweep(settings, list(CHOSEN), "of_transformers", tmp_path) == [name, {}, ["cpu"]]
