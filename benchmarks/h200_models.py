"""Models on nv and on torch.cuda, eager and compiled: time and memory.

Called by h200.py. As a program it measures one model on one side:

python benchmarks/h200_models.py SIDE NAME
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    sys.path.append(sys.path.pop(0))  # to the end: this folder has a copy.py that would shadow the standard module

import argparse
import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import h200_zoo
from h200_processes import end
from h200_timing import ROUNDS, Work, seconds, wait
from model_configs import llama

if __name__ == "__main__":
    sys.path.pop()  # transformers looks for a package "kernels", which kernels.py would shadow


class Side(NamedTuple):
    """How a model runs: on a device, eager if ``backend`` is empty, else with these arguments of torch.compile."""

    device: str
    backend: str = ""
    mode: str | None = None

    def compile(self, model: Any) -> Any:
        import torch

        return torch.compile(model, backend=self.backend, mode=self.mode) if self.backend else model


SIDES = {
    "nv": Side("nv"),
    "cuda": Side("cuda"),
    "graph": Side("nv", "hardpoint"),
    "nv inductor": Side("nv", "inductor"),
    "inductor": Side("cuda", "inductor"),
    "nv reduced": Side("nv", "inductor", "reduce-overhead"),
    "reduced": Side("cuda", "inductor", "reduce-overhead"),
}
#: Two ways to compare, on nv and on cuda.
PAIRS = (("nv", "cuda"), ("nv inductor", "inductor"), ("nv reduced", "reduced"))
#: Processes that prepare at the same time: one per CPU core of the machine.
PROCESSES = 16


def training(model: Any, loss: Callable[[Any], Any], device: str, half: bool) -> Work:
    import torch

    update = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        update.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=half):
            value = loss(model)
        value.backward()
        update.step()

    return step


def create_on(device: str, make: Callable[[], Any]) -> Any:
    """Create a model with random weights on the device, which is much faster than on the CPU."""
    import torch

    with torch.device(device):
        return make()


def resnet50(side: Side, batch: int, half: bool) -> Work:
    import torch

    device = side.device
    model = create_on(device, _resnet).train()
    images, labels = torch.randn(batch, 3, 224, 224).to(device), torch.randint(1000, (batch,)).to(device)
    model = side.compile(model)
    return training(model, lambda m: torch.nn.functional.cross_entropy(m(images), labels), device, half)


def gpt2(side: Side, dropout: float = 0.1) -> Work:
    import torch
    import transformers

    device = side.device
    config = transformers.GPT2Config(attn_pdrop=dropout, embd_pdrop=dropout, resid_pdrop=dropout)
    model = create_on(device, lambda: transformers.GPT2LMHeadModel(config)).train()
    ids = torch.randint(50257, (8, 512)).to(device)
    return training(side.compile(model), lambda m: m(input_ids=ids, labels=ids).loss, device, True)


def of_zoo(model: h200_zoo.Model) -> Callable[[Side], Work]:
    def made(side: Side) -> Work:
        import torch

        device, loss = side.device, model.loss
        given = {name: value.to(device) for name, value in model.batch().items()}
        net = side.compile(create_on(device, model.make).train(loss is not None))
        inputs = {"": given.pop("x")} if "x" in given else given
        positional = [inputs.pop("")] if "" in inputs else []

        def forward(m: Any) -> Any:
            return m(*positional, **inputs)

        if loss is not None:
            return training(net, lambda m: loss(forward(m), given), device, model.half)

        def call() -> None:
            with torch.no_grad(), torch.autocast(device, torch.bfloat16, enabled=model.half):
                forward(net)

        return call

    return made


def inference(make: Callable[[], Any], inputs: Callable[[], dict[str, Any]]) -> Callable[[Side], Work]:
    def made(side: Side) -> Work:
        import torch

        model = create_on(side.device, make).eval()
        given = {name: value.to(side.device) for name, value in inputs().items()}
        model = side.compile(model)

        def call() -> None:
            with torch.no_grad():
                model(**given)

        return call

    return made


def _bert() -> Any:
    import transformers

    return transformers.BertModel(transformers.BertConfig())


def _resnet() -> Any:
    import torchvision

    return torchvision.models.resnet50()


def _llama() -> Any:
    import torch

    return llama(2048, 8192, 32000, layers=16, heads=32, kv_heads=8).to(torch.bfloat16)


def _torch() -> Any:
    import torch

    return torch


def inferences() -> dict[str, tuple[Callable[[], Any], Callable[[], dict[str, Any]]]]:
    """Launch-bound cases: model and inputs. Callers use the names before torch may be imported."""
    return {
        "ResNet-50 inference, 1": (_resnet, lambda: {"x": _torch().randn(1, 3, 224, 224)}),
        "BERT-base inference, 8 x 128": (_bert, lambda: {"input_ids": _torch().randint(30000, (8, 128))}),
        "Llama 1B, one token, bfloat16": (_llama, lambda: {"input_ids": _torch().randint(32000, (1, 1))}),
    }


def models() -> dict[str, Callable[[Side], Work]]:
    """The models for which Hardpoint was tuned."""
    return {
        "ResNet-50 training, 32, float32": lambda side: resnet50(side, 32, False),
        "ResNet-50 training, 128, bfloat16": lambda side: resnet50(side, 128, True),
        "GPT-2 training, 8 x 512, bfloat16": gpt2,
        "GPT-2 without dropout": lambda side: gpt2(side, 0.0),
        **{name: inference(*given) for name, given in inferences().items()},
        "ResNet-50 training, 32, bfloat16": lambda side: resnet50(side, 32, True),
        "ResNet-50 training, 128, float32": lambda side: resnet50(side, 128, False),
    }


def all_models() -> dict[str, Callable[[Side], Work]]:
    """Those, and models for which Hardpoint was not tuned."""
    return {**models(), **{name: of_zoo(model) for name, model in h200_zoo.zoo().items()}}


class Measurement:
    """A model on one side in a separate process: torch.cuda cannot compute gradients beside a mounted plug-in.

    Many models prepare concurrently (torch.compile takes most of a minute each) and are measured one at a time.
    """

    def __init__(self, side: str, name: str, lines: Path) -> None:
        environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1" if SIDES[side].device == "nv" else "0"}
        if SIDES[side].device != "nv":
            environment.pop("HARDPOINT_DEVICE", None)
        # Each model starts its own inductor workers.
        environment["TORCHINDUCTOR_COMPILE_THREADS"] = "4"
        self._lines, self._results = lines, 0
        with lines.open("w") as output:
            self._process = subprocess.Popen(
                [sys.executable, __file__, side, name],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=output,
                start_new_session=True,
            )

    def prepared(self, until: float) -> bool:
        return bool(self._line("ready", 1, until))

    def measured(self, until: float) -> dict[str, Any]:
        """Measure time and memory; empty if there is no result until ``until``, in time.time()."""
        self._results += 1
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the process has ended
            self._process.stdin.write(b"measure\n")
            self._process.stdin.flush()
        return dict(json.loads(self._line('{"name"', self._results, until) or "{}"))

    def end(self) -> None:
        end(self._process)

    def _line(self, beginning: str, number: int, until: float) -> str:
        """Wait for the n-th line with this beginning; empty if the process ends or time runs out."""
        while True:
            ended = self._process.poll() is not None
            lines = self._lines.read_text().splitlines(keepends=True)
            found = [line for line in lines if line.startswith(beginning) and line.endswith("\n")]
            if len(found) >= number:
                return found[number - 1]
            if ended or time.time() > until:
                return ""
            time.sleep(0.05)


def measure(names: list[str], sides: tuple[str, ...], patience: float, until: float) -> list[dict[str, Any]]:
    """Measure models on all sides, at most PROCESSES at a time. ``until``: the deadline, in time.time()."""
    taken: dict[str, dict[str, Any]] = {name: {"name": name} for name in names}
    together = max(1, PROCESSES // len(sides))
    for first in range(0, len(names), together):
        start = time.time()
        if start > until - 30:
            print("no time left for " + ", ".join(names[first:]), flush=True)
            break
        some = [(name, side) for name in names[first : first + together] for side in sides]
        late = measure_together(some, taken, min(until, start + patience))
        missing = f"; not ready: {', '.join(f'{name} ({side})' for name, side in late)}" if late else ""
        print(f"{', '.join(names[first : first + together])}: {time.time() - start:.0f} s{missing}", flush=True)
    return list(taken.values())


def measure_together(some: list[tuple[str, str]], taken: dict[str, Any], last: float) -> list[tuple[str, str]]:
    """Prepare all at the same time, measure one at a time. Returns the models that were not ready in time."""
    with tempfile.TemporaryDirectory() as folder:
        running = {each: Measurement(each[1], each[0], Path(folder) / str(k)) for k, each in enumerate(some)}
        try:
            late = [each for each, measurement in running.items() if not measurement.prepared(last)]
            for each in late:
                running.pop(each).end()  # must not disturb the measurements
            for (name, side), measurement in list(running.items()) * ROUNDS:
                if result := measurement.measured(last + 30):
                    taken[name][side] = min(result, taken[name].get(side, result), key=itemgetter("seconds"))
        finally:
            for measurement in running.values():
                measurement.end()
    return late


def show(results: list[dict[str, Any]], sides: tuple[str, ...]) -> None:
    """Times in ms, then the speed of each way of running on nv relative to the same way on cuda."""
    pairs = [(ours, theirs) for ours, theirs in PAIRS if ours in sides and theirs in sides]
    print("\nModels: ms; speed: time on cuda / time on nv, both eager, both compiled, both with reduce-overhead.\n")
    head = "".join(f"{side:>13}" for side in sides) + "".join(f"{theirs + ' /':>12}" for _, theirs in pairs)
    print(f"{'':34}{head}{'nv MiB':>9}{'cuda MiB':>10}  operators on the CPU")
    for r in results:
        times = {side: r[side]["seconds"] for side in sides if side in r}
        line = "".join(f"{times[side] * 1e3:13.2f}" if side in times else f"{'-':>13}" for side in sides)
        for ours, theirs in pairs:
            both = ours in times and theirs in times
            line += f"{times[theirs] / times[ours]:12.2f}" if both else f"{'-':>12}"
        for side, width in (("nv", 9), ("cuda", 10)):
            line += f"{r[side]['memory'] >> 20:{width}}" if side in r else f"{'-':>{width}}"
        cpu = sorted({name for side in sides if side in r for name in r[side]["cpu"]})
        print(f"{r['name']:34}{line}  {', '.join(cpu) or 'none'}", flush=True)


def cpu_calls(work: Work) -> dict[str, int]:
    """Operators that fell back to the CPU, with their number of calls."""
    import hardpoint

    hardpoint.reset_counters()
    work()
    return {name: tiers["cpu"] for name, tiers in hardpoint.counters().items() if tiers.get("cpu")}


def main() -> None:
    """Prepare a model; then, for every line on stdin, print its time and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("name", choices=all_models())
    options = parser.parse_args()
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    side = SIDES[options.side]
    device = side.device
    module = torch.nv if device == "nv" else torch.cuda
    work = all_models()[options.name](side)
    for _ in range(3):
        work()
    wait(device)
    print("ready", flush=True)
    for _ in sys.stdin:
        module.reset_peak_memory_stats()
        cpu = cpu_calls(work) if device == "nv" else {}
        work()
        wait(device)
        memory = module.max_memory_allocated()
        result = {"name": options.name, "memory": memory, "cpu": cpu, "seconds": seconds(device, work, 0.4)}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
