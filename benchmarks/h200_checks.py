"""GPU checks besides speed: losses, memory growth, out-of-memory, overlap, graph mode, and compute-sanitizer.

python benchmarks/h200_checks.py [--wheels FOLDER] [--only PART] [--ours nv] [--theirs cuda] [--small]

Builds Hardpoint if needed, as benchmarks/h200.py does. Each check prints a line that ends with "passed" or "failed";
the program fails if any check does. ``--ours sim --theirs cpu --small`` tests the program itself without a GPU.
"""

from __future__ import annotations

import sys

HERE = sys.path.pop(0)  # this folder has files that would shadow modules of the same names

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: Steps of the loss comparison and of the memory check.
LOSS_STEPS, MEMORY_STEPS = 100, 1000
#: Max relative difference of losses: rounding errors accumulate over the steps.
TOLERANCE = 0.02

Step = Callable[[], Any]


def h200() -> Any:
    """Import h200.py for its models and build."""
    spec = importlib.util.spec_from_file_location("h200", Path(__file__).with_name("h200.py"))
    assert spec is not None
    assert spec.loader is not None
    path, module = sys.path[:], importlib.util.module_from_spec(spec)
    sys.path.insert(0, HERE)  # as when run as a program
    spec.loader.exec_module(module)
    sys.path[:] = path
    return module


# ---- Training: weights and data are created on the CPU, equal for both sides. No dropout.


def digits() -> tuple[Any, Callable[[Any], Any], dict[str, Any]]:
    import torch
    from torch import nn

    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(256, 64), nn.GELU(), nn.Linear(64, 10)),
    )
    data = {"x": torch.randn(256, 1, 8, 8), "y": torch.randint(10, (256,))}
    return model, lambda d: nn.functional.cross_entropy(model(d["x"]), d["y"]), data


