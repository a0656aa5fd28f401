"""DeepSpeed's ZeRO on the device: the losses equal those of one process on the CPU without DeepSpeed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from library_tools import MISSING, torchrun
from torch import nn

pytest.importorskip("deepspeed", reason=MISSING)


def cpu_losses() -> list[float]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    update = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.01)
    losses = []
    for batch in torch.randn(4, 16, 8, generator=torch.Generator().manual_seed(1)):
        loss = nn.functional.mse_loss(net(batch), batch[:, :4].sin())
        update.zero_grad()
        loss.backward()
        update.step()
        losses.append(loss.item())
    return losses


def test_accelerator(device: str) -> None:
    from deepspeed.accelerator import get_accelerator

    accelerator = get_accelerator()
    assert accelerator.device_name() == device
    assert accelerator.device_count() == torch.sim.device_count()
    assert accelerator.FloatTensor([1.0]).device.type == device
    assert accelerator.HalfTensor([1.0]).dtype == torch.float16
    assert accelerator.on_accelerator(torch.ones(1, device=device))
    assert not accelerator.on_accelerator(torch.ones(1))
    assert 0 < accelerator.available_memory() <= accelerator.total_memory()
    assert accelerator.pin_memory(torch.ones(2)).is_pinned()


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_zero_trains_with_two_ranks(tmp_path: Path, launch: Any, stage: int) -> None:
    file = tmp_path / "result.pt"
    launch(*torchrun("deepspeed_net.py", str(file), str(stage)))
    found = torch.load(file)
    assert found["accelerator"] == "sim"
    assert found["devices"] == ["sim:0", "sim:1"]
    assert found["losses"].tolist() == pytest.approx(cpu_losses(), abs=1e-5)
