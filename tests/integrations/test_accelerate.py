"""Accelerate chooses the device, in one process and in several."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from library_tools import MISSING, PROGRAMS, torchrun
from torch import nn

pytest.importorskip("accelerate", reason=MISSING)
from accelerate import Accelerator, dispatch_model, infer_auto_device_map, init_empty_weights
from accelerate.state import AcceleratorState
from accelerate.utils import ProfileKwargs, find_executable_batch_size, get_max_memory

Counted = Callable[[], tuple[int, int]]


@pytest.fixture(autouse=True)
def _fresh_state() -> None:
    AcceleratorState._reset_state(reset_partial_state=True)


def net(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Dropout(dropout), nn.GELU(), nn.Linear(16, 4))


def batches(count: int = 6) -> torch.utils.data.DataLoader:
    x = torch.randn(8 * count, 8, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x[:, :4].sin()), batch_size=8)


def train(accelerator: Accelerator, model: Any, update: Any, loader: Any) -> list[float]:
    losses = []
    for x, y in loader:
        with accelerator.autocast():
            loss = nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        update.step()
        update.zero_grad()
        losses.append(loss.item())
    return losses


def prepared(dropout: float = 0.0, **options: Any) -> tuple[Accelerator, Any, Any, Any]:
    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = Accelerator(**options)
    model = net(dropout)
    return accelerator, *accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2), batches())


@pytest.mark.parametrize(("precision", "tolerance"), [("no", 1e-5), ("bf16", 1e-2), ("fp16", 1e-2)])
def test_training(device: str, counted: Counted, precision: str, tolerance: float) -> None:
    wanted = train(*prepared(cpu=True))
    counted()
    accelerator, *parts = prepared(mixed_precision=precision)
    assert accelerator.device.type == device
    assert train(accelerator, *parts) == pytest.approx(wanted, abs=tolerance)
    on_device, on_cpu = counted()
    assert on_device > 100
    assert on_cpu == 0
    assert (accelerator.scaler is not None) == (precision == "fp16")


def test_resume_is_bit_equal(tmp_path: Path) -> None:
    accelerator, model, update, loader = prepared(dropout=0.3)
    train(accelerator, model, update, loader)
    accelerator.save_state(str(tmp_path))
    wanted = train(accelerator, model, update, loader)
    accelerator, model, update, loader = prepared(dropout=0.3)
    accelerator.load_state(str(tmp_path))
    assert train(accelerator, model, update, loader) == wanted


def test_the_cpu_when_asked_for() -> None:
    assert Accelerator(cpu=True).device.type == "cpu"


def test_program_that_imports_no_torch(run_python: Callable[..., Any]) -> None:
    program = """
        from accelerate import Accelerator
        made = Accelerator(mixed_precision="fp16")
        print(made.device, made.scaler is not None)
    """
    assert run_python(program, fresh=True).stdout.split() == ["sim", "True"]


def test_nothing_changes_without_a_device(run_python: Callable[..., Any]) -> None:
    program = """
        import sys
        from accelerate import Accelerator
        from accelerate.state import PartialState
        from accelerate.utils import ProfileKwargs, find_executable_batch_size, get_max_memory
        assert Accelerator().device.type == "cpu"
        assert list(get_max_memory()) == ["cpu"]
        assert not any(name.startswith("hardpoint.") for name in sys.modules)
        assert PartialState._prepare_backend.__code__.co_filename.endswith("accelerate/state.py")
    """
    run_python(program, HARDPOINT_DEVICE=None)


def test_big_model_dispatch(device: str) -> None:
    memory = get_max_memory()
    assert memory[0] > 0
    assert set(memory) == {*range(torch.sim.device_count()), "cpu"}
    model = net().eval()
    x = torch.randn(3, 8)
    wanted = model(x)
    with init_empty_weights():
        empty = net()
    sizes = [sum(p.numel() * 4 for p in layer.parameters()) for layer in model]
    device_map = infer_auto_device_map(empty, max_memory={0: sizes[0] + 8, 1: sizes[3] + 8, "cpu": 2**20})
    split = dispatch_model(model, {"0": 0, "1": 0, "2": 1, "3": 1})
    assert set(device_map.values()) <= {0, 1, "cpu"}
    assert {str(p.device) for p in split.parameters()} == {f"{device}:0", f"{device}:1"}
    torch.testing.assert_close(split(x).cpu(), wanted)


def test_max_memory_of_the_program(device: str, caplog: pytest.LogCaptureFixture) -> None:
    count = torch.sim.device_count()
    assert list(get_max_memory({"cpu": 5, 1: "1KB", 0: 7}).items()) == [(0, 7), (1, 1000), ("cpu", 5)]
    assert caplog.messages == []
    get_max_memory({count: 7})
    assert caplog.messages == [f"max_memory names [{count}], but '{device}' has devices 0 to {count - 1}"]


def test_batch_size_shrinks_when_memory_runs_out(device: str) -> None:
    tried = []

    @find_executable_batch_size(starting_batch_size=64)
    def run(batch_size: int) -> int:
        tried.append(batch_size)
        torch.empty(2**42 if batch_size > 16 else 1, device=device)
        return batch_size

    assert run() <= 16
    assert tried[0] == 64
    with pytest.raises(RuntimeError, match="another reason"):
        find_executable_batch_size(fails)()


def fails(batch_size: int) -> None:
    raise RuntimeError("another reason")


def test_profile(device: str) -> None:
    accelerator = Accelerator(kwargs_handlers=[ProfileKwargs(activities=["cpu", device])])
    with accelerator.profile() as profile:
        torch.ones(8, device=device).sum().item()
    assert device.upper() in {event.device_type.name for event in profile.events()}
    with pytest.raises(ValueError, match="Invalid profiler activity: gpu"):
        Accelerator(kwargs_handlers=[ProfileKwargs(activities=["gpu"])]).profile().__enter__()


def test_offloaded_weights(device: str, counted: Counted) -> None:
    model = net().eval()
    x = torch.randn(3, 8)
    wanted = model(x)
    offloaded = dispatch_model(model, {"0": 0, "1": 0, "2": 0, "3": "cpu"}, main_device=0)
    counted()
    torch.testing.assert_close(offloaded(x).cpu(), wanted)
    assert counted()[0] > 2


def test_env_shows_the_device(launch: Any) -> None:
    text = launch("accelerate.commands.accelerate_cli", "env")
    assert f"- Hardpoint device: sim, {torch.sim.device_count()} x " in text


def weights_of(file: Path) -> dict[str, Any]:
    saved: dict[str, Any] = torch.load(file)
    return saved


@pytest.mark.parametrize("strategy", ["ddp", "fsdp1", "fsdp2"])
def test_two_ranks_equal_one_process(tmp_path: Path, launch: Any, strategy: str) -> None:
    launch(*torchrun("accelerated.py", str(tmp_path / "one.pt"), "ddp", ranks=1))
    launch(*torchrun("accelerated.py", str(tmp_path / "two.pt"), strategy, ranks=2))
    wanted, found = weights_of(tmp_path / "one.pt"), weights_of(tmp_path / "two.pt")
    assert found["devices"] == ["sim:0", "sim:1"]
    for name, value in wanted["weights"].items():
        torch.testing.assert_close(found["weights"][name], value, rtol=1e-4, atol=1e-6)


def test_launch(tmp_path: Path, launch: Any) -> None:
    """``accelerate launch`` starts a process per device without being told."""
    file = tmp_path / "weights.pt"
    command = ["accelerate.commands.accelerate_cli", "launch", str(PROGRAMS / "accelerated.py"), str(file), "ddp"]
    launch(*command, HF_HOME=str(tmp_path), HARDPOINT_SIM_DEVICES="2")
    assert weights_of(file)["devices"] == ["sim:0", "sim:1"]
