"""Times of work on a GPU, for the other parts of h200.py."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

Work = Callable[[], object]

#: How often all of a table is measured, in turn; the shortest time counts. Machines are disturbed for seconds on end.
ROUNDS = 3


def wait(device: str) -> None:
    import torch

    (torch.cuda if device == "cuda" else torch.accelerator).synchronize()


def seconds(device: str, work: Work, least: float = 0.3) -> float:
    """Of a call, when calls follow each other: the median of five rounds, each waited for at its end."""
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
