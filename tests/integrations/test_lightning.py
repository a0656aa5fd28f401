"""Lightning has the device as an accelerator, and chooses it."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from library_tools import MISSING, PROGRAMS
from torch import nn

pytest.importorskip("lightning", reason=MISSING)
import lightning
from lightning.fabric import Fabric

sys.path.insert(0, str(PROGRAMS))
from lightning_net import Net, batches

Counted = Callable[[], tuple[int, int]]


def trainer(folder: Path, **options: Any) -> lightning.Trainer:
    settings = {"max_epochs": 2, "devices": 1, "default_root_dir": folder, "logger": False, **options}
    settings = {"enable_progress_bar": False, "enable_model_summary": False, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lightning.Trainer(**settings)


def fit(made: lightning.Trainer, **options: Any) -> Net:
    net = Net()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.fit(net, batches(), **options)
    return net


@pytest.mark.parametrize("choice", ["auto", "gpu", "sim"])
def test_accelerator_is_the_device(tmp_path: Path, device: str, choice: str) -> None:
    made = trainer(tmp_path, accelerator=choice)
    assert made.accelerator.name() == device
    assert made.strategy.root_device == torch.device(device, 0)
    assert trainer(tmp_path, accelerator="cpu").strategy.root_device.type == "cpu"


def test_the_package_pytorch_lightning(run_python: Callable[..., Any]) -> None:
    pytest.importorskip("pytorch_lightning", reason=MISSING)
    program = """
        import pytorch_lightning, lightning_fabric
        quiet = {"logger": False, "enable_checkpointing": False}
        print(pytorch_lightning.Trainer(devices=1, **quiet).strategy.root_device)
        print(lightning_fabric.Fabric(devices=1).device)
    """
    assert run_python(program).stdout.split() == ["sim:0", "sim:0"]


@pytest.mark.parametrize(("precision", "tolerance"), [("32-true", 1e-5), ("bf16-mixed", 2e-2), ("16-mixed", 2e-2)])
def test_training(tmp_path: Path, device: str, counted: Counted, precision: str, tolerance: float) -> None:
    wanted = fit(trainer(tmp_path, accelerator="cpu", enable_checkpointing=False)).losses
    counted()
    made = trainer(tmp_path, precision=precision, enable_checkpointing=False)
    assert fit(made).losses == pytest.approx(wanted, abs=tolerance)
    on_device, on_cpu = counted()
    assert on_device > 100
    assert on_cpu == 0
    assert made.callback_metrics["loss"].item() == pytest.approx(wanted[-1], abs=tolerance)


def test_resume_is_bit_equal(tmp_path: Path) -> None:
    made = trainer(tmp_path, max_epochs=1)
    fit(made)
    made.save_checkpoint(tmp_path / "half.ckpt")
    whole = fit(trainer(tmp_path, max_epochs=2))
    resumed = fit(trainer(tmp_path, max_epochs=2), ckpt_path=tmp_path / "half.ckpt")
    assert len(whole.losses) == 2 * len(resumed.losses)
    assert resumed.losses == whole.losses[len(resumed.losses) :]
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name


def test_device_stats_and_progress_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = trainer(tmp_path, enable_progress_bar=True, enable_checkpointing=False)
    fit(made)
    assert "Epoch 1" in capsys.readouterr().out
    stats = made.accelerator.get_device_stats(torch.device("sim", 0))
    assert "allocated_bytes.all.current" in stats


@pytest.mark.parametrize("devices", [5, "7", [0, 9]])
def test_missing_devices_are_refused(tmp_path: Path, devices: Any) -> None:
    with pytest.raises(ValueError, match="'sim' has devices 0 to"):
        trainer(tmp_path, devices=devices)


def test_fabric(device: str) -> None:
    fabric = Fabric(devices=1, precision="bf16-mixed")
    assert fabric.device == torch.device(device, 0)
    torch.manual_seed(0)
    net = nn.Linear(4, 2)
    model, update = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
    x = fabric.to_device(torch.randn(3, 4))
    before = model(x).square().mean()
    fabric.backward(before)
    update.step()
    assert model(x).square().mean() < before


def test_two_ranks_equal_one_process(tmp_path: Path, launch: Any) -> None:
    for count in (1, 2):
        command = [sys.executable, str(PROGRAMS / "lightning_net.py"), str(tmp_path / f"{count}.pt"), str(count)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
    wanted, found = torch.load(tmp_path / "1.pt"), torch.load(tmp_path / "2.pt")
    assert found["devices"] == 2
    for name, value in wanted["weights"].items():
        torch.testing.assert_close(found["weights"][name], value, rtol=1e-4, atol=1e-6)
