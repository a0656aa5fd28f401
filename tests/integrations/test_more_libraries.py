"""Libraries that need nothing from Hardpoint: they take the device from their inputs, or from torch."""

from __future__ import annotations

import copy
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


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ("Int8WeightOnlyConfig", 0.02),
        ("Int8DynamicActivationInt8WeightConfig", 0.04),
        ("Int8DynamicActivationIntxWeightConfig", 0.04),
        ("IntxWeightOnlyConfig", 0.02),
        ("Float8WeightOnlyConfig", 0.08),
    ],
)
def test_torchao_inference(device: str, counted: Counted, config: str, error: float) -> None:
    quantization = pytest.importorskip("torchao.quantization", reason=MISSING)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(128, 64), nn.GELU(), nn.Linear(64, 32)).eval()
    x = torch.randn(4, 128)

    def run(where: str) -> torch.Tensor:
        quantized = copy.deepcopy(net).to(where)
        quantization.quantize_(quantized, getattr(quantization, config)())
        with torch.no_grad():
            return quantized(x.to(where)).cpu()

    wanted, exact = run("cpu"), net(x)
    counted()
    found = run(device)
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
    assert 0 < (found - exact).abs().max() < error * exact.abs().max()
    assert counted()[0] > 4


@pytest.mark.parametrize(
    ("config", "reason"), [("Int4WeightOnlyConfig", "mslk"), ("Float8DynamicActivationFloat8WeightConfig", "Float8")]
)
def test_torchao_refuses_what_needs_its_own_kernels(device: str, config: str, reason: str) -> None:
    quantization = pytest.importorskip("torchao.quantization", reason=MISSING)
    net = nn.Sequential(nn.Linear(128, 64)).to(device, torch.bfloat16)
    with pytest.raises((ImportError, AssertionError), match=reason):
        quantization.quantize_(net, getattr(quantization, config)())


@pytest.mark.parametrize("workers", [0, 2])
def test_torchdata_resume(device: str, workers: int) -> None:
    """A loader that pins memory for the device goes on where its state was saved."""
    loaders = pytest.importorskip("torchdata.stateful_dataloader", reason=MISSING)
    data = torch.arange(24.0).view(12, 2)

    def loader() -> Any:
        shuffle = {"shuffle": True, "generator": torch.Generator().manual_seed(5)}
        return loaders.StatefulDataLoader(data, batch_size=3, num_workers=workers, pin_memory=True, **shuffle)

    first = loader()
    batches = iter(first)
    assert next(batches).is_pinned()
    state = first.state_dict()
    rest = [batch.to(device, non_blocking=True) for batch in batches]
    second = loader()
    second.load_state_dict(state)
    again = [batch.to(device, non_blocking=True) for batch in second]
    assert len(rest) == len(again) == 3
    for one, other in zip(rest, again, strict=True):
        assert torch.equal(one, other)


def images(count: int = 2) -> torch.Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def timm() -> Any:
    pytest.importorskip("torchvision", reason="timm needs a torchvision that was built for this torch")
    for part in ("data", "loss", "optim", "utils"):
        pytest.importorskip(f"timm.{part}", reason=MISSING)
    return pytest.importorskip("timm", reason=MISSING)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("resnet10t", {}),
        ("vit_tiny_patch16_224", {"img_size": 32, "depth": 2}),
        ("convnext_atto", {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)}),
    ],
)
def test_timm_training(timm: Any, device: str, counted: Counted, name: str, options: dict[str, Any]) -> None:
    def run(where: str) -> list[float]:
        torch.manual_seed(3)
        net = timm.create_model(name, num_classes=4, drop_rate=0.0, **options).to(where)
        update = timm.optim.create_optimizer_v2(net, opt="sgd", lr=1e-3, momentum=0.9)
        average = timm.utils.ModelEmaV3(net, decay=0.5)
        losses = []
        for _ in range(3):
            loss = net(images().to(where)).square().mean()
            update.zero_grad()
            loss.backward()
            update.step()
            average.update(net)
            losses.append(loss.item())
        return [*losses, average.module(images().to(where)).square().mean().item()]

    wanted = run("cpu")
    counted()
    assert run(device) == pytest.approx(wanted, rel=1e-2)
    on_device, on_cpu = counted()
    assert on_device > 100
    assert on_cpu == 0


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_timm_mixed_precision(timm: Any, device: str, precision: str) -> None:
    torch.manual_seed(3)
    net = timm.create_model("resnet10t", num_classes=4).to(device)
    update = timm.optim.create_optimizer_v2(net, opt="lamb", lr=1e-2)
    scaler = timm.utils.NativeScaler(device=device)
    losses = []
    for _ in range(5):
        with torch.autocast(device, torch.bfloat16 if precision == "bf16" else torch.float16):
            loss = timm.loss.LabelSmoothingCrossEntropy()(net(images().to(device)), torch.tensor([1, 3], device=device))
        update.zero_grad()
        scaler(loss, update, clip_grad=1.0, parameters=net.parameters())
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_timm_loading_to_the_device(timm: Any, device: str) -> None:
    """Its prefetching loader and Mixup."""
    import numpy
    from PIL import Image

    class Squares(torch.utils.data.Dataset):
        transform: Any = None

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            return self.transform(Image.fromarray(numpy.full((40, 40, 3), index * 50, "uint8"))), index

    options = {"input_size": (3, 32, 32), "batch_size": 2, "num_workers": 0, "mean": (0.0,) * 3, "std": (1.0,) * 3}
    loader = timm.data.create_loader(Squares(), **options, device=torch.device(device), pin_memory=True)
    batches = list(loader)
    assert {x.device.type for x, _ in batches} == {device}
    assert torch.cat([y for _, y in batches]).tolist() == [0, 1, 2, 3]
    means = torch.cat([x.mean((1, 2, 3)).cpu() for x, _ in batches])
    torch.testing.assert_close(means, torch.tensor([0.0, 50, 100, 150]) / 255)
    mixed, targets = timm.data.Mixup(mixup_alpha=1.0, num_classes=4)(*batches[1])
    assert mixed.device.type == targets.device.type == device
    torch.testing.assert_close(targets.sum(1).cpu(), torch.ones(2))


def test_timm_torchvision_inference(timm: Any, device: str) -> None:
    """torchvision's operators: written for CPU and CUDA; here they go to the CPU tier."""
    from torchvision import ops

    boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30.0]])
    scores = torch.tensor([0.9, 0.8, 0.7])

    def run(where: str) -> list[torch.Tensor]:
        at, score, x = boxes.to(where), scores.to(where), images(1).to(where)
        return [ops.nms(at, score, 0.5), ops.roi_align(x, [at], 3), ops.box_iou(at, at)]

    for found, wanted in zip(run(device), run("cpu"), strict=True):
        assert found.device.type == device
        torch.testing.assert_close(found.cpu(), wanted)