def language(small: bool) -> tuple[Any, Callable[[Any], Any], dict[str, Any]]:
    import torch
    import transformers

    sizes = {"n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 500} if small else {}
    config = transformers.GPT2Config(attn_pdrop=0, embd_pdrop=0, resid_pdrop=0, **sizes)
    model = transformers.GPT2LMHeadModel(config).train()
    ids = torch.randint(config.vocab_size, (2, 32) if small else (8, 512))
    return model, lambda d: model(input_ids=d["ids"], labels=d["ids"]).loss, {"ids": ids}


def masked_language(small: bool) -> tuple[Any, Callable[[Any], Any], dict[str, Any]]:
    import torch
    import transformers

    sizes = (
        {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 128} if small else {}
    )
    config = transformers.BertConfig(hidden_dropout_prob=0, attention_probs_dropout_prob=0, **sizes)
    model = transformers.BertForMaskedLM(config).train()
    ids = torch.randint(config.vocab_size, (2, 32) if small else (8, 128))
    return model, lambda d: model(input_ids=d["ids"], labels=d["ids"]).loss, {"ids": ids}


def images(name: str, small: bool) -> tuple[Any, Callable[[Any], Any], dict[str, Any]]:
    import torch
    import torchvision

    model = getattr(torchvision.models, name)().train()
    batch, size = (2, 32) if small else (32, 224)
    data = {"x": torch.randn(batch, 3, size, size), "y": torch.randint(1000, (batch,))}
    return model, lambda d: torch.nn.functional.cross_entropy(model(d["x"]), d["y"]), data


def trainings(small: bool) -> dict[str, Callable[[], tuple[Any, Callable[[Any], Any], dict[str, Any]]]]:
    made = {"digits net": digits, "small GPT": lambda: language(True)}
    if not small or importlib.util.find_spec("torchvision"):
        made["ResNet-18"] = lambda: images("resnet18", small)
    if not small:
        made["ResNet-50"] = lambda: images("resnet50", False)
        made["GPT-2"] = lambda: language(False)
        made["BERT-base"] = lambda: masked_language(False)
    return made


def training(name: str, device: str, small: bool) -> Step:
    """Training step of a model; returns its loss."""
    import torch

    torch.manual_seed(0)
    model, loss, data = trainings(small)[name]()
    model.to(device)
    given = {key: value.to(device) for key, value in data.items()}
    update = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> Any:
        update.zero_grad()
        value = loss(given)
        value.backward()
        update.step()
        return value.detach()

    return step


def side_losses(device: str, small: bool) -> Iterator[dict[str, Any]]:
    for name in trainings(small):
        step = training(name, device, small)
        values = [step() for _ in range(5 if small else LOSS_STEPS)]
        cpu = cpu_fallbacks(step) if device not in ("cpu", "cuda") else []
        yield {"name": name, "losses": [float(value) for value in values], "cpu": cpu}


def cpu_fallbacks(work: Step) -> list[str]:
    import hardpoint

    hardpoint.reset_counters()
    work()
    return [name for name, tiers in hardpoint.counters().items() if tiers.get("cpu")]


def check_losses(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Iterator[tuple[str, bool]]:
    for one, other in zip(ours, theirs, strict=True):
        difference = max(abs(a - b) / max(abs(b), 0.1) for a, b in zip(one["losses"], other["losses"], strict=True))
        first, last = other["losses"][0], other["losses"][-1]
        steps = f"{len(one['losses'])} steps, from {first:.4f} to {last:.4f}"
        told = f"{one['name']}: {steps}, max difference {difference:.1e}"
        yield f"{told}, on the CPU: {', '.join(one['cpu']) or 'nothing'}", difference <= TOLERANCE and not one["cpu"]


# ---- Checks on one side


def module_of(device: str) -> Any:
    import torch

    return getattr(torch, device)


def check_memory(device: str, small: bool) -> Iterator[tuple[str, bool]]:
    """Allocated and reserved memory must not grow after the first tenth of the steps."""
    for name in ("digits net", "small GPT"):
        step = training(name, device, small)
        steps, seen = 30 if small else MEMORY_STEPS, []
        for i in range(steps):
            step()
            if i + 1 in (steps // 10, steps):
                module_of(device).synchronize()
                seen.append((module_of(device).memory_allocated(), module_of(device).memory_reserved()))
        (early, held), (late, held_late) = seen
        grown = late - early, held_late - held
        yield f"{name}: {steps} steps, {late >> 10} KiB, grown by {grown[0]} bytes ({grown[1]} held)", grown == (0, 0)


def check_exhaustion(device: str, small: bool) -> Iterator[tuple[str, bool]]:
    """Out of memory raises an exception, and the device stays usable."""
    import torch

    x, kept, raised = torch.randn(1000, device=device), [], False
    piece = (1 << 28) if small else (1 << 33)
    try:
        while len(kept) < 200:
            kept.append(torch.empty(piece, dtype=torch.uint8, device=device))
    except torch.OutOfMemoryError:
        raised = True
    kept.clear()
    module_of(device).empty_cache()
    after = torch.empty(piece, dtype=torch.uint8, device=device).fill_(3)
    right = bool((after == 3).all()) and abs((x + x).sum().item() - 2 * x.cpu().sum().item()) < 1e-2
    yield (
        f"out of memory: {'raised' if raised else 'not raised'}, then {'right' if right else 'wrong'}",
        raised and right,
    )


def check_overlap(device: str, small: bool) -> Iterator[tuple[str, bool]]:
    """Copies from pinned memory overlap with computation on another stream."""
    import torch

    size = 256 if small else 8192
    a = torch.randn(size, size, device=device)
    source = torch.empty((1 << 20) if small else (1 << 30), dtype=torch.uint8).pin_memory()
    target = torch.empty(source.shape, dtype=torch.uint8, device=device)
    stream = torch.Stream(device)

    def took(*work: Step) -> float:
        times = []
        for _ in range(5):
            torch.accelerator.synchronize()
            start = time.perf_counter()
            for one in work:
                one()
            torch.accelerator.synchronize()
            times.append(time.perf_counter() - start)
        return min(times)

    def copy() -> None:
        with stream:
            target.copy_(source, non_blocking=True)

    def compute() -> None:
        for _ in range(2):
            a @ a

    alone, moving, both = took(compute), took(copy), took(copy, compute)
    share = (alone + moving - both) / min(alone, moving)
    told = f"compute {alone * 1e3:.2f} ms, copy {moving * 1e3:.2f} ms, both {both * 1e3:.2f} ms: {share:.0%} overlap"
    yield told, share > 0.5 or small


def check_graph(device: str, small: bool) -> Iterator[tuple[str, bool]]:
    """Results and time of ``torch.compile(backend="hardpoint")`` against eager mode on the same device."""
    import torch

    other = h200()
    some = {"digits net": (lambda: digits()[0], lambda: {"input": torch.randn(256, 1, 8, 8)})}
    for name, (make, given) in (some if small else other.h200_models.inferences()).items():
        torch.manual_seed(0)
        net, inputs = make().to(device).eval(), {key: value.to(device) for key, value in given().items()}
        compiled = torch.compile(net, backend="hardpoint")
        with torch.no_grad():
            right, ours = first(net(**inputs)), first(compiled(**inputs))
            eager = other.seconds(device, lambda net=net, inputs=inputs: net(**inputs))
            fast = other.seconds(device, lambda compiled=compiled, inputs=inputs: compiled(**inputs))
            exact = first(net.float()(**inputs))
        # Fused kernels round less often than single operators, so in 16 bits both are compared with float32.
        apart, usual = (((one - exact).abs().max() / exact.abs().max()).item() for one in (ours, right))
        told = f"{name}: eager {eager * 1e3:.2f} ms, graph {fast * 1e3:.2f} ms, {eager / fast:.2f} x; from float32 "
        # Compute-bound models gain nothing, but must not lose more than noise.
        yield (
            told + f"{apart:.1e} apart, eager {usual:.1e}",
            apart <= 2 * usual + 1e-5 and (fast < 1.1 * eager or small),
        )


def first(result: Any) -> Any:
    """First tensor of a model's result."""
    return result if hasattr(result, "abs") else next(iter(result.values()))


def check_sanitizer(device: str, small: bool) -> Iterator[tuple[str, bool]]:
    """compute-sanitizer memcheck on a few training steps and operators."""
    found = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not Path(found).exists():
        yield "compute-sanitizer is not installed", False
        return
    command = [found, "--tool", "memcheck", "--error-exitcode", "99", sys.executable, __file__, "--side", device]
    done = subprocess.run([*command, "--part", "steps"], capture_output=True, text=True, timeout=400)
    summary = [line for line in done.stdout.splitlines() if "ERROR SUMMARY" in line]
    yield f"compute-sanitizer memcheck: {' '.join(summary) or done.stderr[-300:]}", done.returncode == 0


def side_steps(device: str, small: bool) -> Iterator[dict[str, Any]]:
    """Work for compute-sanitizer."""
    import torch

    for name in ("digits net", "small GPT"):
        step = training(name, device, True)
        for _ in range(3):
            step()
    x = torch.randn(33, 65, device=device)
    for work in (torch.softmax, torch.cumsum, torch.sort, torch.sum):
        work(x, 1)
    query = torch.randn(2, 3, 70, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
    attention = torch.nn.functional.scaled_dot_product_attention
    attention(query, query, query, dropout_p=0.1, is_causal=True).sum().backward()
    mask = torch.randn(2, 1, 1, 70, device=device, dtype=torch.bfloat16)
    attention(query, query, query, mask.expand(2, 3, 70, 70)).sum().backward()
    for n in (1, 63, 4099):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            torch.nn.functional.dropout(torch.randn(n, device=device, dtype=dtype)[1:], 0.3)
    torch._foreach_add_([torch.randn(n, device=device) for n in range(1, 60)], 1.0)
    module_of(device).synchronize()
    yield {"name": "steps"}


CHECKS: dict[str, Callable[[str, bool], Iterator[tuple[str, bool]]]] = {
    "memory": check_memory,
    "exhaustion": check_exhaustion,
    "overlap": check_overlap,
    "graph": check_graph,
    "sanitizer": check_sanitizer,
}
SIDES = {"losses": side_losses, "steps": side_steps}


def run_side(part: str, device: str, small: bool, ours: bool) -> list[dict[str, Any]]:
    """Run one side in a separate process: torch.cuda cannot compute gradients beside a mounted plug-in."""
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1" if ours else "0"}
    command = [sys.executable, __file__, "--side", device, "--part", part, *["--small"] * small]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=500, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, help="wheels for an offline build")
    parser.add_argument("--only", choices=("losses", *CHECKS), action="append", help="run this check; repeatable")
    parser.add_argument("--ours", default="nv", help="device of the plug-in")
    parser.add_argument("--theirs", default="cuda", help="device to compare losses with")
    parser.add_argument("--small", action="store_true", help="little work, to test the program itself")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if importlib.util.find_spec("hardpoint") is None:
        if options.wheels is None:
            parser.error("Hardpoint is not installed: pass a folder of wheels to build with (--wheels)")
        python = h200().prepare(options.wheels.resolve())
        os.execv(python, [python, __file__, *sys.argv[1:]])
    os.environ["HF_HUB_OFFLINE"] = "1"
    if options.side:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        if options.part in SIDES:
            for result in SIDES[options.part](options.side, options.small):
                print(json.dumps(result), flush=True)
        else:
            for finding, ok in CHECKS[options.part](options.side, options.small):
                print(json.dumps({"name": finding, "ok": ok}), flush=True)
        return
    os.environ["HARDPOINT_DEVICE"] = options.ours
    failed = False
    for part in options.only or ("losses", *CHECKS):
        if part == "losses":
            ours, theirs = (
                run_side(part, device, options.small, device == options.ours)
                for device in (options.ours, options.theirs)
            )
            found = list(check_losses(ours, theirs))
        else:
            found = [(r["name"], r["ok"]) for r in run_side(part, options.ours, options.small, True)]
        for finding, ok in found:
            print(f"{part}: {finding}: {'passed' if ok else 'failed'}", flush=True)
            failed |= not ok
    sys.exit(failed)


if __name__ == "__main__":
    main()
