"""Interleaved timing of several implementations, using rounds that other processes did not disturb.

With HARDPOINT_SIM_THREADS=1 it uses CPU time, which needs no quiet machine.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path

#: Max rounds per side, and seconds for them.
MAX_ROUNDS, BUDGET = 100, 1.0
#: Rounds continue until each side has had this many quiet ones, or for this many seconds. BENCHMARK_PATIENCE sets the
#: seconds of all benchmarks, for tests that check everything but the times.
QUIET, PATIENCE = 5, 2.0
#: CPU time is insensitive to other processes, but meaningless for multithreaded work.
SINGLE_THREADED = os.environ.get("HARDPOINT_SIM_THREADS") == "1"
clock = time.process_time if SINGLE_THREADED else time.perf_counter
TIMES = "CPU time of one thread" if SINGLE_THREADED else "wall-clock time"
#: Seconds per round. Waking the threads should be a small part of it.
ROUND = 5e-4 if SINGLE_THREADED else 5e-3
#: Seconds before each round, until the other side's threads stop spinning. A thread that slept gets a core immediately.
PAUSE = 2e-3
#: Max share of a quiet round in which threads waited for a core.
MAX_WAIT = 0.1


def waited() -> float:
    """Total seconds in which threads of this process were runnable but had no core."""
    total = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[1])
        except OSError:  # the thread has ended
            continue
    return total * 1e-9


class Side:
    """Best time per call of one implementation, from quiet rounds if there are any.

    A round is quiet if no thread had to wait for a core. A thread that waits for another process can make a
    multithreaded kernel tens of times slower.
    """

    def __init__(
        self, work: Callable[[], object], synchronize: Callable[[], object] = lambda: None, length: float = ROUND
    ) -> None:
        self._work, self._synchronize = work, synchronize
        self.calls, self.quiet = 1, 0
        self.best = self.best_quiet = math.inf
        for _ in range(3):
            self.round()
        self.calls = max(1, int(length / self.best))

    def round(self) -> None:
        """Time a few calls, after one that wakes the threads."""
        time.sleep(PAUSE)
        self._run(1)
        before = waited()
        start = clock()
        self._run(self.calls)
        seconds = clock() - start
        self.best = min(self.best, seconds / self.calls)
        if SINGLE_THREADED or waited() - before <= MAX_WAIT * seconds:
            self.quiet += 1
            self.best_quiet = min(self.best_quiet, seconds / self.calls)

    def _run(self, calls: int) -> None:
        for _ in range(calls):
            self._work()
        self._synchronize()

    @property
    def seconds(self) -> float:
        return self.best_quiet if self.quiet else self.best


def interleave(*sides: Side, patience: float = PATIENCE) -> None:
    """Run rounds of the sides in turn, so that a busy moment of the machine affects all of them."""
    patience = float(os.environ.get("BENCHMARK_PATIENCE", patience))
    start = time.perf_counter()
    for rounds in range(1, 100_000):
        for side in sides:
            side.round()
        passed = time.perf_counter() - start
        enough = all(side.quiet >= QUIET for side in sides) and (rounds >= MAX_ROUNDS or passed > BUDGET)
        if enough or passed > patience:
            return
