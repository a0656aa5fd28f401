"""Models on nv, on torch.cuda, and compiled: time and memory.

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
from typing import Any

from h200_processes import end
from h200_timing import ROUNDS, Work, seconds, wait
from model_configs import llama

if __name__ == "__main__":
    sys.path.pop()  # transformers looks for a package "kernels", which kernels.py would shadow

#: Sides that run on nv, and torch.compile backends by side.
OURS, COMPILED = ("nv", "graph"), {"graph": "hardpoint", "inductor": "inductor"}
SIDES = ("nv", "cuda", *COMPILED)


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


def resnet50(device: str, batch: int, half: bool, compiled: str) -> Work:
    import torch

    model = create_on(device, _resnet).train()
    images, labels = torch.randn(batch, 3, 224, 224).to(device), torch.randint(1000, (batch,)).to(device)
    if compiled:
        model = torch.compile(model, backend=compiled)
    return training(model, lambda m: torch.nn.functional.cross_entropy(m(images), labels), device, half)


def gpt2(device: str, compiled: str, dropout: float = 0.1) -> Work:
    import torch
    import transformers

    config = transformers.GPT2Config(attn_pdrop=dropout, embd_pdrop=dropout, resid_pdrop=dropout)
    model = create_on(device, lambda: transformers.GPT2LMHeadModel(config)).train()
    ids = torch.randint(50257, (8, 512)).to(device)
    if compiled:
        model = torch.compile(model, backend=compiled)
    return training(model, lambda m: m(input_ids=ids, labels=ids).loss, device, True)


def inference(make: Callable[[], Any], inputs: Callable[[], dict[str, Any]]) -> Callable[[str, str], Work]:
    def made(device: str, compiled: str) -> Work:
        import torch

        model = create_on(device, make).eval()
        given = {name: value.to(device) for name, value in inputs().items()}
        if compiled:
            model = torch.compile(model, backend=compiled)

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


def models() -> dict[str, Callable[[str, str], Work]]:
    """Work on a device, in eager mode or compiled with a backend."""
    return {
        "ResNet-50 training, 32, float32": lambda device, compiled: resnet50(device, 32, False, compiled),
        "ResNet-50 training, 128, bfloat16": lambda device, compiled: resnet50(device, 128, True, compiled),
        "GPT-2 training, 8 x 512, bfloat16": gpt2,
        "GPT-2 without dropout": lambda device, compiled: gpt2(device, compiled, 0.0),
        **{name: inference(*given) for name, given in inferences().items()},
        "ResNet-50 training, 32, bfloat16": lambda device, compiled: resnet50(device, 32, True, compiled),
        "ResNet-50 training, 128, float32": lambda device, compiled: resnet50(device, 128, False, compiled),
    }


class Measurement:
    """A model on one side in a separate process: torch.cuda cannot compute gradients beside a mounted plug-in.

    Many models prepare concurrently (torch.compile takes most of a minute each) and are measured one at a time.
    """

    def __init__(self, side: str, name: str, lines: Path) -> None:
        environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1" if side in OURS else "0"}
        if side not in OURS:
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
    """Measure models on all sides. Each side has ``patience`` seconds, the last one until ``until``, in time.time()."""
    taken: dict[str, dict[str, Any]] = {name: {"name": name} for name in names}
    for side in sides:
        start = time.time()
        last = until if side == sides[-1] else min(until, start + patience)
        # Graph mode only for launch-bound cases.
        some = [name for name in names if side != "graph" or name in inferences()]
        with tempfile.TemporaryDirectory() as folder:
            running = {name: Measurement(side, name, Path(folder) / str(k)) for k, name in enumerate(some)}
            try:
                late = [name for name, measurement in running.items() if not measurement.prepared(last)]
                for name in late:
                    running.pop(name).end()  # must not disturb the measurements
                for name, measurement in list(running.items()) * ROUNDS:
                    if result := measurement.measured(last + 30):
                        taken[name][side] = min(result, taken[name].get(side, result), key=itemgetter("seconds"))
            finally:
                for measurement in running.values():
                    measurement.end()
        print(f"{side}: {time.time() - start:.0f} s{'; not ready: ' * bool(late)}{', '.join(late)}", flush=True)
    return list(taken.values())


def show(results: list[dict[str, Any]]) -> None:
    print("\nModels. Speed: time of the other side / nv in eager mode; gain: eager / graph mode on nv;")
    print("peak memory.\n")
    head = f"{'nv ms':>9}{'cuda ms':>9}{'inductor ms':>13}{'graph ms':>10}{'speed':>8}{'to inductor':>13}{'gain':>7}"
    print(f"{'':36}{head}{'nv MiB':>9}{'cuda MiB':>10}  operators on the CPU")
    for r in results:
        if "nv" not in r or "cuda" not in r:
            print(f"{r['name']:36}  not measured")
            continue
        ours, cuda, compiled, graph = (r.get(side, {}).get("seconds") for side in ("nv", "cuda", "inductor", "graph"))
        times = f"{ours * 1e3:9.2f}{cuda * 1e3:9.2f}{f'{compiled * 1e3:.2f}' if compiled else '':>13}"
        times += f"{f'{graph * 1e3:.2f}' if graph else '':>10}"
        speeds = f"{cuda / ours:8.2f}{f'{compiled / ours:.2f}' if compiled else '':>13}"
        speeds += f"{f'{ours / graph:.2f}' if graph else '':>7}"
        memory = f"{r['nv']['memory'] >> 20:9}{r['cuda']['memory'] >> 20:10}"
        print(f"{r['name']:36}{times}{speeds}{memory}  {', '.join(r['nv']['cpu']) or 'none'}", flush=True)


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
    parser.add_argument("name", choices=models())
    options = parser.parse_args()
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    device = "nv" if options.side in OURS else "cuda"
    module = torch.nv if device == "nv" else torch.cuda
    work = models()[options.name](device, COMPILED.get(options.side, ""))
    for _ in range(3):
        work()
    wait(device)
    print("ready", flush=True)
    for _ in sys.stdin:
        module.reset_peak_memory_stats()
        cpu = cpu_calls(work) if options.side == "nv" else {}
        work()
        wait(device)
        memory = module.max_memory_allocated()
        result = {"name": options.name, "memory": memory, "cpu": cpu, "seconds": seconds(device, work, 0.5)}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
