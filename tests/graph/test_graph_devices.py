"""Graph mode on other devices: one with only memory, copies and a compiler, and OpenCL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plugin_tools import CC, ROOT, ask_python

from hardpoint._runtime import cache_dir

PROGRAM = """
import copy
import torch
import hardpoint
import hardpoint.torch
from torch import nn
from hardpoint.graph.report import Explanation, _listening

device = hardpoint.torch.mount()
torch.manual_seed(0)
first = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Dropout(0.2), nn.LayerNorm(16), nn.Linear(16, 3)).to(device)
second = copy.deepcopy(first)
data = [(torch.randn(5, 6).to(device), torch.randn(5, 3).to(device)) for _ in range(4)]

def loss(net, x, y):
    return ((net(x).sigmoid() * 2 - 1) - y).square().mean()

made, results = Explanation(), []
with _listening(made):
    for net, function in ((first, loss), (second, torch.compile(loss, backend="hardpoint"))):
        torch.manual_seed(1)
        losses = []
        for x, y in data:
            net.zero_grad()
            value = function(net, x, y)
            value.backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= 0.1 * p.grad
            losses.append(value.item())
        results.append(losses)
    with torch.no_grad():
        run = torch.compile(second, backend="hardpoint")
        second.eval()
        same = [torch.allclose(run(x), second(x), rtol=1e-5, atol=1e-6) for x, _ in data]
pairs = zip(first.parameters(), second.parameters())
answer = {
    "eager": results[0],
    "graph": results[1],
    "parameters": all(torch.allclose(a.cpu(), b.cpu(), rtol=1e-4, atol=1e-6) for a, b in pairs),
    "same": same,
    "replays": [graph.lowered.runner.runs[2] for graph in made.graphs],
    "fused": sum(len(graph.fused) for graph in made.graphs),
    "left_out": [entry for graph in made.graphs for entry in graph.left_out],
    "cpu": [name for name, tiers in hardpoint.counters().items() if tiers.get("cpu")],
}
"""


def check(answer: dict[str, Any]) -> None:
    assert answer["graph"] == pytest.approx(answer["eager"], rel=1e-5)
    assert answer["parameters"]
    assert answer["same"] == [True] * 4
    assert answer["replays"] == [2, 2, 2]
    assert answer["fused"] > 0
    assert answer["left_out"] == []
    assert answer["cpu"] == []


@pytest.mark.slow
def test_device_without_kernels() -> None:
    plugin = ROOT / "tests" / "fixtures" / "compiled.py"
    # Uses the user's cache: compiling takes longer than the rest of the test.
    check(
        ask_python(PROGRAM, cache_dir(), timeout=280, HARDPOINT_PLUGIN_PATH=str(plugin), HARDPOINT_DEVICE="tiny", CC=CC)
    )


@pytest.mark.slow
@pytest.mark.skipif(not list(Path("/etc/OpenCL/vendors").glob("*.icd")), reason="no OpenCL driver is installed")
def test_opencl() -> None:
    check(ask_python(PROGRAM, cache_dir(), timeout=280, HARDPOINT_DEVICE="ocl"))
