"""Utilities of torch that ask for the device: data loaders, checkpointing, default device, benchmarks, mapped files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def test_data_loader_pins_for_the_device(device: str) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(6, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True, num_workers=1)
    batches = [batch for (batch,) in loader]
    assert all(batch.is_pinned() for batch in batches)
    moved = torch.cat([batch.to(device, non_blocking=True) for batch in batches])
    assert torch.equal(moved.cpu(), data.tensors[0])


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpoint_repeats_dropout(device: str, reentrant: bool) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.GELU(), nn.Linear(16, 1)).to(device)
    x = torch.randn(4, 8, device=device, requires_grad=True)

    def gradients(run) -> list[torch.Tensor]:
        torch.manual_seed(5)
        net.zero_grad()
        run(x).sum().backward()
        return [p.grad.clone() for p in net.parameters()]

    found = gradients(lambda x: checkpoint(net, x, use_reentrant=reentrant))
    for one, other in zip(found, gradients(net), strict=True):
        assert torch.equal(one, other)


def test_default_device(device: str) -> None:
    torch.set_default_device(f"{device}:1")
    try:
        x = torch.randn(3)
        net = nn.Linear(3, 2)
        assert str(x.device) == str(net.weight.device) == str(net(x).device) == f"{device}:1"
    finally:
        torch.set_default_device(None)
    with torch.device(device):
        assert torch.arange(3).device.type == device
    assert torch.ones(1).device.type == "cpu"


@pytest.mark.parametrize("location", ["sim", "sim:1", "cpu", None])
def test_load_from_a_mapped_file(tmp_path: Path, device: str, location: str | None) -> None:
    saved = {"a": torch.randn(3, 4, device=device), "b": torch.arange(5, device=f"{device}:1")}
    torch.save(saved, tmp_path / "file.pt")
    loaded = torch.load(tmp_path / "file.pt", mmap=True, map_location=location)
    for name, tensor in saved.items():
        wanted = tensor.device if location is None else torch.empty(0, device=location).device
        assert loaded[name].device == wanted
        assert torch.equal(loaded[name].cpu(), tensor.cpu())


def test_benchmark_timer(device: str) -> None:
    from torch.utils import benchmark

    x = torch.randn(64, 64, device=device)
    measured = benchmark.Timer("x @ x", globals={"x": x}).timeit(20)
    assert measured.number_per_run == 20
    assert measured.mean > 0


def test_representation(device: str) -> None:
    x = torch.tensor([1.5, 2.0], device=device)
    assert repr(x) == "tensor([1.5000, 2.0000], device='sim:0')"
    assert (
        repr(nn.Parameter(x)) == "Parameter containing:\ntensor([1.5000, 2.0000], device='sim:0', requires_grad=True)"
    )
    assert format(x[0], ".1f") == "1.5"
