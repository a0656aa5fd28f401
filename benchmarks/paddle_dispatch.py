"""PaddlePaddle on the simulated device: one small operator, the CPU tier, and whole nets, as ratios in one run.

python benchmarks/paddle_dispatch.py [--only REGEX] [--json]
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # to the end: this folder has a copy.py that would shadow the standard module

import os

os.environ.setdefault("HARDPOINT_SIM_THREADS", "2")  # read when the device is mounted
os.environ.setdefault("HARDPOINT_DEVICE", "sim")
os.environ.setdefault("OMP_NUM_THREADS", os.environ["HARDPOINT_SIM_THREADS"])  # read when Paddle is imported
os.environ.setdefault("GLOG_minloglevel", "2")

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import hardpoint
import hardpoint.paddle
import numpy as np
import paddle
from paddle import inference, nn

from quiet import TIMES, Side, interleave

sys.path.append(str(Path(__file__).parents[1] / "examples"))
from digits_paddle import LeNet

THREADS = int(os.environ["HARDPOINT_SIM_THREADS"])
PATIENCE = 20.0  # max seconds to find quiet rounds of a net
SMALL = 500  # calls of a small operator per measurement, to amortize the synchronization

Work = Callable[[], object]


def shard_index() -> Work:
    x = paddle.to_tensor([[3], [14]])
    return lambda: paddle.shard_index(x, index_num=20, nshards=2, shard_id=0)


def maxout() -> Work:
    x = paddle.ones([1, 4, 2, 2])
    return lambda: nn.functional.maxout(x, 2)


#: Operators without a mapping: always in the CPU tier.
FALLBACK: dict[str, Callable[[], Work]] = {"shard_index": shard_index, "maxout": maxout}


def many(work: Work) -> Work:
    def run() -> None:
        for _ in range(SMALL):
            work()

    return run


# ---- Cases


def device() -> str:
    return f"{hardpoint.mounted()[0]}:0"


def synchronize() -> None:
    paddle.device.synchronize(device())


def add(on: str) -> Work:
    paddle.set_device(on)
    x, y = paddle.to_tensor(np.ones((2, 3), "float32")), paddle.to_tensor(np.ones((2, 3), "float32"))
    return lambda: x + y


def lenet(on: str) -> Work:
    """Training step of examples/digits_paddle.py: 64 images of 8x8, Adam."""
    paddle.set_device(on)
    paddle.seed(0)
    rng = np.random.default_rng(0)
    model, loss_function = LeNet(), nn.CrossEntropyLoss()
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    images = paddle.to_tensor(rng.random((64, 1, 8, 8), "float32"))
    labels = paddle.to_tensor(rng.integers(0, 10, (64, 1)))

    def step() -> None:
        paddle.set_device(on)
        loss_function(model(images), labels).backward()
        optimizer.step()
        optimizer.clear_grad()

    return step


@cache
def saved_resnet50() -> tempfile.TemporaryDirectory[str]:
    """Save a model with random weights; the folder is deleted at exit."""
    paddle.set_device("cpu")
    model = paddle.vision.models.resnet50()
    model.eval()
    spec = [paddle.static.InputSpec([1, 3, 224, 224], "float32")]
    folder = tempfile.TemporaryDirectory()
    paddle.jit.save(paddle.jit.to_static(model, input_spec=spec, full_graph=True), f"{folder.name}/net")
    return folder


def resnet50(on: str) -> Work:
    """Inference of a 224x224 image with paddle.inference, including both copies."""
    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype("float32")
    folder = saved_resnet50().name
    config = inference.Config(f"{folder}/net.json", f"{folder}/net.pdiparams")
    config.disable_glog_info()
    if on == "cpu":
        config.set_cpu_math_library_num_threads(THREADS)
    else:
        config.enable_custom_device(on.split(":")[0], 0)
    predictor = inference.create_predictor(config)
    given = predictor.get_input_handle(predictor.get_input_names()[0])
    result = predictor.get_output_handle(predictor.get_output_names()[0])

    def run() -> object:
        given.copy_from_cpu(image)
        predictor.run()
        return result.copy_to_cpu()

    return run


# ---- Measuring


@dataclass(frozen=True)
class Case:
    """Work on the device, against the CPU or, without `make`, against Paddle's own fallback."""

    name: str
    goal: float | None
    make: Callable[[str], Work] | None = None
    small: bool = True
    patience: float = 2.0

    @property
    def against(self) -> str:
        return "Paddle's fallback" if self.make is None else "Paddle CPU"


