"""NVIDIA devices through the plug-in ``nv`` against torch's CUDA backend in the same run.

python benchmarks/h200.py [--wheels FOLDER] [--only PART] [--json FILE]

If Hardpoint is not installed, it creates an environment on top of torch's, installs the wheels in FOLDER offline
(apache-tvm-ffi, scikit-build-core, pybind11, pyyaml, typer, rich, expecttest and their dependencies), builds Hardpoint
there, and restarts itself in it. TF32 is off on both sides.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # to the end: this folder has a copy.py that would shadow the standard module

import argparse
import importlib.util
import json
import os
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import h200_models
import h200_operators
import h200_zoo
from h200_timing import ROUNDS, Work, seconds

sys.path.pop()  # transformers looks for a package "kernels", which kernels.py would shadow

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("kernels", "operators", "models")
#: Seconds for all models of one side, and for all operators.
PATIENCE = 150
OPERATORS_PATIENCE = 200
#: Seconds from the start within which models must be ready; the last side, torch.compile, gets the remaining time.
LIMIT = 560
#: Environment variable with the start time.
STARTED = "HARDPOINT_H200_STARTED"


def elapsed() -> float:
    """Seconds since the start."""
    return time.time() - float(os.environ[STARTED])


# ---- Building


def prepare(wheels: Path) -> str:
    """Create an environment with Hardpoint built for the installed torch; returns its Python."""
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


# ---- Kernels


def release(device: str) -> None:
    import gc

    import torch

    gc.collect()
    (torch.nv if device == "nv" else torch.cuda).empty_cache()


def kernels(device: str) -> dict[str, tuple[Work, float, str]]:
    """Calls with their bytes read and written, or operations."""
    import torch
    from torch.nn import functional as f

    import hardpoint.devices.cuda

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
        """Call with a setting of nv, or the equivalent of torch."""

        def call() -> object:
            if device == "nv":
                before = getattr(hardpoint.devices.cuda, name)(allowed)
                result = work()
                getattr(hardpoint.devices.cuda, name)(before)
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
        "normal numbers": (lambda: x.normal_(), gib, "bytes"),
        "dropout, bfloat16": (lambda: torch.native_dropout(half, 0.1, True), 1.25 * gib, "bytes"),
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
    for device in ("nv", "cuda") * ROUNDS:
        with torch.no_grad():
            for name, (work, amount, unit) in kernels(device).items():
                took, other = seconds(device, work), times.setdefault(name, {})
                other[device] = min(took, other.get(device, took))
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
    print("\nKernels. Of copy: bandwidth relative to a copy with torch.cuda.\n")
    print(f"{'':30}{'nv µs':>11}{'cuda µs':>11}{'ratio':>8}{'rate':>16}{'of copy':>9}")
    for r in results:
        memory = r["share"] and r["rate"] < 1e13
        rate = f"{r['rate'] / 1e12:.2f} {'TB/s' if memory else 'TFLOP/s'}" if r["rate"] else ""
        share = f"{r['share']:.0%}" if memory else ""
        print(f"{r['name']:30}{r['nv'] * 1e6:11.1f}{r['cuda'] * 1e6:11.1f}{r['ratio']:8.2f}{rate:>16}{share:>9}")


def main() -> None:
    """Build if needed, measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, help="wheels for an offline build")
    parser.add_argument("--only", choices=PARTS, action="append", help="run this part; repeatable")
    parser.add_argument("--models", nargs="*", choices=h200_models.all_models(), help="run these models only")
    parser.add_argument("--zoo", action="store_true", help="run the models that nobody tuned Hardpoint for")
    parser.add_argument(
        "--sides", nargs="*", choices=h200_models.SIDES, default=list(h200_models.SIDES), help="run these ways only"
    )
    parser.add_argument("--dtypes", default="float32,bfloat16,float16,int64,bool", help="dtypes of the operators")
    parser.add_argument("--samples", type=int, default=2, help="samples per operator and dtype")
    parser.add_argument("--json", type=Path, help="write all measurements")
    options = parser.parse_args()
    os.environ.setdefault(STARTED, str(time.time()))  # preserved across the restart
    if importlib.util.find_spec("hardpoint") is None:
        if options.wheels is None:
            parser.error("Hardpoint is not installed: pass a folder of wheels to build with (--wheels)")
        python = prepare(options.wheels.resolve())
        print(f"built in {elapsed():.0f} s", flush=True)
        os.execv(python, [python, __file__, *sys.argv[1:]])
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HARDPOINT_DEVICE"] = "nv"
    import torch

    import hardpoint

    (device,) = hardpoint.devices("nv")[:1] or [None]
    if device is None or not torch.cuda.is_available():
        raise SystemExit("this benchmark needs an NVIDIA device")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(f"{device.name}, torch {torch.__version__}, Hardpoint {hardpoint.__version__}, {time.strftime('%Y-%m-%d')}")
    parts = options.only or PARTS
    measured: dict[str, Any] = {}
    if "kernels" in parts:
        measured["kernels"] = measure_kernels()
        print_kernels(measured["kernels"])
        print(f"\n{elapsed():.0f} s so far", flush=True)
    if "operators" in parts:
        measured["operators"] = h200_operators.measure(options.dtypes, options.samples, OPERATORS_PATIENCE)
        h200_operators.show(measured["operators"], options.dtypes)
        print(f"\n{elapsed():.0f} s so far", flush=True)
    if "models" in parts:
        names, sides = options.models or list(h200_models.models()), tuple(options.sides)
        if options.zoo:
            names = list(h200_zoo.zoo())
        until = time.time() + LIMIT - elapsed()
        measured["models"] = h200_models.measure(names, sides, PATIENCE, until)
        h200_models.show(measured["models"], sides)
    print(f"\n{elapsed():.0f} s in all")
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1))


if __name__ == "__main__":
    main()
