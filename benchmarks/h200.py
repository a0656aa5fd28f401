"""NVIDIA devices through the plug-in ``nv``, against torch's own CUDA backend in the same run.

python benchmarks/h200.py [--wheels FOLDER] [--only PART] [--json FILE]

Builds what it must first: on a bare machine with torch it makes an environment beside torch's own, installs the wheels
of FOLDER there (apache-tvm-ffi, scikit-build-core, pybind11, pyyaml, typer, rich, expecttest and all that these need;
no network is used), builds Hardpoint into it, and runs itself there. TF32 is off on both sides.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # this folder, to the end: its copy.py must not stand in for the standard module

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h200_operators

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("kernels", "operators", "models")
#: Seconds for all models of one side, and for all operators.
PATIENCE = 150

#: Seconds for everything; the last side, torch.compile's, gets what is left of them and may need more.
LIMIT = 580
#: Environment variable: when all began.
STARTED = "HARDPOINT_H200_STARTED"
#: Sides that run on nv, and what torch.compile is given as the backend.
OURS, COMPILED = ("nv", "graph"), {"graph": "hardpoint", "inductor": "inductor"}

Work = Callable[[], object]


# ---- Building


def prepare(wheels: Path) -> str:
    """An environment with Hardpoint built for this machine's torch; returns its Python."""
    folder = Path(tempfile.mkdtemp(prefix="hardpoint-"))
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    ours = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    (Path(ours.stdout.strip()) / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "--force-reinstall", *map(str, sorted(wheels.glob("*.whl")))], check=True)
    environment = {
        **os.environ,
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count()),
    }
    environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{environment['PATH']}"
    # sim's kernels are not needed here.
    options = ["--no-build-isolation", "--config-settings=cmake.define.HARDPOINT_PREBUILD=OFF"]
    subprocess.run([*pip, *options, str(ROOT)], check=True, env=environment)
    return python


# ---- Timing


def elapsed() -> float:
    """Seconds since all began."""
    return time.time() - float(os.environ[STARTED])


def wait(device: str) -> None:
    import torch

    (torch.cuda if device == "cuda" else torch.accelerator).synchronize()


def seconds(device: str, work: Work, least: float = 0.3) -> float:
    """Of a call, when calls follow each other: the median of five rounds, each waited for at its end."""
    for _ in range(3):
        work()
    wait(device)
    start = time.perf_counter()
    work()
    wait(device)
    calls = max(1, round(least / 5 / max(time.perf_counter() - start, 1e-6)))
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        wait(device)
        rounds.append((time.perf_counter() - start) / calls)
    return statistics.median(rounds)


def release(device: str) -> None:
    import gc

    import torch

    gc.collect()
    (torch.nv if device == "nv" else torch.cuda).empty_cache()


# ---- Kernels


