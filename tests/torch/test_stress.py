"""Long runs: no leaks of device memory, no growth of the process."""

from __future__ import annotations

import gc
import random
import resource
import threading

import pytest
import torch


def _resident_kib() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() // 1024


@pytest.mark.slow
def test_a_million_small_operators_leave_nothing() -> None:
    x, y = torch.randn(2, 3, device="sim"), torch.randn(2, 3, device="sim")
    expected = (x.cpu() + y.cpu()) * y.cpu()
    for _ in range(10_000):
        z = (x + y) * y
    torch.sim.synchronize()
    gc.collect()
    allocated, resident = torch.sim.memory_allocated(), _resident_kib()
    for _ in range(500_000):
        z = (x + y) * y
    torch.sim.synchronize()
    gc.collect()
    assert torch.equal(z.cpu(), expected)
    assert torch.sim.memory_allocated() == allocated
    assert _resident_kib() - resident < 8 * 1024


@pytest.mark.slow
def test_ten_thousand_allocation_patterns_from_several_threads() -> None:
    torch.sim.synchronize()
    gc.collect()
    torch.sim.empty_cache()
    before = {i: torch.sim.memory_allocated(i) for i in range(2)}
    errors: list[str] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        device = f"sim:{seed % 2}"
        stream = torch.Stream(device)
        held: list[tuple[torch.Tensor, int]] = []
        with stream:
            for step in range(2500):
                action = rng.random()
                if action < 0.6 or not held:
                    tensor = torch.empty(int(2 ** rng.uniform(0, 18)), dtype=torch.uint8, device=device)
                    value = rng.randrange(256)
                    tensor.fill_(value)
                    held.append((tensor, value))
                else:
                    tensor, value = held.pop(rng.randrange(len(held)))
                    if action < 0.65:
                        tensor.record_stream(torch.sim.default_stream(device))
                    if step % 7 == 0 and not bool((tensor.cpu() == value).all()):
                        errors.append(f"{device}: a tensor of {tensor.numel()} bytes lost its value {value}")
                    del tensor
                if len(held) > 64:
                    held = held[32:]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for i in range(2):
        torch.sim.synchronize(i)
    gc.collect()
    torch.sim.empty_cache()
    assert {i: torch.sim.memory_allocated(i) for i in range(2)} == before
    for i in range(2):
        stats = torch.sim.memory_stats(i)
        assert stats["active_bytes.all.current"] == before[i]
        assert before[i] > 0 or stats["reserved_bytes.all.current"] == 0


@pytest.mark.slow
def test_training_does_not_grow() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to("sim")
    optimizer = torch.optim.AdamW(model.parameters())
    data, target = torch.randn(8, 16, device="sim"), torch.randint(4, (8,), device="sim")

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(data), target).backward()
            optimizer.step()

    steps(50)
    gc.collect()
    allocated, resident = torch.sim.memory_allocated(), _resident_kib()
    steps(500)
    gc.collect()
    assert torch.sim.memory_allocated() == allocated
    assert _resident_kib() - resident < 8 * 1024
