"""Device memory: the peak of a training step is what its tensors need, and many steps do not grow it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from model_zoo import CASES, OPTIMIZERS, resnet
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

GRANULARITY = 512  # of the caching allocator


class LiveBytes(TorchDispatchMode):
    """Total size of live storages, each rounded up as the allocator does."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._seen: set[int] = set()

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._seen:
            return
        size = -(-storage.nbytes() // GRANULARITY) * GRANULARITY
        self._seen.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._remove, key, size)

    def _remove(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.now -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for result in tree_leaves(results):
            if isinstance(result, torch.Tensor):
                self.add(result)
        return results


def two_steps(device: str, live: LiveBytes | None) -> None:
    """A training step that creates the optimizer state, then the measured one."""
    torch.manual_seed(0)
    case = CASES["resnet18"]
    model = resnet("basic", [2, 2, 2, 2]).to(device)
    batch = {k: v.to(device) for k, v in case.batch(torch.Generator().manual_seed(1)).items()}
    update = OPTIMIZERS["sgd-foreach"](model.parameters())

    def step() -> None:
        update.zero_grad()
        case.loss(model, batch).backward()
        update.step()

    if live is None:
        step()
        torch.sim.synchronize()
        torch.sim.reset_peak_memory_stats()
        step()
        return
    for tensor in [*model.parameters(), *model.buffers(), *batch.values()]:
        live.add(tensor)
    with live:
        step()
        live.peak = live.now
        step()


def test_live_bytes():
    live = LiveBytes()
    with live:
        a = torch.ones(1000)  # 4000 bytes: 4096
        b = a.view(10, 100)
        c = a + b.flatten()
        assert live.now == 2 * 4096
        del a, b
        assert live.now == 4096
        del c
    assert (live.now, live.peak) == (0, 2 * 4096)


@pytest.mark.slow
def test_peak_of_a_training_step():
    live = LiveBytes()
    two_steps("cpu", live)
    gc.collect()
    before = torch.sim.memory_allocated()
    two_steps("sim", None)
    peak = torch.sim.max_memory_allocated() - before
    assert peak == pytest.approx(live.peak, rel=0.1)


@pytest.mark.slow
def test_no_growth_over_many_steps():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10)).to("sim")
    update = torch.optim.AdamW(net.parameters())
    x, y = torch.randn(8, 1, 8, 8).to("sim"), torch.randint(10, (8,)).to("sim")
    allocated, reserved = [], []
    for step in range(200):
        update.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        update.step()
        if step % 20 == 19:
            torch.sim.synchronize()
            allocated.append(torch.sim.memory_allocated())
            reserved.append(torch.sim.memory_reserved())
    assert len(set(allocated)) == 1
    assert reserved[1:] == reserved[1:2] * 9
