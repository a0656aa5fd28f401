"""Training steps of ResNet-18 and a small GPT on the simulated device against torch on the CPU in the same run.

python benchmarks/models.py [--only NAME] [--json] [--profile]
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # to the end: this folder has a copy.py that would shadow the standard module

import os

os.environ.setdefault("HARDPOINT_SIM_THREADS", "2")  # read when the device is mounted
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # models are built from configurations, without downloads

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode

import hardpoint
import model_configs
from quiet import TIMES, Side, interleave

warnings.filterwarnings("ignore", message=".* runs on the CPU")
transformers.logging.set_verbosity_error()

THREADS = int(os.environ["HARDPOINT_SIM_THREADS"])
GOAL = 1.5
PATIENCE = 20.0  # max seconds to find quiet rounds
PROFILED_STEPS = 5

Step = Callable[[], object]


def resnet18(device: str) -> Step:
    """8 images of 64x64; SGD with momentum."""
    model = model_configs.resnet18(64, 100).to(device).train()
    batch = {"pixel_values": torch.randn(8, 3, 64, 64).to(device), "labels": torch.randint(100, (8,)).to(device)}
    return step(model, batch, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True))


def gpt(device: str) -> Step:
    """4 layers of width 256, 4 sequences of 128 tokens; AdamW."""
    model = model_configs.gpt2(256, 2048).to(device).train()
    ids = torch.randint(2048, (4, 128)).to(device)
    return step(model, {"input_ids": ids, "labels": ids}, torch.optim.AdamW(model.parameters(), fused=True))


MODELS = {"resnet18": resnet18, "gpt": gpt}


def step(model: torch.nn.Module, batch: dict[str, torch.Tensor], update: torch.optim.Optimizer) -> Step:
    """A training step. Both sides use a fused optimizer, the fastest kind on the CPU."""

    def run() -> None:
        update.zero_grad()
        model(**batch).loss.backward()
        update.step()

    return run


def make_step(name: str, device: str) -> Step:
    torch.manual_seed(0)
    return MODELS[name](device)


def measure(name: str) -> dict[str, Any]:
    """Milliseconds per step, and the operators that fell back to the CPU."""
    sides = Side(make_step(name, hardpoint.mounted()[0]), torch.accelerator.synchronize), Side(make_step(name, "cpu"))
    hardpoint.reset_counters()
    sides[0].round()
    cpu = {operator: calls["cpu"] for operator, calls in sorted(hardpoint.counters().items()) if calls.get("cpu")}
    interleave(*sides, patience=PATIENCE)
    ours, native = (side.seconds * 1e3 for side in sides)
    quiet = all(side.quiet for side in sides)
    result = {"model": name, "device_ms": ours, "native_ms": native, "ratio": ours / native, "goal": GOAL}
    return {**result, "quiet": quiet, "cpu_operators": cpu}


# ---- Profile by operator


class OperatorTimes(TorchDispatchMode):
    """Seconds and tiers of each ATen call; synchronizes after every call."""

    def __init__(self, synchronize: Callable[[], object]) -> None:
        super().__init__()
        self.synchronize = synchronize
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.tiers: defaultdict[str, set[str]] = defaultdict(set)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        hardpoint.reset_counters()
        self.synchronize()
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        self.synchronize()
        self.seconds[name].append(time.perf_counter() - start)
        self.tiers[name].update(t for calls in hardpoint.counters().values() for t, n in calls.items() if n)
        return result


def profile(name: str, repeats: int) -> list[dict[str, Any]]:
    """Operators of a step on both sides, largest loss first; the best of a few steps for each call."""
    waits: tuple[Callable[[], object], ...] = (torch.accelerator.synchronize, lambda: None)
    steps = [make_step(name, device) for device in (hardpoint.mounted()[0], "cpu")]
    for run in steps:
        run()  # compiles kernels and creates the optimizer state
    best: tuple[dict[str, list[float]], ...] = ({}, {})
    tiers: dict[str, set[str]] = {}
    for _ in range(repeats):
        for run, wait, times in zip(steps, waits, best, strict=True):
            with OperatorTimes(wait) as taken:
                run()
            for operator, seconds in taken.seconds.items():
                times[operator] = [min(pair) for pair in zip(seconds, times.get(operator, seconds), strict=True)]
            tiers = tiers or taken.tiers
    rows = []
    for operator in best[0].keys() | best[1].keys():
        ours, native = (times.get(operator, []) for times in best)
        row = {"operator": operator, "calls": len(ours), "native_calls": len(native)}
        row |= {
            "device_ms": sum(ours) * 1e3,
            "native_ms": sum(native) * 1e3,
            "tier": "+".join(sorted(tiers.get(operator, ()))),
        }
        rows.append({**row, "difference_ms": (sum(ours) - sum(native)) * 1e3})
    return sorted(rows, key=lambda row: -row["difference_ms"])


def print_profile(name: str, rows: list[dict[str, Any]], repeats: int) -> None:
    print(f"\n{name}: operators of one step, synchronized after each call, best of {repeats}\n")
    print(f"{'calls: device, native':>59}{'device ms':>11}{'native ms':>11}{'loss ms':>10}  tier")
    for r in rows:
        numbers = f"{r['device_ms']:11.3f}{r['native_ms']:11.3f}{r['difference_ms']:10.3f}"
        print(f"{r['operator']:46}{r['calls']:6}{r['native_calls']:7}{numbers}  {r['tier']}".rstrip())
    ours, native = (sum(r[key] for r in rows) for key in ("device_ms", "native_ms"))
    counts = f"{sum(r['calls'] for r in rows):6}{sum(r['native_calls'] for r in rows):7}"
    print(f"{'all':46}{counts}{ours:11.3f}{native:11.3f}{ours - native:10.3f}")


def main() -> None:
    """Print the ratio of each model's training step or, with --profile, its operators."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=MODELS, help="this model only")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--profile",
        nargs="?",
        type=int,
        const=PROFILED_STEPS,
        metavar="STEPS",
        help=f"time each operator of this many steps ({PROFILED_STEPS}) instead of the step",
    )
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    names = [options.only] if options.only else list(MODELS)
    if options.profile:
        profiles = {name: profile(name, options.profile) for name in names}
        if options.json:
            print(json.dumps(profiles))
        else:
            for name, rows in profiles.items():
                print_profile(name, rows, options.profile)
        return
    if not options.json:
        print(f"A training step on {hardpoint.mounted()[0]}, against native torch CPU; threads: {THREADS} each;")
        print(f"{TIMES}, best of interleaved rounds. ~: other processes disturbed every round.\n")
        print(f"{'':12}{'device ms':>11}{'native ms':>11}{'ratio':>9}{'goal':>8}  operators in the CPU tier (calls)")
    results = []
    for name in names:
        r = measure(name)
        results.append(r)
        if not options.json:
            ratio = f"{'' if r['quiet'] else '~'}{r['ratio']:.2f}"
            cpu = f"{len(r['cpu_operators'])} ({sum(r['cpu_operators'].values())})"
            times = f"{r['device_ms']:11.1f}{r['native_ms']:11.1f}"
            print(f"{name:12}{times}{ratio:>9}{f'<= {GOAL}':>8}  {cpu}", flush=True)
    if options.json:
        print(json.dumps({"threads": THREADS, "models": results}))


if __name__ == "__main__":
    main()
