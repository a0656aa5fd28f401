"""The example plug-ins, built and used as in their READMEs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from plugin_tools import ROOT, ask_python

# Most tests start a process that imports torch: too slow for make quick.
pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"


#: Docstrings count as comments.
COMMENT = {".c": r"/\*.*?\*/|//[^\n]*", ".py": r'""".*?"""|^\s*#[^\n]*'}


def code_lines(path: Path) -> int:
    """Lines that are neither blank nor comments."""
    code = re.sub(COMMENT[path.suffix], "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    return sum(1 for line in code.splitlines() if line.strip())


def make(name: str, folder: Path) -> Path:
    """Build the plug-in of an example in C."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    copy = shutil.copytree(EXAMPLES / f"{name}_c", folder / name)
    subprocess.run(["make", "-C", str(copy), "-B", f"PYTHON={sys.executable}"], check=True, capture_output=True)
    return copy / f"lib{name}.so"


@pytest.fixture(scope="module", params=["c", "python"])
def hello(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment that mounts `hello`."""
    if request.param == "python":
        path = EXAMPLES / "hello_python" / "hello.py"
    else:
        path = make("hello", tmp_path_factory.mktemp("hello"))
    return {"HARDPOINT_PLUGIN_PATH": str(path), "HARDPOINT_DEVICE": "hello"}


def test_adds(hello: dict[str, str], tmp_path: Path) -> None:
    code = """
import torch, hardpoint
a, b = torch.randn(3, 4), torch.randn(4)
pairs = []
def add(x, y, **kw):
    pairs.append((torch.add(x, y, **kw), torch.add(x.to("hello"), y.to("hello"), **kw).cpu()))
add(torch.ones(2), torch.ones(1))
add(a, a)
add(a, b)                      # broadcast: arrives expanded and contiguous
add(a.t(), a.t(), alpha=2)     # strided: arrives contiguous
add(a[:, ::2], a[:, 1::2], alpha=-0.5)
add(torch.tensor(1.5), torch.tensor(2.5))
same = [torch.allclose(x, y, rtol=1e-6, atol=1e-6) for x, y in pairs]
x = torch.ones(2, device="hello")
x += torch.ones(1, device="hello")
out = torch.empty(2, device="hello")
torch.add(x, x, out=out)
answer = dict(same=same, ones=pairs[0][1].tolist(), inplace=x.tolist(), out=out.tolist(),
              device=str(x.device), count=torch.accelerator.device_count(), calls=hardpoint.counters())
"""
    answer = ask_python(code, tmp_path, **hello)
    assert answer["same"] == [True] * 6
    assert answer["ones"] == [2, 2]
    assert answer["inplace"] == [2, 2]
    assert answer["out"] == [4, 4]
    assert answer["device"] == "hello:0"
    assert answer["count"] == 1
    assert answer["calls"]["aten::add.Tensor"] == {"vendor": 6}
    assert answer["calls"]["aten::add_.Tensor"] == {"vendor": 1}
    assert answer["calls"]["aten::add.out"] == {"vendor": 1}


def test_declined_calls_run_on_the_cpu(hello: dict[str, str], tmp_path: Path) -> None:
    code = """
import torch, hardpoint
a = torch.arange(4)
results = {
    "int64": (a.to("hello") + a.to("hello")).tolist(),
    "float64": (a.double().to("hello") + a.double().to("hello")).tolist(),
    "number": (torch.ones(2, device="hello") + 1).tolist(),
    "number first": (torch.tensor(1.0) + torch.ones(2, device="hello")).tolist(),
}
answer = dict(results=results, calls=hardpoint.counters()["aten::add.Tensor"])
"""
    answer = ask_python(code, tmp_path, **hello)
    assert answer["results"] == {
        "int64": [0, 2, 4, 6],
        "float64": [0, 2, 4, 6],
        "number": [2, 2],
        "number first": [2, 2],
    }
    assert answer["calls"] == {"cpu": 4}


def test_training_step_matches_the_cpu(hello: dict[str, str], tmp_path: Path) -> None:
    code = """
import torch, hardpoint
def train(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    x, y = torch.randn(16, 4), torch.randn(16, 2)
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()]
(cpu_losses, cpu), (losses, hello) = train("cpu"), train("hello")
torch.testing.assert_close(hello, cpu)
answer = dict(cpu=cpu_losses, hello=losses, calls=hardpoint.counters())
"""
    answer = ask_python(code, tmp_path, **hello)
    assert answer["hello"] == pytest.approx(answer["cpu"], rel=1e-5)
    assert answer["hello"][2] < answer["hello"][0]
    assert any(name.startswith("aten::add") and "vendor" in tiers for name, tiers in answer["calls"].items())


def test_out_of_memory(hello: dict[str, str], tmp_path: Path) -> None:
    code = """
import torch
try:
    torch.empty(1 << 60, dtype=torch.uint8, device="hello")
    answer = "no error"
except torch.OutOfMemoryError as error:
    answer = str(error)
assert (torch.ones(2, device="hello") + 1).tolist() == [2, 2]
"""
    answer = ask_python(code, tmp_path, **hello)
    assert "hello:0: out of memory: tried to allocate 1152921504606846976 bytes" in answer
    assert "The plug-in says" in answer


@pytest.mark.parametrize("path", ["hello_c/hello.c", "hello_python/hello.py"])
def test_length(path: str) -> None:
    assert 20 < code_lines(EXAMPLES / path) <= 60


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment that mounts `streams`."""
    path = make("streams", tmp_path_factory.mktemp("streams"))
    return {"HARDPOINT_PLUGIN_PATH": str(path), "HARDPOINT_DEVICE": "streams"}


def test_streams_example_is_short() -> None:
    assert code_lines(EXAMPLES / "streams_c" / "streams.c") <= 300


def test_streams_and_events_of_the_example(streams: dict[str, str], tmp_path: Path) -> None:
    code = """
import os, torch, hardpoint
torch.manual_seed(0)
x = torch.randn(64, 64)
a = x.to("streams")
side = torch.streams.Stream()
start, end = torch.streams.Event(enable_timing=True), torch.streams.Event(enable_timing=True)
b = a @ a
start.record()
with side:
    side.wait_event(start)
    start.record(side)           # again, while the first record may be pending
    c = b.exp() + b
    end.record(side)
del start
torch.streams.current_stream().wait_event(end)
d = c.sum()
end.synchronize()
expected = x @ x
torch.testing.assert_close(c.cpu(), expected.exp() + expected, rtol=1e-4, atol=1e-4)
child = os.fork()
if child == 0:
    try:
        a.cpu()
        os._exit(1)
    except RuntimeError as error:
        os._exit(0 if "fork" in str(error) else 2)
answer = dict(sum=d.item() / (expected.exp() + expected).sum().item(), child=os.waitpid(child, 0)[1],
              query=[end.query(), side.query()], tiers=sorted({t for c in hardpoint.counters().values() for t in c}))
"""
    answer = ask_python(code, tmp_path, **streams)
    assert answer["sum"] == pytest.approx(1, rel=1e-4)
    assert answer["child"] == 0
    assert answer["query"] == [True, True]
    assert answer["tiers"] == ["portable"]


def test_the_streams_example_conforms(streams: dict[str, str], tmp_path: Path) -> None:
    code = """
from hardpoint import check
report = check.run(["abi", "runtime"])
answer = [(r.entry, r.failure) for r in report.results if r.verdict == "failed"]
"""
    assert ask_python(code, tmp_path, **streams) == []