CASES = [
    Case("add", 2.0, add),
    *(Case(f"fallback: {name}", 0.1) for name in FALLBACK),
    Case("LeNet training step", None, lenet, False, PATIENCE),
    Case("ResNet-50 inference", None, resnet50, False, PATIENCE),
]


def served(work: Work) -> dict[str, int]:
    """Operators of one call that fell back to the CPU, with their number of calls."""
    work()
    hardpoint.reset_counters()
    work()
    synchronize()
    return {name: calls["cpu"] for name, calls in sorted(hardpoint.counters().items()) if calls.get("cpu")}


def by_paddle(name: str) -> dict[str, Any]:
    """Time the operator in a process in which Paddle ignores the device's kernel."""
    command = [sys.executable, __file__, "--paddles-own", name]
    done = subprocess.run(
        command, env=os.environ | {"CUSTOM_DEVICE_BLACK_LIST": name}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"Paddle's own fallback cannot be timed: {done.stderr}")
    return dict(json.loads(done.stdout))


def paddles_own(name: str) -> None:
    """Body of that process."""
    paddle.set_device(device())
    work = FALLBACK[name]()
    if served(work):
        raise RuntimeError(f"CUSTOM_DEVICE_BLACK_LIST did not keep {name} from Hardpoint")
    side = Side(many(work), synchronize)
    interleave(side)
    print(json.dumps({"seconds": side.seconds / SMALL, "quiet": bool(side.quiet)}))


def measure(case: Case) -> dict[str, Any]:
    if case.make is None:
        name = case.name.removeprefix("fallback: ")
        paddle.set_device(device())
        work = FALLBACK[name]()
        cpu = served(work)
        if list(cpu) != [f"phi::{name}"]:
            raise RuntimeError(f"{name} was not served by the CPU tier alone: {cpu}")
        side = Side(many(work), synchronize)
        interleave(side, patience=case.patience)
        other = by_paddle(name)
        ours, native, quiet = side.seconds / SMALL, other["seconds"], bool(side.quiet and other["quiet"])
    else:
        work = case.make(device())
        cpu = served(work)
        on_cpu, calls = case.make("cpu"), 1
        if case.small:
            work, on_cpu, calls = many(work), many(on_cpu), SMALL
        sides = Side(work, synchronize), Side(on_cpu)
        interleave(*sides, patience=case.patience)
        ours, native, quiet = sides[0].seconds / calls, sides[1].seconds / calls, all(side.quiet for side in sides)
    return {
        "name": case.name,
        "against": case.against,
        "device_us": ours * 1e6,
        "other_us": native * 1e6,
        "ratio": ours / native,
        "goal": case.goal,
        "quiet": quiet,
        "cpu_operators": cpu,
    }


def main() -> None:
    """Print a table with one ratio per row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", type=re.compile, default=re.compile(""), metavar="REGEX", help="pattern for case names"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--paddles-own", choices=FALLBACK, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not hardpoint.paddle.device_names():
        parser.error(
            "Paddle has no Hardpoint device; if they are installed in different folders, set CUSTOM_DEVICE_ROOT to "
            "Hardpoint's paddle_custom_device"
        )
    if options.paddles_own:
        paddles_own(options.paddles_own)
        return
    chosen = [case for case in CASES if options.only.search(case.name)]
    if not chosen:
        parser.error("no case matches")
    if not options.json:
        print(
            f"PaddlePaddle {paddle.__version__} on {device()}; threads: {THREADS} each; {TIMES}, best of many rounds."
        )
        print("~: other processes disturbed every round. Operators in the CPU tier, and their calls, come last.\n")
        print(f"{'':28}{'device us':>11}{'other us':>11}{'ratio':>9}{'goal':>8}  {'other':20}CPU tier")
    results = []
    for case in chosen:
        r = measure(case)
        results.append(r)
        if not options.json:
            ratio, goal = f"{'' if r['quiet'] else '~'}{r['ratio']:.2f}", f"<= {case.goal}" if case.goal else ""
            times = f"{r['device_us']:11.1f}{r['other_us']:11.1f}{ratio:>9}{goal:>8}"
            cpu = f"{len(r['cpu_operators'])} ({sum(r['cpu_operators'].values())})"
            print(f"{case.name:28}{times}  {r['against']:20}{cpu}", flush=True)
    if options.json:
        print(json.dumps({"threads": THREADS, "cases": results}))


if __name__ == "__main__":
    main()
