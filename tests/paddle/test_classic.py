"""examples/paddle_custom_cpu: the commands of its README, Paddle on the result, and the same library in PyTorch."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plugin_tools import ROOT, ask_python, environment

# Not imported, since that would load any installed plug-in into the test process. Without Paddle, find_spec finds the
# folder of these tests, which has no origin.
SPEC = importlib.util.find_spec("paddle")
if SPEC is None or SPEC.origin is None:
    pytest.skip("paddlepaddle is not installed", allow_module_level=True)
PADDLE = Path(SPEC.origin).parent

# Compiles a plug-in, and every program imports Paddle or torch.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EXAMPLE = ROOT / "examples" / "paddle_custom_cpu"
BLOCK = re.compile(r"<!-- run -->\n```sh\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)
Shell = Callable[[str], str]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Runs commands in a copy of the example, in an environment where Paddle sees packages that pip installs.

    Paddle's files are linked one by one, since it searches next to its own folder. Other packages are inherited.
    """
    root = tmp_path_factory.mktemp("classic")
    folder = shutil.copytree(EXAMPLE, root / "example", ignore=shutil.ignore_patterns("build", "dist", "*.egg-info"))
    home = root / "venv"
    venv.create(home, symlinks=True)
    packages = next((home / "lib").glob("python*")) / "site-packages"
    shutil.copytree(PADDLE, packages / "paddle", copy_function=os.symlink, ignore=shutil.ignore_patterns("include"))
    (packages / "paddle" / "include").symlink_to(PADDLE / "include")
    (packages / "zz_base.pth").write_text("".join(f"{path}\n" for path in sys.path if "site-packages" in path))
    command = home / "bin" / "hardpoint"
    # An editable install of Hardpoint works in this Python only.
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m hardpoint.cli "$@"\n')
    command.chmod(0o755)
    variables = {
        **environment(root / "cache", VIRTUAL_ENV=str(home), PIP_NO_INDEX="1", PIP_DISABLE_PIP_VERSION_CHECK="1"),
        "PATH": os.pathsep.join([str(home / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    variables.pop("CUSTOM_DEVICE_ROOT", None)

    def run(command: str) -> str:
        done = subprocess.run(["bash", "-ec", command], cwd=folder, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    run.folder = folder  # type: ignore[attr-defined]
    return run


@pytest.fixture(scope="module")
def library(shell: Any) -> Path:
    """The plug-in, built by the first commands of the README."""
    shell(BLOCK.findall((EXAMPLE / "README.md").read_text())[0][0])
    return Path(shell.folder) / "build" / "paddle_custom_device" / "libpaddle_custom_cpu.so"


def test_readme_commands(library: Path, shell: Shell) -> None:
    blocks = BLOCK.findall((EXAMPLE / "README.md").read_text())
    assert len(blocks) == 6
    for command, output in blocks[1:]:
        printed = shell(command)
        assert output in printed
    uses = [command for command, _ in blocks if "python use.py" in command]
    assert len(uses) == 2  # from the build folder, and installed


def test_both_readmes_have_the_same_commands() -> None:
    english, chinese = (BLOCK.findall((EXAMPLE / name).read_text()) for name in ("README.md", "README.zh-CN.md"))
    assert english == chinese


def test_cmake_wheel_installs(library: Path, shell: Any, tmp_path: Path) -> None:
    shell("cmake --build build --target wheel")
    shell(f"python -m pip install --no-deps --target {tmp_path} build/dist/*.whl")
    installed = tmp_path / "paddle_custom_device" / library.name
    assert installed.read_bytes() == library.read_bytes()
    code = "import paddle\nanswer = paddle.device.get_all_custom_device_type()"
    assert ask_python(code, tmp_path, CUSTOM_DEVICE_ROOT=str(installed.parent)) == ["custom_cpu"]


def test_kernels_against_numpy(library: Path, tmp_path: Path) -> None:
    code = """
import numpy as np, paddle
import paddle.nn.functional as F
paddle.set_device("custom_cpu")
rng = np.random.default_rng()
same = {}
def tensor(x, index=0):
    return paddle.to_tensor(x, place=paddle.CustomPlace("custom_cpu", index), stop_gradient=False)
shapes = [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 1, 3), (5, 1)), ((), (2, 3)), ((0, 3), (3,))]
for dtype in ("float32", "float64", "int32", "int64"):
    for one, two in shapes:
        a, b = ((rng.standard_normal(s) * 100).astype(dtype) for s in (one, two))
        same[f"add {dtype} {one} {two}"] = np.array_equal((tensor(a) + tensor(b)).numpy(), a + b)
for dtype in ("float32", "float64"):
    a = rng.standard_normal((5, 6)).astype(dtype)
    a[0, :3] = [np.nan, np.inf, -np.inf]
    x = tensor(a)
    y = F.relu(x)
    y.backward(paddle.full_like(y, 3.0))
    same[f"relu {dtype}"] = np.array_equal(y.numpy(), np.where(a < 0, 0, a), equal_nan=True)
    same[f"relu_grad {dtype}"] = np.array_equal(x.grad.numpy(), np.where(a > 0, 3, 0))
for dtype in ("bool", "uint8", "int8", "int16", "float16", "float32", "complex64"):
    a = rng.integers(0, 2, (3, 4, 5)).astype(dtype)
    x = tensor(a)
    same[f"contiguous {dtype}"] = np.array_equal(x.transpose([2, 0, 1]).contiguous().numpy(), a.transpose(2, 0, 1))
    same[f"slice {dtype}"] = np.array_equal(x[1:, ::2].contiguous().numpy(), a[1:, ::2])
a = rng.standard_normal((4, 3)).astype("float32")
x = tensor(a, 1)
y = (x.T + x.T).sum()
y.backward()
same["second device"] = str(y.place) == "Place(custom_cpu:1)" and np.array_equal(x.grad.numpy(), np.full_like(a, 2))
answer = [name for name, right in same.items() if not right], len(same)
"""
    wrong, count = ask_python(code, tmp_path, CUSTOM_DEVICE_ROOT=str(library.parent))
    assert wrong == []
    assert count > 40


def test_paddle_trains_on_it(library: Path, tmp_path: Path) -> None:
    code = """
import numpy as np, paddle
def train(device):
    paddle.set_device(device)
    rng = np.random.default_rng(0)
    def array(*shape):
        return paddle.to_tensor(rng.standard_normal(shape).astype("float32"))
    model = paddle.nn.Sequential(paddle.nn.Linear(4, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 1))
    for p in model.parameters():
        p.set_value(array(*p.shape) * 0.3)
    x, y = array(32, 4), array(32, 1)
    optimizer = paddle.optimizer.Adam(0.05, parameters=model.parameters())
    losses = []
    for _ in range(5):
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    return losses, str(loss.place)
cpu, (losses, place) = train("cpu")[0], train("custom_cpu")
try:
    paddle.empty([1 << 40], dtype="uint8")
    full = ""
except Exception as error:
    full = str(error)
answer = dict(cpu=cpu, losses=losses, place=place, full=full, after=paddle.ones([2]).tolist())
"""
    answer = ask_python(code, tmp_path, CUSTOM_DEVICE_ROOT=str(library.parent))
    assert answer["losses"] == pytest.approx(answer["cpu"], rel=1e-5)
    assert answer["losses"][-1] < answer["losses"][0]
    assert answer["place"] == "Place(custom_cpu:0)"
    assert "error code is : 2" in answer["full"]  # C_FAILED, all that Paddle reports
    assert answer["after"] == [1, 1]


TORCH = """
import torch, warnings
warnings.simplefilter("ignore", UserWarning)
def train(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    x, y = torch.randn(32, 4), torch.randint(2, (32,))
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
x = torch.ones(2, device="custom_cpu:1")
try:
    torch.empty(1 << 40, dtype=torch.uint8, device="custom_cpu")
    full = ""
except torch.OutOfMemoryError as error:
    full = str(error)
twice = x + x
answer = dict(cpu=train("cpu"), losses=train("custom_cpu"), twice=twice.tolist(), place=str(twice.device), full=full)
"""


def check_torch(answer: dict[str, Any]) -> None:
    assert answer["losses"] == pytest.approx(answer["cpu"], rel=1e-5)
    assert answer["losses"][-1] < answer["losses"][0]
    assert answer["twice"] == [2, 2]
    assert answer["place"] == "custom_cpu:1"
    assert "device_memory_allocate could not allocate" in answer["full"]


def test_torch_trains_on_it_without_importing_paddle(library: Path, tmp_path: Path) -> None:
    code = f"{TORCH}\nimport sys\nanswer['paddle'] = 'paddle' in sys.modules"
    answer = ask_python(code, tmp_path, HARDPOINT_PADDLE_PLUGIN=str(library))
    check_torch(answer)
    assert answer["paddle"] is False


def test_hardpoint_kernel_for_a_paddle_plugin(library: Path, tmp_path: Path) -> None:
    code = """
import ctypes, torch, hardpoint, tvm_ffi
torch.custom_cpu.synchronize()
@hardpoint.kernel("add")
def add(out, a, b, alpha):
    if str(out.dtype) != "float32":
        raise NotImplementedError
    count = out.numel()
    values = [(ctypes.c_float * count).from_address(t.data_ptr()) for t in (out, a, b)]
    for i in range(count):
        values[0][i] = values[1][i] + alpha * values[2][i]
x, y = torch.randn(3, 4), torch.randn(4)
result = torch.add(x.to("custom_cpu"), y.to("custom_cpu"), alpha=2).cpu()
answer = dict(close=torch.allclose(result, torch.add(x, y, alpha=2)), calls=hardpoint.counters()["aten::add.Tensor"])
"""
    answer = ask_python(code, tmp_path, HARDPOINT_PADDLE_PLUGIN=str(library))
    assert answer == {"close": True, "calls": {"vendor": 1}}


@pytest.mark.parametrize("first", ["torch", "paddle"])
def test_both_frameworks_on_one_library(first: str, library: Path, tmp_path: Path) -> None:
    second = "paddle" if first == "torch" else "torch"
    code = f"""
import {first}
import {second}
{TORCH}
paddle.set_device("custom_cpu:0")
p = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
((p + p) * p).sum().backward()
answer["paddle"] = [p.grad.tolist(), str(p.place)]
answer["again"] = (x + x).tolist()
"""
    roots = {"CUSTOM_DEVICE_ROOT": str(library.parent), "HARDPOINT_PADDLE_PLUGIN": str(library)}
    answer = ask_python(code, tmp_path, **roots)
    check_torch(answer)
    assert answer["paddle"] == [[4, 8], "Place(custom_cpu:0)"]
    assert answer["again"] == [2, 2]


def test_bridge_layout_equals_paddles(tmp_path: Path) -> None:
    """plugins/paddle_bridge/paddle_table.h against the header of the installed Paddle, field by field."""
    header = (ROOT / "plugins" / "paddle_bridge" / "paddle_table.h").read_text()
    body = re.search(r"struct Interface \{(.*?)\n\};", header, re.DOTALL)
    assert body is not None
    names = re.findall(r"\(\*(\w+)\)|void\* (\w+)\[8\]|std::size_t (\w+);", body[1])
    fields = ["".join(each) for each in names]
    assert len(fields) == 1 + 43 + 2
    pairs = [("C_DeviceInterface", "paddle::Interface", f) for f in fields]
    pairs += [("CustomRuntimeParams", "paddle::Params", f) for f in ("interface", "version", "device_type")]
    pairs += [("CustomRuntimeParams", "paddle::Params", "sub_device_type")]
    lines = [f'static_assert(offsetof({a}, {f}) == offsetof({b}, {f}), "{f}");' for a, b, f in pairs]
    lines += ["static_assert(sizeof(C_DeviceInterface) == 1128 && sizeof(CustomRuntimeParams) == 96);"]
    lines += ["static_assert(C_INTERNAL_ERROR == int(paddle::kInternalError) && C_FAILED == int(paddle::kFailed));"]
    source = tmp_path / "layout.cpp"
    includes = '#include "paddle/phi/backends/device_ext.h"\n#include "paddle_table.h"\n'
    source.write_text(includes + "\n".join(lines) + "\n")
    flags = [f"-I{PADDLE / 'include'}", f"-I{ROOT / 'plugins' / 'paddle_bridge'}"]
    command = [os.environ.get("CXX") or "g++", "-std=c++17", "-fsyntax-only", *flags, str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
