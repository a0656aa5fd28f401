"""Times of two ways to do the same work, taken in turn while no other process disturbs them.

With HARDPOINT_SIM_THREADS=1 they are processor times, which need no quiet machine.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path

#: Rounds of each side, within this many seconds.
MOST, BUDGET = 100, 1.0
#: They go on until each side has had this many quiet rounds, or for this many seconds.
QUIET, PATIENCE = 5, 2.0
#: Processor time says nothing of work that is shared among threads, but other processes hardly touch it.
ALONE = os.environ.get("HARDPOINT_SIM_THREADS") == "1"
clock = time.process_time if ALONE else time.perf_counter
TIMES = "processor time of one thread" if ALONE else "wall-clock time"
#: How long the calls of one round take. Waking threads and waiting for them is to be a small part of wall-clock time.
ROUND = 5e-4 if ALONE else 5e-3
#: Before each round. The other side's threads spin until then, and a thread that has slept is given a core at once.
PAUSE = 2e-3
#: The share of a round for which its threads may have waited for a core.
SHARE = 0.1


def waited() -> float:
    """Seconds for which this process's threads were ready to run and had no core, since they started."""
    total = 0
    for task in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[1])
        except OSError:  # the thread has ended
            continue
    return total * 1e-9


class Side:
    """The work on one device: the best time of a call, from quiet rounds if there are any.

    A round is quiet if no thread had to wait for a core. One that had to, because of another process, makes a kernel
    that is shared among threads tens of times slower, which says nothing about the kernel.
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
        """A few calls, after one that wakes the threads."""
        time.sleep(PAUSE)
        self._run(1)
        before = waited()
        start = clock()
        self._run(self.calls)
        seconds = clock() - start
        self.best = min(self.best, seconds / self.calls)
        if ALONE or waited() - before <= SHARE * seconds:
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
    """Rounds of the sides in turn, so that a busy moment of the machine does not fall on one of them alone."""
    start = time.perf_counter()
    for rounds in range(1, 100_000):
        for side in sides:
            side.round()
        passed = time.perf_counter() - start
        enough = all(side.quiet >= QUIET for side in sides) and (rounds >= MOST or passed > BUDGET)
        if enough or passed > patience:
            return