def kernels(device: str) -> dict[str, tuple[Work, float, str]]:
    """Calls with what they move or compute: bytes read and written, or operations."""
    import torch
    from torch.nn import functional as f

    import hardpoint.cuda

    n = 1 << 28
    x, rows = torch.randn(n, device=device), torch.randn(n, device=device).view(-1, 4096)
    half, weight = x.bfloat16(), torch.ones(4096, device=device)
    half_rows = half.view(-1, 4096)
    labels = torch.randint(4096, (n // 4096,), device=device)
    small = torch.randn(8, device=device)
    square, batch = torch.randn(8192, 8192, device=device), torch.randn(64, 1024, 1024, device=device)
    square_half, batch_half = square.bfloat16(), batch.half()
    vector = torch.randn(8192, device=device)
    many = [torch.randn(1 << 16, device=device) for _ in range(256)]
    query = torch.randn(8, 12, 1024, 64, device=device).bfloat16()
    gib = 4.0 * n

    def attention() -> object:
        return f.scaled_dot_product_attention(query, query, query, is_causal=True)

    def allowing(name: str, work: Work, allowed: bool = True) -> Work:
        """With a setting of nv's, or torch's of the same meaning, for the time of the call."""

        def call() -> object:
            if device == "nv":
                before = getattr(hardpoint.cuda, name)(allowed)
                result = work()
                getattr(hardpoint.cuda, name)(before)
                return result
            torch.backends.cuda.matmul.allow_tf32 = name == "allow_tf32"
            result = work()
            torch.backends.cuda.matmul.allow_tf32 = False
            return result

        return call

    return {
        "add of 8 elements": (lambda: small + small, 0, ""),
        "copy": (lambda: x.clone(), 2 * gib, "bytes"),
        "add": (lambda: x + x, 2 * gib, "bytes"),
        "add, bfloat16": (lambda: half + half, gib, "bytes"),
        "gelu": (lambda: f.gelu(x), 2 * gib, "bytes"),
        "add of a row": (lambda: rows + weight, 2 * gib, "bytes"),
        "to bfloat16": (lambda: x.bfloat16(), 1.5 * gib, "bytes"),
        "fill": (lambda: x.zero_(), gib, "bytes"),
        "transposed copy": (lambda: rows.t().contiguous(), 2 * gib, "bytes"),
        "sum": (lambda: x.sum(), gib, "bytes"),
        "sum of rows": (lambda: rows.sum(1), gib, "bytes"),
        "sum of columns": (lambda: rows.sum(0), gib, "bytes"),
        "softmax": (lambda: torch.softmax(rows, 1), 2 * gib, "bytes"),
        "softmax, bfloat16": (lambda: torch.softmax(half_rows, 1), gib, "bytes"),
        "layer_norm": (lambda: f.layer_norm(rows, (4096,), weight, weight), 2 * gib, "bytes"),
        "cross_entropy": (lambda: f.cross_entropy(rows, labels), 3 * gib, "bytes"),
        "uniform numbers": (lambda: x.uniform_(), gib, "bytes"),
        "foreach add, 256 x 64 Ki": (lambda: torch._foreach_add_(many, 1.0), 2 * 4.0 * 256 * 65536, "bytes"),
        "matmul 8192, float32": (lambda: square @ square, 2 * 8192.0**3, "operations"),
        "matmul 8192, TF32": (allowing("allow_tf32", lambda: square @ square), 2 * 8192.0**3, "operations"),
        "matmul 8192, bfloat16": (lambda: square_half @ square_half, 2 * 8192.0**3, "operations"),
        "bmm 64 x 1024, float16": (lambda: batch_half @ batch_half, 64 * 2 * 1024.0**3, "operations"),
        "linear with bias, float32": (lambda: f.linear(square, square, vector), 2 * 8192.0**3, "operations"),
        "attention, bfloat16, causal": (attention, 2 * 8 * 12 * 1024.0**2 * 64, "operations"),
        "the same, flash off": (allowing("allow_flash", attention, False), 2 * 8 * 12 * 1024.0**2 * 64, "operations"),
    }


def measure_kernels() -> list[dict[str, Any]]:
    import torch

    times: dict[str, dict[str, float]] = {}
    amounts: dict[str, tuple[float, str]] = {}
    for device in ("nv", "cuda"):
        with torch.no_grad():
            for name, (work, amount, unit) in kernels(device).items():
                times.setdefault(name, {})[device] = seconds(device, work)
                amounts[name] = amount, unit
        release(device)
    bandwidth = amounts["copy"][0] / times["copy"]["cuda"]
    results = []
    for name, took in times.items():
        amount, unit = amounts[name]
        rate = amount / took["nv"]
        share = rate / bandwidth if unit == "bytes" else took["cuda"] / took["nv"] if unit else 0
        results.append({"name": name, **took, "ratio": took["nv"] / took["cuda"], "rate": rate, "share": share})
    return results


def print_kernels(results: list[dict[str, Any]]) -> None:
    print("\nKernels. Of copy: the share of torch.cuda's copy bandwidth that the kernel reaches.\n")
    print(f"{'':30}{'nv µs':>11}{'cuda µs':>11}{'ratio':>8}{'rate':>16}{'of copy':>9}")
    for r in results:
        memory = r["share"] and r["rate"] < 1e13
        rate = f"{r['rate'] / 1e12:.2f} {'TB/s' if memory else 'TFLOP/s'}" if r["rate"] else ""
        share = f"{r['share']:.0%}" if memory else ""
        print(f"{r['name']:30}{r['nv'] * 1e6:11.1f}{r['cuda'] * 1e6:11.1f}{r['ratio']:8.2f}{rate:>16}{share:>9}")


# ---- Models


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


def resnet50(device: str, batch: int, half: bool, compiled: str) -> Work:
    import torch
    import torchvision

    model = torchvision.models.resnet50().to(device).train()
    images, labels = torch.randn(batch, 3, 224, 224).to(device), torch.randint(1000, (batch,)).to(device)
    if compiled:
        model = torch.compile(model, backend=compiled)
    return training(model, lambda m: torch.nn.functional.cross_entropy(m(images), labels), device, half)


def gpt2(device: str, compiled: str, dropout: float = 0.1) -> Work:
    import torch
    import transformers

    config = transformers.GPT2Config(attn_pdrop=dropout, embd_pdrop=dropout, resid_pdrop=dropout)
    model = transformers.GPT2LMHeadModel(config).to(device).train()
    ids = torch.randint(50257, (8, 512)).to(device)
    if compiled:
        model = torch.compile(model, backend=compiled)
    return training(model, lambda m: m(input_ids=ids, labels=ids).loss, device, True)


def inference(make: Callable[[], Any], inputs: Callable[[], dict[str, Any]]) -> Callable[[str, str], Work]:
    def made(device: str, compiled: str) -> Work:
        import torch

        model = make().to(device).eval()
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
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=32000,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16)


def inferences() -> dict[str, tuple[Callable[[], Any], Callable[[], dict[str, Any]]]]:
    """What launches decide: the model, and its inputs."""
    import torch

    return {
        "ResNet-50 inference, 1": (_resnet, lambda: {"x": torch.randn(1, 3, 224, 224)}),
        "BERT-base inference, 8 x 128": (_bert, lambda: {"input_ids": torch.randint(30000, (8, 128))}),
        "Llama 1B, one token, bfloat16": (_llama, lambda: {"input_ids": torch.randint(32000, (1, 1))}),
    }


def models() -> dict[str, Callable[[str, str], Work]]:
    """Work on a device, in eager mode or compiled by a backend."""
    return {
        "ResNet-50 training, 32, float32": lambda device, compiled: resnet50(device, 32, False, compiled),
        "ResNet-50 training, 128, bfloat16": lambda device, compiled: resnet50(device, 128, True, compiled),
        "GPT-2 training, 8 x 512, bfloat16": gpt2,
        "GPT-2 without dropout": lambda device, compiled: gpt2(device, compiled, 0.0),
        **{name: inference(*given) for name, given in inferences().items()},
        "ResNet-50 training, 32, bfloat16": lambda device, compiled: resnet50(device, 32, True, compiled),
        "ResNet-50 training, 128, float32": lambda device, compiled: resnet50(device, 128, False, compiled),
    }


def measure_side(side: str, names: list[str]) -> None:
    """Print times and memory of models on one side, measured in this process: a line each."""
    import torch

    device = "nv" if side in OURS else "cuda"
    module = torch.nv if device == "nv" else torch.cuda
    for name in names:
        torch.manual_seed(0)
        work = models()[name](device, COMPILED.get(side, ""))
        for _ in range(3):
            work()
        wait(device)
        module.reset_peak_memory_stats()
        cpu = cpu_calls(work) if side == "nv" else {}
        work()
        wait(device)
        memory = module.max_memory_allocated()
        result = {"name": name, "memory": memory, "cpu": cpu, "seconds": seconds(device, work, 1.0)}
        print(json.dumps(result), flush=True)
        del work
        torch.compiler.reset()
        release(device)


def cpu_calls(work: Work) -> dict[str, int]:
    """Operators that ran on the CPU, and how often."""
    import hardpoint

    hardpoint.reset_counters()
    work()
    return {name: tiers["cpu"] for name, tiers in hardpoint.counters().items() if tiers.get("cpu")}


def start_side(side: str, names: list[str], lines: Any) -> subprocess.Popen[bytes]:
    """A process for each side: where a plug-in is mounted, torch's own backend cannot compute gradients."""
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1" if side in OURS else "0"}
    if side not in OURS:
        environment.pop("HARDPOINT_DEVICE", None)
    # Graph mode is for what launches decide.
    some = [name for name in names if side != "graph" or name in inferences()]
    command = [sys.executable, __file__, "--side", side, "--models", *some]
    # A session of its own: torch.compile starts processes, which must end with it.
    return subprocess.Popen(command, env=environment, stdout=lines, start_new_session=True)


def end_side(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def measure_models(names: list[str], sides: tuple[str, ...]) -> list[dict[str, Any]]:
    taken: dict[str, dict[str, Any]] = {name: {"name": name} for name in names}
    for side in sides:
        with tempfile.TemporaryFile("w+") as lines:
            left = LIMIT - elapsed()
            patience = max(0, left if side == sides[-1] else min(PATIENCE, left))
            process = start_side(side, names, lines)
            try:
                process.wait(timeout=patience)
            except subprocess.TimeoutExpired:
                end_side(process)
                print(f"{side}: not all models within {patience:.0f} s")
            lines.seek(0)
            for result in map(json.loads, (line for line in lines if line.startswith('{"name"'))):
                taken[result["name"]][side] = result
    return list(taken.values())


def print_models(results: list[dict[str, Any]]) -> None:
    print("\nModels. Speed: the other's time over ours in eager mode; gain: eager mode's over graph mode's, on nv;")
    print("memory at its peak.\n")
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


def main() -> None:
    """Build if need be, measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, help="wheels to build with, on a machine without a network")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be given again")
    parser.add_argument("--models", nargs="*", help="these models only, by their names")
    parser.add_argument("--side", choices=(*OURS, "cuda", "inductor"), help=argparse.SUPPRESS)
    parser.add_argument("--no-inductor", action="store_true", help="leave torch.compile's times out")
    parser.add_argument("--dtypes", default="float32,bfloat16,float16,int64,bool", help="of the operators")
    parser.add_argument("--samples", type=int, default=2, help="for each operator and dtype")
    parser.add_argument("--json", type=Path, help="write everything that was measured")
    options = parser.parse_args()
    os.environ.setdefault(STARTED, str(time.time()))  # kept when this program starts again, in an environment
    if importlib.util.find_spec("hardpoint") is None or not Path(sys.prefix).exists():
        if options.wheels is None:
            parser.error("Hardpoint is not installed here: name a folder of wheels to build with (--wheels)")
        start = time.time()
        python = prepare(options.wheels.resolve())
        print(f"built in {time.time() - start:.0f} s", flush=True)
        os.execv(python, [python, __file__, *sys.argv[1:]])
    os.environ["HF_HUB_OFFLINE"] = "1"
    if options.side:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        measure_side(options.side, options.models)
        return
    os.environ["HARDPOINT_DEVICE"] = "nv"
    import torch

    import hardpoint

    (device,) = hardpoint.devices("nv")[:1] or [None]
    if device is None or not torch.cuda.is_available():
        raise SystemExit("this benchmark needs an NVIDIA device")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(
        f"{device['name']}, torch {torch.__version__}, Hardpoint {hardpoint.__version__}, {time.strftime('%Y-%m-%d')}"
    )
    parts = options.only or PARTS
    names = options.models or list(models())
    measured: dict[str, Any] = {}
    if "kernels" in parts:
        measured["kernels"] = measure_kernels()
        print_kernels(measured["kernels"])
        print(f"\n{elapsed():.0f} s so far", flush=True)
    if "operators" in parts:
        # Nothing is timed here: a good time for torch.compile to fill its caches.
        inductor = "models" in parts and not options.no_inductor
        ahead = start_side("inductor", names, subprocess.DEVNULL) if inductor else None
        measured["operators"] = h200_operators.measure(options.dtypes, options.samples, PATIENCE)
        h200_operators.show(measured["operators"], options.dtypes)
        if ahead:
            end_side(ahead)
        print(f"\n{elapsed():.0f} s so far", flush=True)
    if "models" in parts:
        sides = ("nv", "cuda", "graph", *["inductor"] * (not options.no_inductor))
        measured["models"] = measure_models(names, sides)
        print_models(measured["models"])
    print(f"\n{elapsed():.0f} s in all")
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
