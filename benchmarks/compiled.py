"""Triton kernels against Hardpoint's own, and torch.compile(model) against eager mode, on the simulated device.

python benchmarks/compiled.py [--only TEXT] [--json]

Both sides run interleaved in one process with one thread, measured in CPU time.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # to the end: this folder has a copy.py that would shadow the standard module

import os

os.environ.setdefault("HARDPOINT_SIM_THREADS", "1")  # read when the device is mounted
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # models are built from configurations, without downloads
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import argparse
import contextlib
import json
import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

import hardpoint
import model_configs
from quiet import TIMES, Side, interleave

warnings.filterwarnings("ignore", message=".* runs on the CPU")
logging.getLogger("torch").setLevel(logging.ERROR)

#: Largest time of a Triton kernel, relative to that of the portable kernel.
KERNEL_GOAL = 2.0
PATIENCE = 6.0  # max seconds to find quiet rounds
WARM_UP = 4

Work = Callable[[], object]


@triton.jit
def softmax_kernel(x, out, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * columns + i, powers / tl.sum(powers, 0), mask=i < columns)


@triton.jit
def layer_norm_kernel(x, out, weight, bias, columns, epsilon, BLOCK: tl.constexpr):
    """In blocks, as the tutorial does."""
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + i, mask=i < columns, other=0.0)
    mean = tl.sum(total, 0) / columns
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + i, mask=i < columns, other=0.0)
        values = tl.where(i < columns, values - mean, 0.0)
        squares += values * values
    scale = 1 / tl.sqrt(tl.sum(squares, 0) / columns + epsilon)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        mask = i < columns
        values = tl.load(x + row * columns + i, mask=mask)
        result = (values - mean) * scale * tl.load(weight + i, mask=mask) + tl.load(bias + i, mask=mask)
        tl.store(out + row * columns + i, result, mask=mask)


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    j = (tl.program_id(1) * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    left, right = a + i[:, None] * K + k[None, :], b + k[:, None] * N + j[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        rest = K - step * BK
        x = tl.load(left, mask=k[None, :] < rest, other=0.0)
        total = tl.dot(x, tl.load(right, mask=k[:, None] < rest, other=0.0), total)
        left += BK
        right += BK * N
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    tl.store(c + i[:, None] * N + j[None, :], total, mask=(i[:, None] < M) & (j[None, :] < N))


def softmax(device: str) -> tuple[Work, Work]:
    x = torch.randn(1000, 781, device=device)
    out = torch.empty_like(x)
    return lambda: softmax_kernel[(1000,)](x, out, 781, BLOCK=1024), lambda: torch.softmax(x, 1)


def layer_norm(device: str) -> tuple[Work, Work]:
    x, weight, bias = (torch.randn(*size, device=device) for size in ((1000, 1000), (1000,), (1000,)))
    out = torch.empty_like(x)

    def run() -> None:
        layer_norm_kernel[(1000,)](x, out, weight, bias, 1000, 1e-5, BLOCK=1024)

    return run, lambda: F.layer_norm(x, (1000,), weight, bias)


def matmul(device: str) -> tuple[Work, Work]:
    a, b = torch.randn(512, 512, device=device), torch.randn(512, 512, device=device)
    out = torch.empty_like(a)

    def run() -> None:
        matmul_kernel[(8, 8)](a, b, out, 512, 512, 512, BM=64, BN=64, BK=64)

    return run, lambda: torch.mm(a, b)


KERNELS = {"softmax": softmax, "layer norm": layer_norm, "matmul": matmul}


def digits(device: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A small net on 64 images of 8 x 8."""
    layers = [torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
    net = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(256, 10))

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, images: torch.Tensor, labels: torch.Tensor) -> Any:
            return F.cross_entropy(self.net(images), labels)

    return Net(), {"images": torch.randn(64, 1, 8, 8), "labels": torch.randint(10, (64,))}


def resnet(device: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    batch = {"pixel_values": torch.randn(4, 3, 64, 64), "labels": torch.randint(10, (4,))}
    return model_configs.resnet18(16, 10), batch


def gpt(device: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    ids = torch.randint(512, (2, 64))
    return model_configs.gpt2(128, 512, use_cache=False), {"input_ids": ids, "labels": ids}


MODELS = {"digits net": digits, "resnet18": resnet, "gpt2": gpt}


def step(name: str, device: str, compiled: bool, training: bool) -> Work:
    """A training or inference step."""
    torch.manual_seed(0)
    model, batch = MODELS[name](device)
    model = model.to(device).train(training)
    given = {key: value.to(device) for key, value in batch.items()}
    call: Callable[..., Any] = torch.compile(model) if compiled else model

    def train() -> None:
        model.zero_grad()
        found = call(**given)
        (found if isinstance(found, torch.Tensor) else found.loss).backward()

    def infer() -> None:
        with torch.no_grad():
            call(**given)

    return train if training else infer


def launches(run: Work) -> int:
    """Kernel launches of one run."""
    run()
    hardpoint.reset_counters()
    run()
    return sum(sum(tiers.values()) for tiers in hardpoint.counters().values())


def measure(name: str, runs: tuple[Work, Work]) -> dict[str, Any]:
    for run in runs:
        for _ in range(WARM_UP):
            run()
    counted = [launches(run) for run in runs]
    sides = [Side(run, torch.accelerator.synchronize) for run in runs]
    interleave(*sides, patience=PATIENCE)
    ours, yardstick = (side.seconds * 1e3 for side in sides)
    return {
        "case": name,
        "ms": ours,
        "yardstick_ms": yardstick,
        "ratio": ours / yardstick,
        "launches": counted[0],
        "yardstick_launches": counted[1],
    }


def cases(device: str) -> dict[str, Callable[[], tuple[Work, Work]]]:
    found: dict[str, Callable[[], tuple[Work, Work]]] = {
        f"kernel: {name}": lambda make=make: make(device) for name, make in KERNELS.items()
    }
    for name in MODELS:
        for training in (False, True):
            found[f"model: {name}, {'training' if training else 'inference'}"] = lambda name=name, training=training: (
                step(name, device, True, training),
                step(name, device, False, training),
            )
    return found


def main() -> None:
    """Print one row per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only cases that contain this text")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    if not options.json:
        print(f"{TIMES}, best of interleaved rounds. Kernels: Triton against portable, goal {KERNEL_GOAL:.1f}.")
        print("Models: torch.compile(model) against eager mode, goal below 1.\n")
        print(f"{'':30}{'ms':>10}{'yardstick':>11}{'ratio':>8}{'launches':>15}")
    for name, make in cases(hardpoint.mounted()[0]).items():
        if options.only not in name:
            continue
        torch._dynamo.reset()
        # sim has a vendor kernel for matrix products.
        with hardpoint.fallback("mm=portable") if name == "kernel: matmul" else contextlib.nullcontext():
            found = measure(name, make())
        results.append(found)
        if not options.json:
            counts = f"{found['launches']} / {found['yardstick_launches']}"
            print(
                f"{name:30}{found['ms']:10.3f}{found['yardstick_ms']:11.3f}{found['ratio']:8.2f}{counts:>15}",
                flush=True,
            )
    if options.json:
        print(json.dumps({"cases": results}))


if __name__ == "__main__":
    main()
