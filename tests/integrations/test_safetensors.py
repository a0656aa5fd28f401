"""safetensors reads files straight to the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch


@pytest.fixture
def tensors() -> dict[str, torch.Tensor]:
    return {"weight": torch.randn(3, 4), "bias": torch.arange(5, dtype=torch.bfloat16)}


@pytest.fixture
def file(tmp_path: Path, tensors: dict[str, torch.Tensor], device: str) -> Path:
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file({name: t.to(device) for name, t in tensors.items()}, path, {"made": "here"})
    return path


@pytest.mark.parametrize(
    ("where", "found"),
    [("sim", "sim:0"), ("sim:1", "sim:1"), (torch.device("sim:1"), "sim:1"), (1, "sim:1"), ("cpu", "cpu")],
)
def test_load_file(file: Path, tensors: dict[str, torch.Tensor], where: Any, found: str) -> None:
    loaded = safetensors.torch.load_file(file, device=where)
    assert {str(t.device) for t in loaded.values()} == {found}
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name].cpu(), tensor)


def test_safe_open(file: Path, tensors: dict[str, torch.Tensor]) -> None:
    with safetensors.safe_open(file, framework="pt", device="sim:1") as opened:
        assert sorted(opened.keys()) == ["bias", "weight"]
        assert opened.metadata() == {"made": "here"}
        part = opened.get_slice("weight")
        assert part.get_shape() == [3, 4]
        assert str(part[1:, :2].device) == "sim:1"
        assert torch.equal(part[1:, :2].cpu(), tensors["weight"][1:, :2])
        assert torch.equal(opened.get_tensor("bias").cpu(), tensors["bias"])


def test_other_frameworks_are_untouched(file: Path, tensors: dict[str, torch.Tensor]) -> None:
    with safetensors.safe_open(file, "np") as opened:
        assert opened.get_tensor("weight").tolist() == tensors["weight"].tolist()
    with pytest.raises(safetensors.SafetensorError, match="invalid"):
        safetensors.safe_open(file, "pt", device="nonsense")


def test_models(tmp_path: Path, device: str) -> None:
    net, other = (torch.nn.Linear(3, 4).to(device) for _ in range(2))
    safetensors.torch.save_model(net, str(tmp_path / "net.safetensors"))
    safetensors.torch.load_model(other, str(tmp_path / "net.safetensors"), device=device)
    assert torch.equal(other.weight, net.weight)
    assert other.weight.device.type == device
