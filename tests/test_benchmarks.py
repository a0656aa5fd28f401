"""The benchmarks run, and their numbers are consistent. Speed itself is not tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from plugin_tools import ROOT

from hardpoint._runtime import package_file

pytestmark = pytest.mark.slow


def printed(*arguments: str, **variables: str) -> Any:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HARDPOINT_")} | {"HARDPOINT_DEVICE": "sim"}
    environment |= {"BENCHMARK_PATIENCE": "0", **variables}
    command = [sys.executable, str(ROOT / "benchmarks" / arguments[0]), *arguments[1:], "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_kernels():
    result = printed("kernels.py", "--only", "^broadcast: ")
    assert result["threads"] == 2
    assert len(result["cases"]) > 1
    for case in result["cases"]:
        assert case["family"] == "broadcast"
        assert case["ratio"] == pytest.approx(case["device_us"] / case["native_us"])
        assert case["tier"] in ("vendor", "portable")
        assert case["cpu_operators"] == []


def test_compiled():
    pytest.importorskip("triton")
    (case,) = printed("compiled.py", "--only", "softmax")["cases"]
    assert case["case"] == "kernel: softmax"
    assert case["launches"] == case["yardstick_launches"] == 1
    assert case["ratio"] == pytest.approx(case["ms"] / case["yardstick_ms"])


def test_profile_of_a_model():
    rows = printed("models.py", "--only", "gpt", "--profile", "1")["gpt"]
    operators = {row["operator"]: row for row in rows}
    # Includes backward, which runs on another thread.
    for name in ("aten.mm.default", "aten.native_layer_norm_backward.default"):
        row = operators[name]
        assert row["calls"] == row["native_calls"] > 0
        assert row["tier"]
        assert row["difference_ms"] == pytest.approx(row["device_ms"] - row["native_ms"])
    losses = [row["difference_ms"] for row in rows]
    assert losses == sorted(losses, reverse=True)


def test_gpu_checks():
    """The GPU check program, run on sim and the CPU."""
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "h200_checks.py"),
        "--ours",
        "sim",
        "--theirs",
        "cpu",
        "--small",
    ]
    command += [word for part in ("losses", "memory", "exhaustion", "graph") for word in ("--only", part)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line.split(":")[0] for line in lines} == {"losses", "memory", "exhaustion", "graph"}
    assert all(line.endswith(": passed") for line in lines)


def test_graph():
    (case,) = printed("graph.py", "--only", "llama, 1 x 8 tokens", "--no-inductor")["cases"]
    assert case["speedup"] == pytest.approx(case["eager_ms"] / case["graph_ms"])
    assert 0 < case["graph_launches"] <= case["eager_launches"]
    assert 0 < case["graph_peak"] <= case["eager_peak"]


@pytest.mark.skipif(find_spec("paddle") is None, reason="Paddle is not installed")
def test_paddle():
    root = str(package_file("../paddle_custom_device/libhardpoint_paddle.so").resolve().parent)
    result = printed("paddle_dispatch.py", "--only", "add|maxout|LeNet", CUSTOM_DEVICE_ROOT=root)
    cases = {case["name"]: case for case in result["cases"]}
    assert list(cases) == ["add", "fallback: maxout", "LeNet training step"]
    for case in cases.values():
        assert case["ratio"] == pytest.approx(case["device_us"] / case["other_us"])
    assert cases["add"]["cpu_operators"] == {}
    assert cases["fallback: maxout"]["cpu_operators"] == {"phi::maxout": 1}


@pytest.mark.skipif(find_spec("paddle") is None, reason="Paddle is not installed")
def test_paddle_models():
    root = str(package_file("../paddle_custom_device/libhardpoint_paddle.so").resolve().parent)
    # One thread is timed by its CPU time, which needs no wait for a quiet machine.
    result = printed("paddle_models.py", "--only", "mobilenet", CUSTOM_DEVICE_ROOT=root, HARDPOINT_SIM_THREADS="1")
    (case,) = result["models"]
    assert case["ratio"] == pytest.approx(case["device_ms"] / case["native_ms"])
    assert case["cpu_operators"] == {}


def test_observers():
    rows = {row["tool"]: row for row in printed("observers.py")}
    off = rows["off"]
    for row in rows.values():
        assert row["operator_ratio"] == pytest.approx(row["operator_ns"] / off["operator_ns"])
        assert row["step_ratio"] == pytest.approx(row["step_ms"] / off["step_ms"])
    # A Python call is a hundred times slower than the operator.
    assert rows["dump, level 1"]["operator_ratio"] > 2


def test_opencl():
    if not list(Path("/etc/OpenCL/vendors").glob("*.icd")):
        pytest.skip("OpenCL is not installed: apt-get install pocl-opencl-icd ocl-icd-libopencl1")
    result = printed("opencl.py", "--only", "^add, 1,000$")
    (case,) = result["cases"]
    assert case["name"] == "add, 1,000"
    assert case["ratio"] == pytest.approx(case["device_us"] / case["native_us"])
    assert case["cpu_operators"] == []


def test_collectives():
    result = printed("collectives.py", "--mebibytes", "1")
    assert result["ranks"] == 2
    assert [case["bytes"] for case in result["cases"]] == sorted(case["bytes"] for case in result["cases"])
    for case in result["cases"]:
        assert case["ratio"] == pytest.approx(case["gloo_us"] / case["plugin_us"])
        assert case["staged_ratio"] == pytest.approx(case["gloo_us"] / case["host_us"])
    assert result["ddp"].keys() == {"plugin", "host", "gloo"}
