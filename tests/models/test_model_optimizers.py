"""Every optimizer, plain, foreach and fused, against the plain one on the CPU; and a scaler that skips a step."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from model_zoo import CLASSES, OPTIMIZERS, Case, classified, images
from torch import nn
from training import Run, cpu_tier, train

import hardpoint

pytestmark = pytest.mark.slow


def build() -> nn.Module:
    """Parameters of several shapes, none with a gradient of mere rounding errors, which Adam would amplify."""
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(8 * 4 * 4, 32), nn.GELU(), nn.Linear(32, CLASSES)),
    )


NET = Case("net", build, lambda generator: images(8, batch=16, generator=generator), classified, "")


@cache
def optimized(optimizer: str, device: str) -> Run:
    return train(NET, device, optimizer=optimizer)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weights(name):
    expected = optimized(f"{name.split('-')[0]}-plain", "cpu")
    run = optimized(name, "sim")
    assert run.losses == pytest.approx(expected.losses, rel=1e-5)
    for key, weight in expected.state.items():
        # 1% of the smallest learning rate (0.001).
        torch.testing.assert_close(run.state[key], weight, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_cpu_tier(name):
    assert optimized(name, "sim").cpu_tier == {}


def infinite_step(way: dict[str, bool]) -> tuple[float, list[torch.Tensor], list[torch.Tensor]]:
    """Step with an infinite gradient: scale after the step, weights before and after it."""
    net = build().to("sim")
    update = torch.optim.AdamW(net.parameters(), lr=1e-2, **way)
    scaler = torch.amp.GradScaler("sim", init_scale=1024.0)
    before = [p.detach().cpu() for p in net.parameters()]
    x = torch.randn(4, 3, 8, 8).to("sim")
    scaler.scale(net(x).sum() * float("inf")).backward()
    scaler.step(update)
    scaler.update()
    after = [p.detach().cpu() for p in net.parameters()]
    return scaler.get_scale(), before, after


@pytest.mark.parametrize("way", ["foreach", "fused"])
def test_infinite_gradient_skips_the_step(way):
    scale, before, after = infinite_step({way: True})
    assert scale == 512.0
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("way", ["foreach", "fused"])
def test_scaler_no_cpu_tier(way):
    hardpoint.reset_counters()
    infinite_step({way: True})
    assert cpu_tier() == {}
