"""``torch.compile(mode="reduce-overhead")`` on sim: compiled functions run as device graphs."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

pytestmark = pytest.mark.slow

library = torch.library.Library("hpreducetest", "DEF")
library.define("on_cpu(Tensor x) -> Tensor")
library.impl("on_cpu", lambda x: x * 3, "CPU")
library.impl("on_cpu", lambda x: torch.empty_like(x), "Meta")


def test_forward(triton_calls):
    def f(x, w):
        return F.gelu(x @ w).sum(-1), x + 1

    compiled = torch.compile(f, mode="reduce-overhead")
    w = torch.randn(32, 48)
    device_w = w.to("sim")
    for step in range(7):
        x = torch.randn(16, 32, generator=torch.Generator().manual_seed(step))
        got = compiled(x.to("sim"), device_w)
        for g, want in zip(got, f(x, w), strict=True):
            torch.testing.assert_close(g.cpu(), want, rtol=1e-5, atol=1e-5)
        if step == 2:  # the results of one call are alive during the next: two graphs take turns
            launches = triton_calls()[0]
    assert launches > 0
    assert triton_calls() == (launches, [])  # replays launch nothing from Python


def test_results_that_the_program_keeps():
    compiled = torch.compile(lambda x: x * 2 + 1, mode="reduce-overhead")
    kept = [compiled(torch.full((100,), float(k), device="sim")) for k in range(12)]
    for k, result in enumerate(kept):
        assert torch.equal(result.cpu(), torch.full((100,), 2.0 * k + 1))


def test_in_place():
    def f(x, state):
        state.mul_(0.5).add_(x)
        return state * 2

    compiled = torch.compile(f, mode="reduce-overhead")
    state, mine = torch.ones(50), torch.ones(50, device="sim")
    for k in range(6):
        x = torch.full((50,), float(k))
        assert torch.equal(compiled(x.to("sim"), mine).cpu(), f(x, state))
        assert torch.equal(mine.cpu(), state)


def train(mode, accumulate=1):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 5)).to("sim")
    update = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    compiled = torch.compile(net, mode=mode)
    generator = torch.Generator().manual_seed(1)
    torch.sim.manual_seed(3)
    losses = []
    for step in range(6 * accumulate):
        x = torch.randn(16, 20, generator=generator).to("sim")
        y = torch.randint(5, (16,), generator=generator).to("sim")
        loss = F.cross_entropy(compiled(x), y)
        loss.backward()
        losses.append(loss.item())
        if step % accumulate == accumulate - 1:
            update.step()
            update.zero_grad()
    return losses


@pytest.mark.parametrize("accumulate", [1, 2])
def test_training(accumulate):
    """The losses of the default mode, bit by bit, with gradients that live across two steps."""
    expected = train("default", accumulate)
    torch._dynamo.reset()
    assert train("reduce-overhead", accumulate) == expected
    assert len(set(expected)) == len(expected)


def test_a_function_that_cannot_be_captured(capfd):
    def f(x):
        return torch.ops.hpreducetest.on_cpu(x * 2) + 1

    compiled = torch.compile(f, mode="reduce-overhead")
    x = torch.arange(5.0)
    for _ in range(4):
        assert torch.equal(compiled(x.to("sim")).cpu(), x * 6 + 1)
    lines = [line for line in capfd.readouterr().err.splitlines() if "reduce-overhead" in line]
    assert len(lines) == 1
    assert "hpreducetest::on_cpu: it runs on the CPU" in lines[0]


def test_dynamic_shapes():
    compiled = torch.compile(lambda x: (x * 2).sum(-1), mode="reduce-overhead", dynamic=True)
    for rows in (3, 3, 3, 7, 7, 7, 3):
        x = torch.randn(rows, 10, generator=torch.Generator().manual_seed(rows))
        torch.testing.assert_close(compiled(x.to("sim")).cpu(), (x * 2).sum(-1), rtol=1e-5, atol=1e-5)
