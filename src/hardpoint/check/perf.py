"""Mode ``perf``: representative operators timed against torch on the CPU in the same run, with equal results."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import hardpoint
from hardpoint.check import compare
from hardpoint.check.report import Result, Step

Work = Callable[[], Any]

#: Seconds to measure each side of a comparison.
BUDGET = 0.15


def _functional(name: str, *shapes: tuple[int, ...], **kwargs: Any) -> Callable[[str], Work]:
    def prepare(device: str) -> Work:
        torch.manual_seed(0)
        tensors = [torch.randn(shape, device="cpu").to(device) for shape in shapes]
        function = getattr(torch.nn.functional, name, None) or getattr(torch, name)
        return lambda: function(*tensors, **kwargs)

    return prepare


def _training_step(device: str) -> Work:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)]
    net = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.randn(64, 128).to(device), torch.randint(0, 10, (64,)).to(device)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _there_and_back(device: str) -> Work:
    torch.manual_seed(0)
    x = torch.randn(1 << 20)
    return (lambda: x.to(device).cpu()) if device != "cpu" else (lambda: x.clone().clone())


CASES: dict[str, Callable[[str], Work]] = {
    "add, 2x3": _functional("add", (2, 3), (2, 3)),
    "add, 1M": _functional("add", (1 << 20,), (1 << 20,)),
    "gelu, 1M": _functional("gelu", (1 << 20,)),
    "sum, 1024x1024": _functional("sum", (1024, 1024)),
    "softmax, 256x1000": _functional("softmax", (256, 1000), dim=1),
    "matmul, 16x16": _functional("matmul", (16, 16), (16, 16)),
    "matmul, 512x512": _functional("matmul", (512, 512), (512, 512)),
    "conv2d, 8x16x32x32": _functional("conv2d", (8, 16, 32, 32), (32, 16, 3, 3), padding=1),
    "layer_norm, 256x512": _functional("layer_norm", (256, 512), normalized_shape=(512,)),
    "copy there and back, 4 MB": _there_and_back,
    "training step": _training_step,
}


def names(pattern: Callable[[str], bool]) -> list[str]:
    """Names of the cases that match."""
    return [name for name in CASES if pattern(name)]


def _time(work: Work, synchronize: Callable[[], None]) -> float:
    """Seconds per call: the median of several batches."""
    work()
    synchronize()
    start = time.perf_counter()
    work()
    synchronize()
    once = max(time.perf_counter() - start, 1e-7)
    calls = max(1, min(2000, int(BUDGET / 5 / once)))
    batches = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        synchronize()
        batches.append((time.perf_counter() - start) / calls)
    return statistics.median(batches)


def run(name: str, device: str, options: dict[str, Any], step: Step) -> Result:
    """Time one case."""
    result = Result("perf", name, "passed")
    threads = torch.get_num_threads()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    try:
        step("cpu")
        expected = CASES[name]("cpu")()
        native = _time(CASES[name]("cpu"), lambda: None)
        step(device)
        actual = CASES[name](device)().cpu()
        work = CASES[name](device)
        hardpoint.reset_counters()
        ours = _time(work, torch.accelerator.synchronize)
    finally:
        torch.set_num_threads(threads)
    result.add_counters("float32", hardpoint.counters())
    result.dtypes.clear()
    result.detail = f"{ours / native:.2f}x native CPU time ({1e6 * ours:.1f} us, {1e6 * native:.1f} us)"
    # Sums over hundreds of elements, in another order than the CPU's.
    if not torch.allclose(actual, expected, rtol=1e-3, atol=1e-3):
        result.verdict, result.failure = "failed", compare.message(actual, expected, (1e-3, 1e-3))
    if fell := result.cpu_operators():
        result.detail += f"; on the CPU: {', '.join(fell)}"
    return result
