"""Devices through OpenCL, against the CPU. Skipped where no driver of OpenCL is installed."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from opencl_driver import installed_library, needs_opencl

from hardpoint.devices import opencl

RunPython = Callable[..., CompletedProcess[str]]


LOAD = f"import hardpoint._discovery as p; p.load_path({opencl.library()!r}, trial=False)"


def test_message_without_a_driver(run_python: RunPython, tmp_path: Path) -> None:
    done = run_python(LOAD, check=False, OCL_ICD_VENDORS=str(tmp_path), OCL_ICD_FILENAMES=None)
    assert done.returncode != 0
    for part in ("OpenCL", "pocl-opencl-icd", "HARDPOINT_DEVICE"):
        assert part in done.stderr


@needs_opencl
def test_message_for_a_name_that_no_device_has(run_python: RunPython) -> None:
    done = run_python(LOAD, check=False, HARDPOINT_OPENCL_DEVICE="no such device")
    assert "no usable device named by HARDPOINT_OPENCL_DEVICE=no such device. Devices found:\n  0: " in done.stderr


@needs_opencl
@pytest.mark.slow
def test_conformance(run_python: RunPython) -> None:
    """The contract and the runtime, as `hardpoint check` sees them."""
    done = run_python(
        """
        import sys
        from hardpoint.cli import main

        sys.argv = ["hardpoint", "check", "abi", "runtime", "--json", "report.json"]
        main()
        """,
        HARDPOINT_DEVICE="ocl",
        timeout=250,
    )
    assert "100.0%" in done.stdout
    assert "failed" not in done.stdout


@needs_opencl
@pytest.mark.slow
def test_operators(run_python: RunPython) -> None:
    """One of each family of kernels, and which tier it ran in."""
    run_python(
        """
        import torch
        import hardpoint

        torch.manual_seed(0)
        a, b, wide = torch.randn(33, 70), torch.randn(33, 70), torch.randn(70, 20)
        whole = torch.randint(-5, 5, (33, 70))

        def together(found):
            # The matrix that was taken apart.
            if len(found) == 2:
                values, vectors = found
                return (vectors * values) @ vectors.mT
            left, values, right = found
            return (left * values) @ right

        hardpoint.reset_counters()
        for name, function, inputs in [
            ("pointwise", lambda x, y: torch.add(x, y, alpha=0.3).exp(), (a, b)),
            ("strided", lambda x, y: x.t()[::2] * y.t()[::2], (a, b)),
            ("integers", lambda x: (x // 3).bitwise_and(1) == 0, (whole,)),
            ("sum", lambda x: x.sum(1), (a,)),
            ("amax of columns", lambda x: x.amax(0), (a,)),
            ("softmax", lambda x: x.softmax(1), (a,)),
            ("matmul", lambda x, y: x @ y, (a, wide)),
            ("sort", lambda x: x.sort(1).values, (a,)),
            ("cumsum", lambda x: x.cumsum(1), (whole,)),
            ("layer_norm", lambda x: torch.nn.functional.layer_norm(x, (70,)), (a,)),
            ("index", lambda x, i: x[i[0].abs()], (a, whole)),
            ("double", lambda x: x.double().sin(), (a,)),
            ("half", lambda x: x.half() * 2, (a,)),
            ("singular vectors", lambda x: together(torch.linalg.svd(x, full_matrices=False)), (a[:5, :7].double(),)),
            ("eigenvectors", lambda x: together(torch.linalg.eigh(x @ x.mT)), (a[:6].double(),)),
            ("of one number", lambda x: together(torch.linalg.eigh(x)), (a[:1, :1].double().abs(),)),
        ]:
            expected = function(*inputs)
            found = function(*(x.to("ocl") for x in inputs)).cpu()
            torch.testing.assert_close(found, expected, msg=lambda m: f"{name}: {m}")
        on_cpu = [op for op, calls in hardpoint.counters().items() if calls.get("cpu")]
        assert on_cpu == [], on_cpu
        """,
        HARDPOINT_DEVICE="ocl",
        timeout=250,
    )


@needs_opencl
@pytest.mark.slow
def test_groups_leave_rows_of_others_alone(run_python: RunPython) -> None:
    """Short rows, a group for each, on all threads of the driver at once."""
    run_python(
        """
        import torch

        torch.manual_seed(0)
        steps, lengths = [50, 50, 31], [5, 10, 7]
        for _ in range(40):
            logs, targets = torch.randn(50, 3, 16).log_softmax(2), torch.randint(1, 16, (3, 10))
            gradients = []
            for device in ("cpu", "ocl"):
                x = logs.to(device).detach().requires_grad_()
                torch.nn.functional.ctc_loss(x, targets.to(device), steps, lengths, reduction="sum").backward()
                gradients.append(x.grad.cpu())
            torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-4)
        """,
        HARDPOINT_DEVICE="ocl",
        timeout=250,
    )


@needs_opencl
@pytest.mark.slow
def test_streams_and_events(run_python: RunPython) -> None:
    run_python(
        """
        import torch

        x = torch.randn(1 << 20)
        y = x.to("ocl")
        first, second = torch.Stream("ocl"), torch.Stream("ocl")
        start, end = (torch.Event("ocl", enable_timing=True) for _ in range(2))
        with first:
            start.record(first)
            for _ in range(5):
                y = y + x.to("ocl")
            end.record(first)
        second.wait_event(end)
        with second:
            z = y * 2
        second.synchronize()
        assert second.query() and end.query()
        assert start.elapsed_time(end) > 0
        torch.testing.assert_close(z.cpu(), x * 12)
        """,
        HARDPOINT_DEVICE="ocl",
    )


@needs_opencl
@pytest.mark.slow
def test_two_devices(run_python: RunPython) -> None:
    """PoCL makes as many as it is asked for."""
    program = """
        import torch

        count = torch.get_device_module("ocl").device_count()
        if count == 2:
            x = torch.randn(1000)
            there = x.to("ocl:0").to("ocl:1")
            assert there.device.index == 1
            torch.testing.assert_close((there * 2).to("ocl:0").cpu(), x * 2)
        print(count)
    """
    settings = {"HARDPOINT_DEVICE": "ocl", "POCL_DEVICES": "pthread pthread"}
    found = run_python(program, **settings)
    if found.stdout.strip() != "2":
        pytest.skip("PoCL is not the driver here")
    assert run_python(program, HARDPOINT_OPENCL_DEVICE="1", **settings).stdout.strip() == "1"
    assert run_python(program, HARDPOINT_OPENCL_DEVICE="pthread", **settings).stdout.strip() == "2"


@needs_opencl
@pytest.mark.slow
def test_binaries_are_kept(run_python: RunPython, tmp_path: Path) -> None:
    """The second process compiles nothing, and what it loads is right."""
    program = """
        import torch
        from hardpoint._runtime import core

        compile, compiled = core.compile, []
        core.compile = lambda *args: compiled.append(1) or compile(*args)
        x = torch.randn(100)
        torch.testing.assert_close((x.to("ocl") + 1.5).cpu(), x + 1.5)
        print(len(compiled))
    """
    counts = [
        run_python(program, HARDPOINT_DEVICE="ocl", HARDPOINT_CACHE=str(tmp_path / "cache")).stdout.split()[-1]
        for _ in range(2)
    ]
    assert int(counts[0]) > 0
    assert int(counts[1]) == 0


@needs_opencl
@pytest.mark.slow
def test_without_double_precision(run_python: RunPython, tmp_path: Path) -> None:
    """As on a device without doubles: float32 stays there, float64 goes to the CPU."""
    run_python(
        """
        import torch
        import hardpoint
        from hardpoint.kernels import specializer

        generate = specializer.generate
        def without(*args):
            made = generate(*args)
            return made and ("#define HP_NO_F64 1\\n" + made[0], *made[1:])
        specializer.generate = without

        x, y = torch.randn(500), torch.randn(500)
        numbers = [0.1, -3.0, 1e-42, 1e30, float("inf"), 0.0]
        hardpoint.reset_counters()
        for number in numbers:
            found = torch.add(x.to("ocl"), y.to("ocl"), alpha=number).cpu()
            torch.testing.assert_close(found, torch.add(x, y, alpha=number), equal_nan=True)
        assert not any(calls.get("cpu") for calls in hardpoint.counters().values()), hardpoint.counters()
        torch.testing.assert_close(x.double().to("ocl").sin().cpu(), x.double().sin())
        assert any(calls.get("cpu") for calls in hardpoint.counters().values())
        """,
        HARDPOINT_DEVICE="ocl",
        HARDPOINT_CACHE=str(tmp_path / "cache"),
    )


@needs_opencl
@pytest.mark.skipif(platform.machine() != "x86_64" or shutil.which("g++") is None, reason="needs g++ for x86-64")
def test_unified_shared_memory(run_python: RunPython, tmp_path: Path) -> None:
    """Where a driver has it, it is preferred: the functions of shared virtual memory are not called."""
    root = Path(__file__).parents[2]
    source, library = Path(__file__).with_name("unified_opencl.cpp"), tmp_path / "libOpenCL.so.1"
    command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{root / 'include'}", str(source), "-o", str(library)]
    subprocess.run([*command, "-ldl"], check=True, timeout=100)
    done = run_python(
        """
        import torch
        from torch import nn

        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
        x, y = torch.randn(16, 8), torch.randint(3, (16,))
        nn.functional.cross_entropy(net(x), y).backward()
        expected = [p.grad.clone() for p in net.parameters()]
        net = net.to("ocl")
        net.zero_grad()
        nn.functional.cross_entropy(net(x.to("ocl")), y.to("ocl")).backward()
        for parameter, gradient in zip(net.parameters(), expected):
            torch.testing.assert_close(parameter.grad.cpu(), gradient)
        torch.testing.assert_close(torch.arange(12.0, device="ocl").view(3, 4).t().contiguous().cpu(),
                                   torch.arange(12.0).view(3, 4).t())
        """,
        HARDPOINT_DEVICE="ocl",
        LD_LIBRARY_PATH=str(tmp_path),
        REAL_OPENCL=installed_library(),
    )
    assert "unified shared memory is in use" in done.stderr


@needs_opencl
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["digits", "resnet18"])
def test_models(run_python: RunPython, name: str) -> None:
    """They train to the CPU's losses, and nothing of it runs on the CPU."""
    run_python(
        f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[1] / "models")!r})
        from model_zoo import CASES
        from training import train

        case = CASES[{name!r}]
        expected, found = (train(case, device, steps=10) for device in ("cpu", "ocl"))
        assert expected.losses[-1] < expected.losses[0]
        assert all(abs(a - b) <= case.tolerance * abs(a) for a, b in zip(expected.losses, found.losses)), found.losses
        assert found.cpu_tier == {{}}, found.cpu_tier
        """,
        HARDPOINT_DEVICE="ocl",
        timeout=500,
    )


@needs_opencl
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["digits", "resnet18"])
def test_paddle(run_python: RunPython, name: str) -> None:
    """They train to the CPU's losses in Paddle, too, and nothing of it runs on the CPU."""
    pytest.importorskip("paddle")
    run_python(
        f"""
        import numpy as np
        import paddle
        from sklearn.datasets import load_digits

        import hardpoint

        # In single precision few images' batch normalization makes too much of a rounding.
        dtype, tolerance = ("float32", 1e-4) if {name!r} == "digits" else ("float64", 1e-7)
        paddle.set_default_dtype(dtype)
        data = load_digits()
        gray = np.kron(data.images[:64, None] / 16, np.ones((4, 4))).astype(dtype)  # 32 x 32
        if {name!r} == "digits":
            images, labels, make = gray[..., 2:30, 2:30], data.target[:64], paddle.vision.models.LeNet
        else:
            images, labels = np.repeat(gray[:8], 3, axis=1), data.target[:8]
            make = lambda: paddle.vision.models.resnet18(num_classes=10)
        start = {{name: value.numpy() for name, value in make().state_dict().items()}}

        def losses(device):
            paddle.set_device(device)
            model = make()
            model.set_state_dict({{name: paddle.to_tensor(value) for name, value in start.items()}})
            optimizer = paddle.optimizer.Momentum(1e-2, parameters=model.parameters())
            x, y, found = paddle.to_tensor(images), paddle.to_tensor(labels[:, None]), []
            for _ in range(8):
                loss = paddle.nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.clear_grad()
                found.append(float(loss))
            return found

        expected = losses("cpu")
        hardpoint.reset_counters()
        found = losses("ocl:0")
        cpu = [operator for operator, tiers in hardpoint.counters().items() if tiers.get("cpu")]
        assert expected[-1] < expected[0]
        np.testing.assert_allclose(found, expected, rtol=tolerance)
        assert cpu == [], cpu
        """,
        HARDPOINT_DEVICE="ocl",
        GLOG_minloglevel="1",
        timeout=500,
    )
