"""Graph mode on the simulated device against eager mode and inductor on the CPU: launches, peak memory, time.

python benchmarks/graph.py [--only NAME] [--json] [--no-inductor]

All sides run interleaved in one process with one thread, measured in CPU time. The cases with a goal are bound by
launches, the others by computation.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # to the end: this folder has a copy.py that would shadow the standard module

import os

os.environ.setdefault("HARDPOINT_SIM_THREADS", "1")  # read when the device is mounted
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # models are built from configurations, without downloads

import argparse
import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import transformers
from torch import nn

import hardpoint
from hardpoint.torch import _adapter
from model_configs import gpt2, llama, resnet18
from quiet import TIMES, Side, interleave

warnings.filterwarnings("ignore", message=".* runs on the CPU")
transformers.logging.set_verbosity_error()
logging.getLogger("torch").setLevel(logging.ERROR)

#: Speedup of launch-bound inference over eager mode.
GOAL = 2.0
PATIENCE = 6.0  # max seconds to find quiet rounds
WARM_UP = 4  # runs: the first, the recorded one, replays
#: Seconds per round: several consecutive steps, since a single step after a pause finds cold caches.
ROUND = 5e-3

Batch = dict[str, torch.Tensor]


def gpt(width: int) -> Callable[[], nn.Module]:
    return partial(gpt2, width, 512, use_cache=False)


def small_llama(width: int) -> Callable[[], nn.Module]:
    return partial(llama, width, 2 * width, 512, layers=4, heads=4, kv_heads=2, bos_token_id=0, eos_token_id=0)


class Recurrent(nn.Module):
    """An LSTM, which Dynamo unrolls."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.LSTM(width, width, batch_first=True)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.layer(values)[0]


def text(batch: int, length: int) -> Batch:
    ids = torch.randint(512, (batch, length))
    return {"input_ids": ids, "labels": ids}


def images(batch: int, size: int) -> Batch:
    return {"pixel_values": torch.randn(batch, 3, size, size), "labels": torch.randint(10, (batch,))}


@dataclass(frozen=True)
class Case:
    """A model and its inputs."""

    build: Callable[[], nn.Module]
    batch: Callable[[], Batch]
    training: bool
    launch_bound: bool

    def step(self, device: str, backend: str) -> Callable[[], object]:
        """A step on a device, compiled with a torch.compile backend unless that is empty."""
        torch.manual_seed(0)
        model = self.build().to(device).train(self.training)
        batch = {name: value.to(device) for name, value in self.batch().items()}
        call: Callable[..., Any] = torch.compile(model, backend=backend) if backend else model

        def infer() -> None:
            with torch.no_grad():
                call(**batch)

        def train() -> None:
            model.zero_grad()
            call(**batch).loss.backward()

        return train if self.training else infer


CASES = {
    "gpt2, 1 x 8 tokens": Case(gpt(32), partial(text, 1, 8), False, True),
    "llama, 1 x 8 tokens": Case(small_llama(32), partial(text, 1, 8), False, True),
    "lstm, 1 x 48 steps": Case(partial(Recurrent, 16), lambda: {"values": torch.randn(1, 48, 16)}, False, True),
    "gpt2, 4 x 64 tokens": Case(gpt(128), partial(text, 4, 64), False, False),
    "resnet18, 2 images": Case(partial(resnet18, 16, 10), partial(images, 2, 64), False, False),
    "gpt2, training": Case(gpt(64), partial(text, 2, 32), True, False),
    "llama, training": Case(small_llama(64), partial(text, 2, 32), True, False),
    "resnet18, training": Case(partial(resnet18, 16, 10), partial(images, 2, 64), True, False),
}


def launches_and_peak(run: Callable[[], object], device: str) -> tuple[int, int]:
    """Kernel launches and peak of additional memory of one run."""
    module = getattr(torch, device)
    adapter = _adapter.load()
    run()
    torch.accelerator.synchronize()
    before, base = adapter.launches(0), module.memory_allocated()
    module.reset_peak_memory_stats()
    run()
    torch.accelerator.synchronize()
    return adapter.launches(0) - before, module.max_memory_allocated() - base


def measure(name: str, inductor: bool) -> dict[str, Any]:
    """Launches, peak bytes, and milliseconds."""
    case, device = CASES[name], hardpoint.mounted()[0]
    torch._dynamo.reset()
    runs = [case.step(device, ""), case.step(device, "hardpoint")]
    if inductor:
        runs.append(case.step("cpu", "inductor"))
    for run in runs:
        for _ in range(WARM_UP):
            run()
    counted = [launches_and_peak(run, device) for run in runs[:2]]
    sides = [Side(run, torch.accelerator.synchronize, ROUND) for run in runs]
    interleave(*sides, patience=PATIENCE)
    eager, graph, *other = (side.seconds * 1e3 for side in sides)
    return {
        "case": name,
        "launch_bound": case.launch_bound,
        "eager_launches": counted[0][0],
        "graph_launches": counted[1][0],
        "eager_peak": counted[0][1],
        "graph_peak": counted[1][1],
        "eager_ms": eager,
        "graph_ms": graph,
        "speedup": eager / graph,
        "inductor_cpu_ms": other[0] if other else None,
    }


def line(r: dict[str, Any]) -> str:
    """Row of the table."""
    other = r["inductor_cpu_ms"]
    compared = f"{other:11.3f}{other / r['graph_ms']:9.2f}" if other is not None else ""
    goal = f"  (goal {GOAL:.0f})" if r["launch_bound"] else ""
    return (
        f"{r['case']:21}{r['eager_launches']:7}{r['graph_launches']:7}"
        f"{r['eager_peak'] / 1024:10.1f}{r['graph_peak'] / 1024:10.1f}{r['graph_peak'] / r['eager_peak']:7.3f}"
        f"{r['eager_ms']:10.3f}{r['graph_ms']:10.3f}{r['speedup']:7.2f}{compared}{goal}"
    )


def main() -> None:
    """Print one row per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=CASES, help="this case only")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--no-inductor", action="store_true", help="skip inductor, which compiles for minutes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch._dynamo.config.allow_rnn = True
    names = [options.only] if options.only else list(CASES)
    if not options.json:
        print(f"Graph mode on {hardpoint.mounted()[0]}; {TIMES}, best of interleaved rounds, memory in KiB.\n")
        inductor = "" if options.no_inductor else f"{'inductor':>11}{'its time':>9}"
        print(f"{'':21}{'launches':>14}{'peak memory':>20}{'':7}{'ms':>20}{'':7}{inductor}")
        last = "" if options.no_inductor else f"{'CPU, ms':>11}{'/ graph':>9}"
        print(
            f"{'':21}{'eager':>7}{'graph':>7}{'eager':>10}{'graph':>10}{'':7}{'eager':>10}{'graph':>10}{'faster':>7}{last}"
        )
    results = []
    for name in names:
        results.append(measure(name, not options.no_inductor))
        if not options.json:
            print(line(results[-1]), flush=True)
    if options.json:
        print(json.dumps({"cases": results}))


if __name__ == "__main__":
    main()
