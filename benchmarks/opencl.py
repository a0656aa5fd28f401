"""Kernels and training steps on an OpenCL device against torch on the CPU in the same run.

python benchmarks/opencl.py [--only TEXT] [--json]
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # to the end: this folder has a copy.py that would shadow the standard module

import os

os.environ["HARDPOINT_DEVICE"] = "ocl"  # read when torch is imported

import argparse
import json
import re
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import hardpoint
from quiet import Side, interleave

THREADS = 2
Work = Callable[[], object]


def _with(function: Callable[..., object], *shapes: tuple[int, ...]) -> Callable[[str], Work]:
    def made(device: str) -> Work:
        torch.manual_seed(0)
        inputs = [torch.randn(shape).to(device) for shape in shapes]
        return lambda: function(*inputs)

    return made


def digits_step(device: str) -> Work:
    """Training step of a small net on 64 images of 8x8."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
    model = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(256, 10)).to(device)
    update = torch.optim.Adam(model.parameters(), fused=True)
    images, labels = torch.randn(64, 1, 8, 8).to(device), torch.randint(10, (64,)).to(device)

    def run() -> None:
        update.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        update.step()

    return run


def resnet_step(device: str) -> Work:
    from models import make_step

    return make_step("resnet18", device)


CASES: dict[str, Callable[[str], Work]] = {
    "add, 1,000": _with(torch.add, (1000,), (1000,)),
    "add, 1,000,000": _with(torch.add, (1000000,), (1000000,)),
    "exp, 1,000,000": _with(torch.exp, (1000000,)),
    "sum of rows, 1024 x 1024": _with(lambda x: x.sum(1), (1024, 1024)),
    "softmax, 1024 x 1024": _with(lambda x: x.softmax(1), (1024, 1024)),
    "layer norm, 1024 x 1024": _with(lambda x: F.layer_norm(x, (1024,)), (1024, 1024)),
    "matrix product, 512": _with(torch.mm, (512, 512), (512, 512)),
    "convolution, 64 channels of 56 x 56": _with(
        lambda x, w: F.conv2d(x, w, padding=1), (1, 64, 56, 56), (64, 64, 3, 3)
    ),
    "digits net, a training step": digits_step,
    "ResNet-18, a training step": resnet_step,
}


def measure(name: str) -> dict[str, Any]:
    """Times in microseconds, and the operators that fell back to the CPU."""
    sides = Side(CASES[name]("ocl"), torch.accelerator.synchronize), Side(CASES[name]("cpu"))
    hardpoint.reset_counters()
    sides[0].round()
    cpu = sorted(operator for operator, calls in hardpoint.counters().items() if calls.get("cpu"))
    interleave(*sides)
    ours, native = (side.seconds * 1e6 for side in sides)
    quiet = all(side.quiet for side in sides)
    result = {"name": name, "device_us": ours, "native_us": native, "ratio": ours / native}
    return {**result, "quiet": quiet, "cpu_operators": cpu}


def main() -> None:
    """Print the times of each case on both sides and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name matches this regular expression")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if "ocl" not in hardpoint.mounted():
        raise SystemExit("no OpenCL device: see the warning above and docs/howto/opencl.md")
    torch.set_num_threads(THREADS)
    if not options.json:
        print(f"{torch.get_device_module('ocl').get_device_properties(0).name}, against native torch CPU with")
        print(
            f"{THREADS} threads; wall-clock time, best of interleaved rounds. ~: other processes disturbed every round."
        )
        print(f"\n{'':36}{'device us':>12}{'native us':>12}{'ratio':>9}  operators in the CPU tier")
    results = []
    for name in CASES:
        if not re.search(options.only, name):
            continue
        r = measure(name)
        results.append(r)
        if not options.json:
            ratio = f"{'' if r['quiet'] else '~'}{r['ratio']:.2f}"
            print(
                f"{name:36}{r['device_us']:12.1f}{r['native_us']:12.1f}{ratio:>9}  {len(r['cpu_operators'])}",
                flush=True,
            )
    if options.json:
        print(json.dumps({"threads": THREADS, "cases": results}))


if __name__ == "__main__":
    main()
