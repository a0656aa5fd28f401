"""Autocast around and inside a compiled model: same dtypes and losses as in eager mode."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hardpoint.graph.report import Explanation, _listening

STEPS = 4  # one plain, one recorded, two replayed
HALVES = [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.slow)]
#: A fused kernel keeps float32 precision between steps, where eager mode rounds to 16 bits.
LOOSE = {torch.bfloat16: 3e-2, torch.float16: 4e-3}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.layers = nn.Sequential(nn.Linear(8 * 36, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(F.silu(self.norm(self.conv(x))).flatten(1))


def around(net, x, target, dtype, compiled):
    with torch.autocast("sim", dtype=dtype):
        return F.cross_entropy(compiled(net, x), target)


def inside(net, x, target, dtype, compiled):
    return compiled(net, x, target, dtype)


def whole_step(net, x, target, dtype):
    with torch.autocast("sim", dtype=dtype):
        y = net(x)
        with torch.autocast("sim", enabled=False):
            y = y.float() * 2
        return F.cross_entropy(y, target)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(
    ("place", "function"), [(around, lambda net, x: net(x)), (inside, whole_step)], ids=["around", "inside"]
)
def test_training(place, function, dtype):
    first = Net().to("sim")
    second = copy.deepcopy(first)
    made = Explanation()
    data = [(torch.randn(4, 3, 6, 6, device="sim"), torch.randint(5, (4,), device="sim")) for _ in range(STEPS)]
    results = []
    with _listening(made):
        for net, run in ((first, function), (second, torch.compile(function, backend="hardpoint"))):
            update = torch.optim.SGD(net.parameters(), lr=0.05)
            scaler = torch.amp.GradScaler("sim", init_scale=64.0, enabled=dtype == torch.float16)
            losses = []
            for x, target in data:
                update.zero_grad()
                loss = place(net, x, target, dtype, run)
                scaler.scale(loss).backward()
                scaler.step(update)
                scaler.update()
                losses.append(loss.item())
            results.append(losses)
    assert results[1] == pytest.approx(results[0], rel=LOOSE[dtype])
    for (key, one), other in zip(first.state_dict().items(), second.state_dict().values(), strict=True):
        assert other.dtype == one.dtype
        torch.testing.assert_close(other, one, rtol=LOOSE[dtype], atol=LOOSE[dtype], msg=lambda m, k=key: f"{k}: {m}")
    assert all(graph.lowered.runner.runs[2] > 0 for graph in made.graphs)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_inference(dtype):
    """A recording is specific to its dtypes: autocast on, off, and on again."""
    net = Net().to("sim").eval()
    run = torch.compile(net, backend="hardpoint")
    with torch.no_grad():
        for enabled in (True, False, True, True, False, False, True):
            x = torch.randn(2, 3, 6, 6, device="sim")
            with torch.autocast("sim", dtype=dtype, enabled=enabled):
                found, expected = run(x), net(x)
            assert found.dtype == expected.dtype == (dtype if enabled else torch.float32)
            loose = LOOSE[dtype] if enabled else 1e-5
            torch.testing.assert_close(found, expected, rtol=loose, atol=loose)
