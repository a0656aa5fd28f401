"""Ray Train gives its workers the device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from library_tools import MISSING, PROGRAMS

pytest.importorskip("ray.train", reason=MISSING)


def run_workers(file: Path, count: int) -> dict[str, Any]:
    command = [sys.executable, str(PROGRAMS / "ray_net.py"), str(file), str(count)]
    # By default, its workers get the lowest priority of all processes.
    settings = {**os.environ, "RAY_worker_niceness": "0", "RAY_AUTH_MODE": "disabled"}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    saved: dict[str, Any] = torch.load(file)
    return saved


@pytest.mark.timeout(900)  # several processes import torch, one after the other
def test_two_ranks_equal_one_process_and_train_on_the_device(tmp_path: Path) -> None:
    wanted, found = run_workers(tmp_path / "1.pt", 0), run_workers(tmp_path / "2.pt", 2)
    assert wanted["places"] == [["sim:0", "sim:0", 0]]
    assert found["places"] == [["sim:0", "sim:0", 0], ["sim:1", "sim:1", 1]]
    for name, value in wanted["weights"].items():
        torch.testing.assert_close(found["weights"][name], value, rtol=1e-4, atol=1e-6)


def test_the_choice_of_a_device() -> None:
    from ray.air._internal import device_manager

    managers = {type_: device_manager.get_torch_device_manager_by_device_type(type_) for type_ in ("sim", "cpu")}
    assert managers["cpu"].get_devices() == [torch.device("cpu")]
    ours = managers["sim"]
    stream = ours.create_stream(torch.device("sim", 1))
    with ours.get_stream_context(stream):
        assert ours.get_current_stream() == stream
        assert stream.device == torch.device("sim", 1)
    ours.set_device(torch.device("sim", 1))
    assert torch.sim.current_device() == 1
    with pytest.raises(RuntimeError, match="nosuch"):
        device_manager.get_torch_device_manager_by_device_type("nosuch")
