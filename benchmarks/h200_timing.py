"""GPU timing for h200.py."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

Work = Callable[[], object]

#: Passes over a whole table, of which the best time counts: disturbances last for seconds.
ROUNDS = 3


def wait(device: str) -> None:
    import torch

    (torch.cuda if device == "cuda" else torch.accelerator).synchronize()


def seconds(device: str, work: Work, least: float = 0.3) -> float:
    """Seconds per call of back-to-back calls: the median of five rounds."""
    for _ in range(3):
        work()
    wait(device)
    start = time.perf_counter()
    work()
    wait(device)
    calls = max(1, round(least / 5 / max(time.perf_counter() - start, 1e-6)))
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        wait(device)
        rounds.append((time.perf_counter() - start) / calls)
    return statistics.median(rounds)
