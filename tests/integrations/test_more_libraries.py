"""Libraries that need nothing from Hardpoint: they take the device from their inputs, or from torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from library_tools import MISSING
from torch import nn

Counted = Callable[[], tuple[int, int]]


def train(model: nn.Module, inputs: dict[str, torch.Tensor], loss: Callable[[Any], torch.Tensor]) -> list[float]:
    update = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
    losses = []
    for _ in range(3):
        value = loss(model(**inputs))
        update.zero_grad()
        value.backward()
        update.step()
        losses.append(value.item())
    return losses


def test_peft_training(device: str, counted: Counted) -> None:
    peft = pytest.importorskip("peft", reason=MISSING)
    from text_model import data, model

    tokens = torch.stack([row["input_ids"] for row in data(4)])

    def run(where: str) -> tuple[list[float], dict[str, torch.Tensor]]:
        base = model()
        torch.manual_seed(2)
        adapted = peft.get_peft_model(base, peft.LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)).to(
            where
        )
        inputs = {"input_ids": tokens.to(where), "labels": tokens.to(where)}
        losses = train(adapted, inputs, lambda output: output.loss)
        merged = adapted.merge_and_unload()
        return losses, merged.state_dict()

    wanted, weights = run("cpu")
    counted()
    found, on_device_weights = run(device)
    on_device, on_cpu = counted()
    assert found == pytest.approx(wanted, abs=1e-5)
    assert on_device > 100
    assert on_cpu == 0
    for name, value in weights.items():
        torch.testing.assert_close(on_device_weights[name].cpu(), value, rtol=1e-3, atol=1e-4)


def test_diffusers_training(device: str, counted: Counted) -> None:
    diffusers = pytest.importorskip("diffusers", reason=MISSING)
    blocks = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
    noise = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))

    def run(where: str) -> list[float]:
        torch.manual_seed(3)
        sizes = {"sample_size": 8, "in_channels": 1, "out_channels": 1, "layers_per_block": 1}
        unet = diffusers.UNet2DModel(**sizes, **blocks, block_out_channels=(8, 16), norm_num_groups=4).to(where)
        inputs = {"sample": noise.to(where), "timestep": torch.tensor([3, 7], device=where)}
        return train(unet, inputs, lambda output: output.sample.square().mean())

    wanted = run("cpu")
    counted()
    assert run(device) == pytest.approx(wanted, rel=1e-3)
    on_device, on_cpu = counted()
    assert on_device > 100
    assert on_cpu == 0


def test_diffusers_inference(device: str) -> None:
    diffusers = pytest.importorskip("diffusers", reason=MISSING)
    scheduler = diffusers.DDIMScheduler(num_train_timesteps=20)
    scheduler.set_timesteps(5, device=device)

    def run(where: str) -> torch.Tensor:
        sample = torch.randn(1, 1, 4, 4, generator=torch.Generator().manual_seed(0)).to(where)
        for step in scheduler.timesteps:
            sample = scheduler.step(sample * 0.5, step, sample).prev_sample
        return sample.cpu()

    torch.testing.assert_close(run(device), run("cpu"), rtol=1e-4, atol=1e-4)


def test_torchmetrics_inference(device: str) -> None:
    torchmetrics = pytest.importorskip("torchmetrics", reason=MISSING)
    scores = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
    classes = torch.randint(0, 5, (64,), generator=torch.Generator().manual_seed(1))

    def run(where: str) -> dict[str, torch.Tensor]:
        options = {"task": "multiclass", "num_classes": 5}
        made = torchmetrics.MetricCollection(
            [torchmetrics.Accuracy(**options), torchmetrics.F1Score(**options), torchmetrics.ConfusionMatrix(**options)]
        ).to(where)
        for part in range(0, 64, 16):
            made.update(scores[part : part + 16].to(where), classes[part : part + 16].to(where))
        return made.compute()

    found, wanted = run(device), run("cpu")
    assert {value.device.type for value in found.values()} == {device}
    for name, value in wanted.items():
        torch.testing.assert_close(found[name].cpu(), value)


def test_einops_inference(device: str) -> None:
    einops = pytest.importorskip("einops", reason=MISSING)
    x = torch.randn(2, 4, 6, device=device)
    split = einops.rearrange(x, "b (h w) c -> b c h w", h=2)
    assert split.device.type == device
    assert torch.equal(split.cpu(), x.cpu().reshape(2, 2, 2, 6).permute(0, 3, 1, 2))
    torch.testing.assert_close(einops.reduce(x, "b t c -> b c", "mean"), x.mean(1))
    assert torch.equal(einops.repeat(x[0], "t c -> n t c", n=3), x[0].expand(3, 4, 6))


def test_torchao_inference(device: str, counted: Counted) -> None:
    pytest.importorskip("torchao", reason=MISSING)
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).eval()
    x = torch.randn(4, 32)

    def run(where: str) -> torch.Tensor:
        import copy

        quantized = copy.deepcopy(net).to(where)
        quantize_(quantized, Int8WeightOnlyConfig())
        with torch.no_grad():
            return quantized(x.to(where)).cpu()

    wanted = run("cpu")
    counted()
    torch.testing.assert_close(run(device), wanted, rtol=1e-3, atol=1e-3)
    assert counted()[0] > 4


def test_timm_training(device: str, counted: Counted) -> None:
    pytest.importorskip("torchvision", reason="timm needs a torchvision that was built for this torch")
    timm = pytest.importorskip("timm", reason=MISSING)
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))

    def run(where: str) -> list[float]:
        torch.manual_seed(3)
        net = timm.create_model("resnet10t", num_classes=4).to(where)
        return train(net, {"x": images.to(where)}, lambda output: output.square().mean())

    wanted = run("cpu")
    counted()
    assert run(device) == pytest.approx(wanted, rel=1e-2)
    assert counted()[1] == 0
