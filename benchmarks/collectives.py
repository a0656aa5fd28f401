"""Collectives between local processes: the plug-in's, host-staged ones, and gloo on CPU tensors.

python benchmarks/collectives.py [--ranks N] [--mebibytes MOST] [--json]

All run interleaved in the same processes with one thread each; the best of several rounds counts. A DDP step is
measured against the same step in as many independent processes.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # to the end: this folder has a copy.py that would shadow the standard module

import os

os.environ.setdefault("HARDPOINT_SIM_THREADS", "1")  # read when the device is mounted
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HARDPOINT_DEVICE", "sim")

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hardpoint  # noqa: F401

#: Min size at which the plug-in must reach gloo's bandwidth.
LARGE = 16 << 20
SECONDS = 1.0  # max time per case
ROUNDS = 20


def best_time(work: Callable[[], Any], finish: Callable[[], Any], group: Any) -> float:
    """Seconds of the fastest round in the slowest process."""
    best, end = float("inf"), time.monotonic() + SECONDS
    for _ in range(ROUNDS):
        dist.barrier(group)
        start = time.perf_counter()
        work()
        finish()
        best = min(best, time.perf_counter() - start)
        # All processes must agree on when to stop.
        going = torch.tensor([float(time.monotonic() < end)])
        dist.all_reduce(going, dist.ReduceOp.MIN, group)
        if not going.item():
            break
    slowest = torch.tensor([best])
    dist.all_reduce(slowest, dist.ReduceOp.MAX, group)
    return float(slowest.item())


class Step:
    """Training step of a small net."""

    def __init__(self, device: torch.device, group: Any = None) -> None:
        torch.manual_seed(0)
        layers = [part for _ in range(6) for part in (nn.Linear(256, 256), nn.ReLU())]
        self.net: nn.Module = nn.Sequential(*layers).to(device)
        if group is not None:
            self.net = DistributedDataParallel(self.net, process_group=group)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01)
        self.x = torch.randn(512, 256, device=device)

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.net(self.x).square().mean().backward()
        self.optimizer.step()


def measure(most: int) -> dict[str, Any]:
    rank = int(os.environ["RANK"])
    device = torch.device("sim", rank % torch.sim.device_count())
    torch.sim.set_device(device)
    dist.init_process_group("cpu:gloo,sim:hardpoint", init_method=f"file://{os.environ['BENCHMARK_STORE']}",
                            rank=rank, world_size=int(os.environ["WORLD_SIZE"]))  # fmt: skip
    plugin = dist.group.WORLD
    os.environ["HARDPOINT_COLLECTIVES"] = "host"
    staged = dist.new_group(backend="cpu:gloo,sim:hardpoint")
    hosts = dist.new_group(backend="gloo")
    sync = torch.sim.synchronize
    cases = []
    size = 4
    while size <= most:
        on_device, on_cpu = torch.zeros(size // 4, device=device), torch.zeros(size // 4)
        sides = {
            "plugin": (lambda t=on_device: dist.all_reduce(t, group=plugin), sync),
            "host": (lambda t=on_device: dist.all_reduce(t, group=staged), sync),
            "gloo": (lambda t=on_cpu: dist.all_reduce(t, group=hosts), lambda: None),
        }
        for work, finish in sides.values():
            work()
            finish()
        times = {name: best_time(work, finish, hosts) for name, (work, finish) in sides.items()}
        case: dict[str, float] = {"bytes": size, **{f"{name}_us": seconds * 1e6 for name, seconds in times.items()}}
        case |= {"ratio": times["gloo"] / times["plugin"], "staged_ratio": times["gloo"] / times["host"]}
        cases.append(case)
        size *= 8 if size < 1 << 20 else 4
    steps = {
        "alone": (Step(device), sync),
        "plugin": (Step(device, plugin), sync),
        "host": (Step(device, staged), sync),
    }
    steps |= {
        "cpu": (Step(torch.device("cpu")), lambda: None),
        "gloo": (Step(torch.device("cpu"), hosts), lambda: None),
    }
    times = {name: best_time(step, finish, hosts) for name, (step, finish) in steps.items() for _ in range(2)}
    ddp = {"plugin": times["plugin"] / times["alone"], "host": times["host"] / times["alone"],
           "gloo": times["gloo"] / times["cpu"]}  # fmt: skip
    dist.destroy_process_group()
    return {"cases": cases, "ddp": ddp}


def run(ranks: int, most: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"WORLD_SIZE": str(ranks), "BENCHMARK_STORE": f"{folder}/store"}
        command = [sys.executable, "-W", "ignore", __file__, "--measure", "--mebibytes", str(most >> 20)]
        processes = [
            subprocess.Popen(command, env=environment | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
            for rank in range(ranks)
        ]
        texts = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit("a rank failed")
    return {"ranks": ranks, **json.loads(texts[0])}


def show(result: dict[str, Any]) -> None:
    print(f"all_reduce of float32 between {result['ranks']} processes; ratio: gloo's time on CPU tensors / ours")
    print(f"{'bytes':>10} {'gloo us':>10} {'plug-in us':>11} {'ratio':>6} {'host us':>10} {'ratio':>6}")
    for case in result["cases"]:
        print(f"{case['bytes']:>10} {case['gloo_us']:>10.0f} {case['plugin_us']:>11.0f} {case['ratio']:>6.2f}"
              f" {case['host_us']:>10.0f} {case['staged_ratio']:>6.2f}")  # fmt: skip
    large = [case["ratio"] for case in result["cases"] if case["bytes"] >= LARGE]
    if large:
        goal = "reached" if min(large) >= 1 else "MISSED"
        print(f"goal: at least gloo's bandwidth from {LARGE >> 20} MiB on: {goal} (least {min(large):.2f})")
    ddp = result["ddp"]
    print(f"DDP step / independent step: plug-in {ddp['plugin']:.2f}, "
          f"host {ddp['host']:.2f}, gloo on CPU tensors {ddp['gloo']:.2f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--mebibytes", type=int, default=64, help="largest size")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        result = measure(arguments.mebibytes << 20)
        if os.environ["RANK"] == "0":
            print(json.dumps(result))
        return
    result = run(arguments.ranks, arguments.mebibytes << 20)
    print(json.dumps(result)) if arguments.json else show(result)


if __name__ == "__main__":
    main()
