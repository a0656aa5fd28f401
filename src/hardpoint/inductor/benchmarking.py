"""Timing of kernel variants for Inductor, with the device's events. torch.cuda's events would time another device."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from typing import Any

import torch

#: Bytes to overwrite between two calls if the plug-in does not report its cache size.
CACHE_BYTES = 1 << 20


def register(name: str) -> None:
    """Time on the device unless the caller asks for another one."""
    from torch._inductor.runtime import benchmarking

    if (register_benchmarker := getattr(benchmarking, "register_benchmarker", None)) is not None:  # torch 2.12

        def measure_named(self: Any, call: Callable[[], Any], **options: Any) -> Any:
            return self.benchmark_gpu(call, device_type=name, **options)

        register_benchmarker(name, measure_named, override=True)
    owner = type(benchmarking.benchmarker)
    original = owner.benchmark_gpu

    @functools.wraps(original)
    def benchmark_gpu(self: Any, call: Callable[[], Any], *given: Any, device_type: Any = None, **options: Any) -> Any:
        if device_type is None or str(device_type) == name:
            return measure(name, call, **options)
        return original(self, call, *given, device_type=device_type, **options)

    owner.benchmark_gpu = benchmark_gpu


def measure(
    name: str,
    call: Callable[[], Any],
    estimation_iters: int = 5,
    benchmark_iters: int = 100,
    max_benchmark_duration: float = 25,
    return_mode: str = "min",
    **ignored: Any,
) -> Any:
    """Milliseconds per call with a cold cache: the minimum, the median or the mean, or all of them."""
    module = getattr(torch, name)
    cache = module.get_device_properties(module.current_device()).L2_cache_size or CACHE_BYTES
    buffer = torch.empty(2 * cache // 4, dtype=torch.int32, device=torch.device(name, module.current_device()))

    def times(count: int) -> list[float]:
        events = [(module.Event(enable_timing=True), module.Event(enable_timing=True)) for _ in range(count)]
        for start, end in events:
            buffer.zero_()
            start.record()
            call()
            end.record()
        module.synchronize()
        return [start.elapsed_time(end) for start, end in events]

    call()
    module.synchronize()
    estimate = max(min(times(max(estimation_iters, 1))), 1e-4)
    found = times(max(1, min(benchmark_iters, int(max_benchmark_duration / estimate))))
    if return_mode == "all":
        return found
    summary = {"median": statistics.median, "mean": statistics.mean}.get(return_mode, min)
    return summary(found)
