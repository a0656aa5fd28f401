"""Cost of the debugging tools on one small operator and on a training step of a small transformer.

python benchmarks/observers.py [--json]

A disabled tool costs one byte load per call, as `benchmarks/dispatch.py` shows between two builds. Here "other
operators watched" measures it: a tool is on, but for an operator that is not called.
"""

from __future__ import annotations

import sys

sys.path.pop(0)  # this folder has a copy.py that would shadow the standard module

import argparse
import contextlib
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

import hardpoint
from hardpoint.torch import _adapter

ROUNDS = 5
#: Target of the recording tool; nothing is written, because no call fails.
FOLDER = tempfile.gettempdir()

TOOLS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "off": contextlib.nullcontext,
    "rules for other operators": lambda: hardpoint.fallback("erfinv"),
    "other operators watched": lambda: hardpoint.dump(1, ops="erfinv"),
    "dump, level 1": lambda: hardpoint.dump(1, file="/dev/null"),
    "dump, level 2": lambda: hardpoint.dump(2, file="/dev/null"),
    "leaks": hardpoint.leaks,
    "NaN and Inf": lambda: hardpoint.watch_nan("all", file="/dev/null"),
    "record, failing calls": lambda: hardpoint.record(FOLDER, calls="failing"),
    "compare": lambda: hardpoint.compare("mismatches"),
}
#: Tools that do not intercept the measured calls.
CHEAP = ("off", "rules for other operators", "other operators watched")


def small_operator(device: str) -> dict[str, float]:
    """Nanoseconds of a 2x3 addition from C++: the best of interleaved rounds."""
    native = _adapter.load()
    x, y = torch.randn(2, 3, device=device), torch.randn(2, 3, device=device)
    best = dict.fromkeys(TOOLS, float("inf"))
    for _ in range(ROUNDS):
        for name, tool in TOOLS.items():
            calls = 100_000 if name in CHEAP else 100
            with tool():
                best[name] = min(best[name], native.time_add(x, y, calls, False))
    return best


def training_step(device: str) -> dict[str, float]:
    """Milliseconds of a training step of a two-layer transformer: the best of interleaved rounds."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 2), torch.nn.Linear(64, 10)).to(device)
    x, y = torch.randn(8, 16, 64, device=device), torch.randint(10, (8 * 16,), device=device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> float:
        start = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y).backward()
        optimizer.step()
        getattr(torch, device).synchronize()
        return (time.perf_counter() - start) * 1e3

    best = dict.fromkeys(TOOLS, float("inf"))
    for _ in range(ROUNDS):
        for name, tool in TOOLS.items():
            with tool():
                best[name] = min(best[name], step())
    return best


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = hardpoint.mounted()[0]
    operator, step = small_operator(device), training_step(device)
    rows = [
        {
            "tool": name,
            "operator_ns": operator[name],
            "operator_ratio": operator[name] / operator["off"],
            "step_ms": step[name],
            "step_ratio": step[name] / step["off"],
        }
        for name in TOOLS
    ]
    if options.json:
        print(json.dumps(rows))
        return
    print(
        f"On {device}: one small operator (float32, 2x3, C++), and a step of a transformer; best of {ROUNDS} rounds.\n"
    )
    print(f"{'':28}{'operator ns':>14}{'ratio':>9}{'step ms':>12}{'ratio':>9}")
    for row in rows:
        print(
            f"{row['tool']:28}{row['operator_ns']:14.0f}{row['operator_ratio']:9.2f}"
            f"{row['step_ms']:12.1f}{row['step_ratio']:9.2f}"
        )


if __name__ == "__main__":
    main()
