"""Dispatch cost of one small operator on the simulated device against torch on the CPU in the same run.

python benchmarks/dispatch.py [--json]
"""

from __future__ import annotations

import sys

sys.path.pop(0)  # this folder has a copy.py that would shadow the standard module

import argparse
import json
import timeit
import warnings
from collections.abc import Callable

import torch

import hardpoint
from hardpoint.torch import _adapter

warnings.filterwarnings("ignore", message=".* runs on the CPU")

ROUNDS = 3


def python_ns(function: Callable[[], object], calls: int) -> float:
    """Nanoseconds per call from Python: the best of several runs."""
    return min(timeit.repeat(function, number=calls, repeat=5)) / calls * 1e9


def measure() -> list[tuple[str, float, float, float | None]]:
    """Rows of (name, nanoseconds on the device, nanoseconds on the CPU, goal for their ratio)."""
    torch.set_num_threads(1)
    native = _adapter.load()
    device = hardpoint.mounted()[0]
    a, b, out = torch.randn(2, 3), torch.randn(2, 3), torch.empty(2, 3)
    x, y, z = a.to(device), b.to(device), out.to(device)
    c, p = a[:1, :1].clone(), x[:1, :1].clone()
    calls = 100_000

    rows: list[tuple[str, float, float, float | None]] = []

    def both(what: str, run: Callable[[bool], float], goal: float | None) -> None:
        # Interleaved, so that a busy moment of the machine affects both sides.
        times = [(run(True), run(False)) for _ in range(ROUNDS)]
        rows.append((what, min(t[0] for t in times), min(t[1] for t in times), goal))

    both("add, C++", lambda on: native.time_add(*((x, y) if on else (a, b)), calls, False), 1.0)
    both("add, C++, inference mode", lambda on: native.time_add(*((x, y) if on else (a, b)), calls, True), 1.0)
    both("add, C++, out=", lambda on: native.time_add_out(*((x, y, z) if on else (a, b, out)), calls), 1.0)
    both("add, Python", lambda on: python_ns((lambda: x + y) if on else (lambda: a + b), calls // 2), 1.0)
    both(
        "add, Python, with a number", lambda on: python_ns((lambda: x + 2) if on else (lambda: a + 2), calls // 2), None
    )
    both("empty, C++", lambda on: native.time_empty(x if on else a, calls), 1.0)
    both("sub, Python, portable kernel", lambda on: python_ns((lambda: x - y) if on else (lambda: a - b), 10_000), None)
    # sim declines such copies in each call, and the portable kernel takes them.
    m, n = torch.randn(64, 64, device=device), torch.randn(64, 64)
    s, t = torch.empty_like(m).t(), torch.empty_like(n).t()
    both(
        "copy, Python, declined",
        lambda on: python_ns((lambda: m.copy_(s)) if on else (lambda: n.copy_(t)), 10_000),
        None,
    )
    both(
        "cross, Python, decomposition",
        lambda on: python_ns((lambda: torch.linalg.cross(x, y)) if on else (lambda: torch.linalg.cross(a, b)), 2_000),
        None,
    )
    both(
        "eigenvalue of 1 x 1, Python, CPU tier",
        lambda on: python_ns((lambda: torch.linalg.eigvals(p)) if on else (lambda: torch.linalg.eigvals(c)), 10_000),
        None,
    )

    @hardpoint.kernel("add")
    def kernel(out: object, left: object, right: object, alpha: object) -> None:
        """Does nothing: this measures the call overhead."""

    both("add, C++, kernel in Python", lambda on: native.time_add(*((x, y) if on else (a, b)), calls // 5, False), None)
    kernel.remove()
    return rows


def main() -> None:
    """Print a table with one ratio per row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    rows = measure()
    if options.json:
        print(
            json.dumps([{"what": w, "device_ns": d, "native_ns": n, "ratio": d / n, "goal": g} for w, d, n, g in rows])
        )
        return
    print(
        f"One small operator (float32, 2x3) on {hardpoint.mounted()[0]}, against native torch CPU; one thread, best of"
    )
    print(f"{ROUNDS} interleaved rounds. The goal for a kernel in Python is 5000 ns.\n")
    print(f"{'':32}{'device ns':>12}{'native ns':>12}{'ratio':>8}{'goal':>8}")
    for what, device, native, goal in rows:
        print(f"{what:32}{device:12.0f}{native:12.0f}{device / native:8.2f}{'' if goal is None else f'<= {goal}':>8}")


if __name__ == "__main__":
    main()
