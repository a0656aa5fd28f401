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


def test_isolated_random_numbers(device: str) -> None:
    from lightning.pytorch.utilities.seed import isolate_rng

    torch.manual_seed(7)
    wanted = torch.rand(4, device=device).tolist()
    torch.manual_seed(7)
    with isolate_rng():
        torch.rand(4, device=device)
    assert torch.rand(4, device=device).tolist() == wanted


def test_throughput_is_measured_after_the_work(tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An asynchronous device is still at work when the last operator returns."""
    waits: list[str] = []
    synchronize = torch.sim.synchronize
    monkeypatch.setattr(torch.sim, "synchronize", lambda *a: (waits.append(device), synchronize(*a)))
    monitor = lightning.pytorch.callbacks.ThroughputMonitor(batch_size_fn=len, window_size=2)
    logger = lightning.pytorch.loggers.CSVLogger(tmp_path)
    settings = {"max_epochs": 1, "log_every_n_steps": 1, "enable_checkpointing": False}
    fit(trainer(tmp_path, callbacks=[monitor], logger=logger, **settings))
    assert len(waits) >= len(batches())


def test_profiler_records_the_device(tmp_path: Path) -> None:
    from lightning.pytorch.profilers import PyTorchProfiler

    profiler = PyTorchProfiler(dirpath=tmp_path, filename="profile")
    fit(trainer(tmp_path, profiler=profiler, max_epochs=1, enable_checkpointing=False))
    assert torch.profiler.ProfilerActivity.PrivateUse1 in profiler._profiler_kwargs["activities"]
    assert profiler.function_events is not None
    assert "SIM" in {event.device_type.name for event in profiler.function_events}


def test_batch_size_finder_goes_on_after_an_error_of_memory(tmp_path: Path, device: str) -> None:
    class Large(Net):
        batch_size = 2

        def train_dataloader(self) -> Any:
            return torch.utils.data.DataLoader(batches().dataset, self.batch_size)

        def training_step(self, batch: Any, index: int) -> Any:
            torch.empty(2**42 if len(batch[0]) > 8 else 1, device=device)
            return super().training_step(batch, index)

    net = Large()
    made = trainer(tmp_path, callbacks=[lightning.pytorch.callbacks.BatchSizeFinder(steps_per_trial=1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.fit(net)
    assert net.batch_size == 8


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


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = run_ranks(tmp_path_factory.mktemp("one") / "1.pt", 1)["weights"]
    return weights


def run_ranks(file: Path, count: int, *options: str) -> dict[str, Any]:
    command = [sys.executable, str(PROGRAMS / "lightning_net.py"), str(file), str(count), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    saved: dict[str, Any] = torch.load(file)
    return saved


@pytest.mark.parametrize(
    ("strategy", "precision", "tolerance"),
    [("ddp", "32-true", 1e-6), ("fsdp", "32-true", 1e-6), ("hybrid", "bf16-mixed", 1e-2), ("fsdp", "16-mixed", 1e-2)],
)
def test_two_ranks_equal_one_process(
    tmp_path: Path, one_process: dict[str, torch.Tensor], strategy: str, precision: str, tolerance: float
) -> None:
    found = run_ranks(tmp_path / "2.pt", 2, strategy, precision)
    assert found["devices"] == 2
    assert (found["scale"] or 0) > 1 or precision != "16-mixed"
    assert found["weights"].keys() == one_process.keys()
    for name, value in one_process.items():
        torch.testing.assert_close(found["weights"][name].cpu(), value.cpu(), rtol=1e-4, atol=tolerance)
