"""``hardpoint run --trace`` and ``--report``: the contents of real traces of a training in both frameworks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from fork_server import run_python
from plugin_tools import ROOT

from hardpoint.debug._report import figures, trace_data
from hardpoint.debug._report.trace_data import TIERS, read_events

pytestmark = pytest.mark.slow  # each test starts a process that imports a framework

STEPS = 3

TORCH = f"""
import torch
import warnings
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
device = torch.accelerator.current_accelerator()
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
images, labels = torch.randn(16, 64).to(device), torch.arange(16).remainder(10).to(device)
for step in range({STEPS}):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
"""
ITEM_LINE = 1 + TORCH.splitlines().index('    print("loss", loss.item())')

PADDLE = f"""
import paddle

paddle.seed(0)
model = paddle.nn.Sequential(paddle.nn.Linear(64, 32), paddle.nn.ReLU(), paddle.nn.Linear(32, 10))
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
images, labels = paddle.randn([16, 64]), paddle.arange(16) % 10
for step in range({STEPS}):
    loss = paddle.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    print("loss", float(loss))
"""

SIM = {"HARDPOINT_DEVICE": "sim"}
BARE = {"HARDPOINT_PLUGIN_PATH": str(ROOT / "tests" / "fixtures" / "bare.py"), "HARDPOINT_DEVICE": "bare"}

Event = dict[str, Any]


def environment(**variables: str) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HARDPOINT_")}
    return {**inherited, "COLUMNS": "300", "TERM": "dumb", **variables}


def run(folder: Path, program: str, *arguments: str, device: dict[str, str] = SIM) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(program)
    command = ["-m", "hardpoint.cli", "run", *arguments, "train.py"]
    return run_python(command, cwd=folder, env=environment(**device), text=program)


class Rows:
    """The events of a trace by kind."""

    def __init__(self, file: Path) -> None:
        self.events: list[Event] = json.loads(file.read_text())
        names = {e["pid"]: e["args"]["name"] for e in self.events if e["name"] == "process_name"}
        assert names.pop(self.events[0]["pid"]) == "train.py"
        slices = [e for e in self.events if e["ph"] == "X"]
        self.devices = set(names.values())
        launched = {e["id"]: e["ts"] for e in self.events if e["ph"] == "s"}
        self.work = sorted((e for e in slices if e["pid"] in names), key=lambda e: launched[e["args"]["launch"]])
        host = [e for e in slices if e["pid"] not in names]
        self.operators = [e for e in host if e["cat"] in TIERS]
        self.launches = [e for e in host if e["cat"] == "launch"]
        self.waits = [e for e in host if e["cat"] == "wait"]
        self.memory = [e for e in self.events if e["ph"] == "C"]
        (totals,) = [e["args"] for e in self.events if e["name"] == "hardpoint_totals"]
        self.counters: dict[str, dict[str, int]] = totals["counters"]

    def kernels(self) -> list[Event]:
        return [e for e in self.work if e["cat"] in TIERS]


def check(rows: Rows, device: str) -> None:
    """Invariants of every trace."""
    assert rows.devices == {device}
    # One slice per counted call.
    called = Counter((e["name"], e["cat"]) for e in rows.operators)
    counted = {(name, tier): n for name, tiers in rows.counters.items() for tier, n in tiers.items()}
    assert called == counted
    # One kernel or copy per vendor call, under the operator's name and tier.
    launched = Counter(
        (e["args"]["operator"], "vendor" if e["cat"] == "copy" else e["cat"])
        for e in rows.work
        if "operator" in e["args"]
    )
    for key, count in counted.items():
        if key[1] == "vendor" and "cpu" not in rows.counters[key[0]]:
            # Paddle counts a copy of a tensor to itself, which copies nothing.
            assert launched[key] == count or key[0] == "hardpoint::copy", key
        if key[1] == "portable":
            assert launched[key] >= count, key
    # In launch order on each stream, and never before the launch.
    launches = {e["id"]: e for e in rows.events if e["ph"] == "s"}
    ends = {e["id"]: e for e in rows.events if e["ph"] == "f"}
    assert set(launches) == set(ends) == {e["args"]["launch"] for e in rows.work}
    latest: defaultdict[tuple[int, int], float] = defaultdict(float)
    slices: defaultdict[int, list[tuple[float, float, str]]] = defaultdict(list)
    for e in (*rows.operators, *rows.launches):
        slices[e["tid"]].append((e["ts"], e["ts"] + e["dur"] + 0.001, e["name"]))
    for one in slices.values():
        one.sort()
    for e in rows.work:
        stream = (e["pid"], e["tid"])
        assert e["ts"] >= latest[stream]
        latest[stream] = e["ts"]
        launch = launches[e["args"]["launch"]]
        assert e["ts"] >= launch["ts"] - 0.001
        assert (ends[e["args"]["launch"]]["pid"], ends[e["args"]["launch"]]["tid"]) == stream
        # The arrow starts in a slice of the operator, or of the launch itself.
        around = slices[launch["tid"]]
        before = around[: bisect_right(around, (launch["ts"], float("inf"), ""))]
        assert any(end >= launch["ts"] and name in (e["args"].get("operator"), e["name"]) for _, end, name in before), e
    # The counter is the sum of all allocations that were not freed.
    live: dict[int, int] = {}
    for e in rows.memory:
        happened = e["memory"]
        if happened["action"] == "alloc":
            live[happened["address"]] = happened["bytes"]
        elif happened["action"] == "free_requested":
            del live[happened["address"]]
        assert sum(live.values()) == e["args"]["allocated"]
    assert max(e["args"]["allocated"] for e in rows.memory) > 0


def test_torch_on_sim(tmp_path: Path) -> None:
    done = run(tmp_path, TORCH, "--trace", "trace.json", "--report", "report.html")
    assert done.returncode == 0, done.stderr
    assert "trace: written to trace.json" in done.stderr
    rows = Rows(tmp_path / "trace.json")
    check(rows, "sim:0")
    assert rows.counters["aten::addmm"] == {"vendor": 2 * STEPS}
    assert {e["args"]["timed by"] for e in rows.work} == {"plug-in"}
    # The bias is added to the product.
    forward = [e["name"] for e in rows.kernels()]
    first = forward.index("matmul")
    layer = ["matmul", "aten::addmm"]
    assert forward[first : first + 6] == [*layer, "relu", *layer, "aten::_log_softmax"]
    # Copies with their bytes; item() waits, at its line.
    assert Counter(e["args"]["bytes"] for e in rows.work if e["name"] == "copy to device")[16 * 64 * 4] == 1
    assert sum(e["args"].get("line") == f"train.py:{ITEM_LINE}" for e in rows.waits) >= STEPS
    colors = {e["cat"]: e["cname"] for e in rows.operators}
    assert colors == {"vendor": "good", "portable": "rail_response"}
    # Memory of the parameters is owned by the line that moved them.
    found = figures.compute(trace_data.load(tmp_path / "trace.json"))
    parameters = 64 * 32 * 4 + 32 * 10 * 4
    moved = 1 + TORCH.splitlines().index(
        "model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)"
    )
    assert {owner.line: owner.bytes for owner in found.memory[0].owners}[f"train.py:{moved}"] >= parameters
    [device] = found.devices
    whole = device.end - device.start
    assert device.computing + device.copying + sum(device.idle.values()) == pytest.approx(whole, rel=1e-6)
    page = (tmp_path / "report.html").read_text()
    assert "Report on train.py" in page
    assert "aten::addmm" in page
    assert "http" not in page  # nothing is loaded


def test_paddle_on_sim(tmp_path: Path) -> None:
    done = run(tmp_path, PADDLE, "--trace", "trace.json", "--compare", "mismatches", "--report", "report.html")
    assert done.returncode == 0, done.stderr
    rows = Rows(tmp_path / "trace.json")
    check(rows, "sim:0")
    assert sum(rows.counters["phi::matmul"].values()) == 2 * STEPS
    wait_line = 1 + PADDLE.splitlines().index('    print("loss", float(loss))')
    assert f"train.py:{wait_line}" in {e["args"].get("line") for e in rows.waits}
    page = (tmp_path / "report.html").read_text()
    assert "phi::matmul" in page
    assert "Comparison with the CPU" in page


@pytest.mark.parametrize("program", [TORCH, PADDLE], ids=["torch", "paddle"])
def test_a_device_with_memory_and_copies_only(tmp_path: Path, program: str) -> None:
    done = run(tmp_path, program, "--trace", "trace.json", device=BARE)
    assert done.returncode == 0, done.stderr
    rows = Rows(tmp_path / "trace.json")
    check(rows, "bare:0")
    assert {tier for tiers in rows.counters.values() for tier in tiers} <= {"cpu", "decomposition"}
    assert rows.kernels() == []
    assert {e["args"]["timed by"] for e in rows.work} == {"host"}
    assert all(e["args"]["line"].startswith("train.py:") for e in rows.operators if e["cat"] == "cpu")
    # Every operator is worth a kernel.
    page = tmp_path / "report.html"
    command = [sys.executable, "-m", "hardpoint.cli", "report", "trace.json", str(page)]
    subprocess.run(command, cwd=tmp_path, env=environment(**BARE), check=True)
    found = figures.compute(trace_data.load(tmp_path / "trace.json"))
    assert {each.operator for each in found.advice if each.tier == "cpu"} == {
        name for name, tiers in rows.counters.items() if "cpu" in tiers
    }
    assert [each.gain for each in found.advice] == sorted((each.gain for each in found.advice), reverse=True)
    assert found.cpu_bytes > 0
    text = page.read_text()
    assert found.advice[0].operator in text
    assert "took the host&#x27;s time" in text


def test_a_killed_process_leaves_a_readable_trace(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{TORCH}\ninput()\n")
    command = [sys.executable, "-m", "hardpoint.cli", "run", "--trace", "trace.json", "train.py"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(**SIM), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    trace = tmp_path / "trace.json"
    deadline = time.monotonic() + 100  # only a broken program takes so long
    try:
        while not (trace.exists() and trace.read_text().count('"aten::addmm","pid"') >= 2 * STEPS):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    text = trace.read_text()
    assert not text.rstrip().endswith("]")
    events = json.loads(f"{text}]")  # complete events, without the closing bracket
    assert list(read_events(trace)) == events
    data = trace_data.load(trace)
    assert not data.complete
    assert {row.operator for row in figures.compute(data).operators} >= {"aten::addmm", "aten::relu"}


def test_a_full_disk_ends_the_trace(tmp_path: Path) -> None:
    limit = 20_000
    # A limit on the size of files fails writes like a full disk, within an event. sim's memory is a file, too.
    program = f"""
import resource, torch
torch.empty(1, device="sim")
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
{TORCH}
"""
    done = run(tmp_path, program, "--trace", "trace.json")
    assert done.returncode == 0, done.stderr  # the program does not care
    assert "the trace in trace.json ends early: File too large" in done.stderr
    text = (tmp_path / "trace.json").read_text()
    assert limit // 2 < len(text) <= limit
    assert json.loads(f"{text}]")[-1]["ph"] in "XsfCMi"


def test_a_profiler_in_the_traced_program(tmp_path: Path) -> None:
    program = """
import torch
from torch.profiler import profile

a = torch.randn(8, 8).to("sim")
b = a + a
with profile() as found:
    b = b @ a
b = b * a
kernels = [e.name for e in found.events() if e.device_type == torch.autograd.DeviceType.PrivateUse1]
assert kernels == ["matmul"], kernels
"""
    done = run(tmp_path, program, "--trace", "trace.json")
    assert done.returncode == 0, done.stderr
    assert [e["name"] for e in Rows(tmp_path / "trace.json").kernels()] == ["add", "matmul", "mul"]
