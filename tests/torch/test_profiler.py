"""torch.profiler shows the device's kernels and copies, linked to the operators that launched them."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from plugin_tools import ROOT, ask_python
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def device_events(found: profile) -> list[Any]:
    """Kernels and copies, in the order of their start."""
    events = [e for e in found.events() if e.device_type == DeviceType.PrivateUse1]
    return sorted(events, key=lambda e: e.time_range.start)


def trace_of(found: profile, folder: Path) -> list[dict[str, Any]]:
    """Events of the exported Chrome trace."""
    path = folder / "trace.json"
    found.export_chrome_trace(str(path))
    return json.loads(path.read_text())["traceEvents"]


def test_kernels_in_order_and_linked_to_operators() -> None:
    a, b = torch.randn(64, 64, device="sim"), torch.randn(64, 64, device="sim")
    with profile(activities=BOTH) as found:
        for _ in range(3):
            a = a + b
        a @ b
        a.erfinv()
    assert [e.name for e in device_events(found)] == ["add"] * 3 + ["matmul", "aten::erfinv"]
    averages = {row.key: row for row in found.key_averages()}
    add, mm = averages["aten::add"], averages["aten::mm"]
    assert (add.count, mm.count) == (3, 1)
    kernels = [e for e in device_events(found) if e.name == "add"]
    assert add.device_time_total == pytest.approx(sum(e.time_range.elapsed_us() for e in kernels), abs=0.01)
    assert mm.device_time_total > 0
    assert averages["aten::matmul"].device_time_total == mm.device_time_total
    table = found.key_averages().table(sort_by="self_device_time_total")
    assert "Self SIM" in table
    assert "matmul" in table


def test_each_kernel_counts_for_one_operator() -> None:
    a = torch.randn(64, 64, device="sim")
    with profile(activities=BOTH) as found:
        for _ in range(5):
            a = (a @ a).sigmoid()
    rows = found.key_averages()
    on_host = sum(row.self_device_time_total for row in rows if row.device_type == DeviceType.CPU)
    kernels = sum(event.time_range.elapsed_us() for event in device_events(found))
    assert on_host == pytest.approx(kernels, abs=0.1)
    # Launches have numbers, too, but those of no operator.
    assert {row.key: row.device_time_total for row in rows if row.key.startswith("launch ")} == {
        "launch matmul": 0,
        "launch aten::sigmoid": 0,
    }


def test_without_activities_and_with_the_cpu_alone() -> None:
    a = torch.randn(8, device="sim")
    with profile() as everything:
        a + a
    with profile(activities=[ProfilerActivity.CPU]) as cpu:
        a + a
    assert [e.name for e in device_events(everything)] == ["add"]
    assert device_events(cpu) == []


def test_copies_have_their_bytes(tmp_path: Path) -> None:
    host = torch.arange(1000.0)
    with profile(activities=BOTH) as found:
        device = host.to("sim")
        back = device.cpu()
    assert torch.equal(back, host)
    copies = [e for e in trace_of(found, tmp_path) if e.get("cat") == "gpu_memcpy"]
    assert [(e["name"], e["args"]["bytes"]) for e in copies] == [("copy to device", 4000), ("copy to host", 4000)]


def test_waits_are_on_the_rows_of_threads(tmp_path: Path) -> None:
    a = torch.randn(64, 64, device="sim")
    event = torch.sim.Event()
    with profile(activities=BOTH) as found:
        a @ a
        event.record()
        event.synchronize()
        torch.sim.current_stream().synchronize()
    waits = [e for e in trace_of(found, tmp_path) if e["name"].startswith("wait for")]
    assert [e["name"] for e in waits][:2] == ["wait for an event", "wait for a stream"]
    assert {e["cat"] for e in waits} == {"privateuse1_runtime"}
    assert {e["tid"] for e in waits} == {threading.get_native_id()}
    assert {e["args"]["device"] for e in waits} == {"sim:0"}
    assert {row.key: row.count for row in found.key_averages()}["wait for an event"] == 1


def test_without_kineto() -> None:
    """torch records an event around each operator itself."""
    a = torch.randn(256, 256, device="sim")
    torch.sim.synchronize()
    with torch.autograd.profiler.profile(use_device="sim", use_kineto=False) as found:
        a @ a
        a + a
    rows = {row.key: row for row in found.key_averages()}
    assert rows["aten::mm"].device_time_total > 0
    assert rows["aten::matmul"].device_time_total >= rows["aten::mm"].device_time_total
    assert rows["aten::add"].count == 1


def test_exported_trace(tmp_path: Path) -> None:
    a = torch.randn(256, 256, device="sim")
    other = torch.sim.Stream()
    with profile(activities=BOTH) as found:
        a @ a
        with torch.sim.stream(other):
            a * 2
        torch.sim.synchronize()
    events = trace_of(found, tmp_path)
    kernels = {e["name"]: e for e in events if e.get("cat") == "kernel"}
    assert set(kernels) == {"matmul", "mul"}
    streams = {e["args"]["stream"] for e in kernels.values()}
    assert streams == {0, other.stream_id}
    for kernel in kernels.values():
        assert kernel["pid"] == 0
        assert kernel["tid"] == kernel["args"]["stream"]
        assert kernel["args"]["timed by"] == "plug-in"
        (launch,) = [
            e
            for e in events
            if e.get("cat") == "privateuse1_runtime" and e["args"].get("correlation") == kernel["args"]["correlation"]
        ]
        assert launch["name"] == f"launch {kernel['name']}"
        assert kernel["ts"] >= launch["ts"]
        # An arrow from the launch to the kernel.
        ends = [e for e in events if e.get("cat") == "ac2g" and e["id"] == kernel["args"]["correlation"]]
        assert Counter(e["ph"] for e in ends) == {"s": 1, "f": 1}
    names = [e["args"]["name"] for e in events if e["name"] == "process_name" and e["pid"] == 0]
    assert names[-1] == "sim:0"  # Kineto itself gives every row a name first; the last one counts
    rows = {(e["pid"], e["args"]["name"]) for e in events if e["name"] == "thread_name"}
    assert {(0, "stream 0"), (0, f"stream {other.stream_id}")} <= rows


def test_backward_annotations_and_schedule() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to("sim")
    x = torch.randn(8, 16, device="sim")
    results: list[profile] = []
    with profile(
        activities=BOTH, schedule=schedule(wait=1, warmup=1, active=1), on_trace_ready=results.append
    ) as found:
        for _ in range(3):
            with record_function("a step"):
                model(x).square().mean().backward()
            found.step()
        kernels = [e.name for e in device_events(found)]
    assert len(results) == 1
    averages = {row.key: row for row in results[0].key_averages()}
    assert averages["aten::addmm"].count == 2
    assert averages["autograd::engine::evaluate_function: AddmmBackward0"].device_time_total > 0
    assert averages["a step"].device_time_total > 0
    assert kernels.count("aten::addmm") == 2
    assert kernels.count("matmul") == 3  # the input needs no gradient


def test_memory_of_the_device() -> None:
    with profile(activities=BOTH, profile_memory=True) as found:
        kept = torch.empty(1 << 20, dtype=torch.uint8, device="sim")
    averages = {row.key: row for row in found.key_averages()}
    assert averages["aten::empty"].device_memory_usage == kept.nbytes


def test_several_devices(tmp_path: Path) -> None:
    with profile(activities=BOTH) as found:
        for index in range(2):
            a = torch.ones(4, device=f"sim:{index}")
            a + a
    added = [e for e in trace_of(found, tmp_path) if e.get("cat") == "kernel" and e["name"] == "add"]
    assert sorted((e["pid"], e["args"]["device"]) for e in added) == [(0, "sim:0"), (1, "sim:1")]


def test_a_failed_launch_leaves_no_record_and_the_next_trace_is_clean() -> None:
    a = torch.ones(4, device="sim")
    with profile(activities=BOTH) as failed, pytest.raises(RuntimeError, match="size"):
        a + torch.ones(3, device="sim")
    assert "add" not in [e.name for e in device_events(failed)]
    a + a  # not profiled
    with profile(activities=BOTH) as found:
        a + a
    assert [e.name for e in device_events(found)] == ["add"]


def test_more_launches_than_wait_for_their_times() -> None:
    a = torch.ones(4, device="sim")
    with profile(activities=BOTH) as found:
        for _ in range(6000):
            a.neg_()
    events = device_events(found)
    assert len(events) == 6000
    assert all(e.time_range.elapsed_us() >= 0 for e in events)


TRAINING = """
import json, torch
from torch import nn
from torch.profiler import profile, ProfilerActivity
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("sim")
x, y = torch.ones(8, 16, device="sim"), torch.zeros(8, dtype=torch.int64, device="sim")
side = torch.sim.Stream()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as found:
    for _ in range(3):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
    with torch.sim.stream(side):
        x * 2
    torch.sim.synchronize()
found.export_chrome_trace("%s")
events = json.load(open("%s"))["traceEvents"]
rows = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy")]
rows.sort(key=lambda e: (e["tid"], e["ts"]))
launches = [e for e in events if e.get("cat") == "privateuse1_runtime" and not e["name"].startswith("wait")]
answer = {
    "rows": [(e["tid"] == side.stream_id, e["name"], e["args"].get("operator"), e["args"].get("tier")) for e in rows],
    "sources": sorted({e["args"]["timed by"] for e in rows}),
    "launched": sorted(e["args"]["correlation"] for e in launches)
    == sorted(e["args"]["correlation"] for e in rows),
}
"""


@pytest.mark.slow
def test_the_plugin_and_events_tell_the_same(tmp_path: Path) -> None:
    """Three steps of training: the same kernels, in the same order per stream, from the same operators."""
    code = TRAINING.replace("%s", str(tmp_path / "trace.json"))
    own, events = (
        ask_python(code, tmp_path, HARDPOINT_DEVICE="sim", HARDPOINT_SIM_TRACING=tracing) for tracing in "10"
    )
    assert (own["sources"], events["sources"]) == (["plug-in"], ["device events"])
    assert own["launched"]
    assert events["launched"]
    assert own["rows"] == events["rows"]
    kernels = Counter(name for _, name, _, _ in own["rows"])
    assert kernels["aten::addmm"] == 6
    assert own["rows"][-1][:2] == [True, "mul"]  # on the other stream


def test_a_device_without_events_is_timed_by_the_host(tmp_path: Path) -> None:
    code = """
import torch
from torch.profiler import profile, ProfilerActivity
a = torch.ones(3, device="hello")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as found:
    b = a + a
found.export_chrome_trace("%s")
import json
answer = [e for e in json.load(open("%s"))["traceEvents"] if e.get("cat") == "kernel"]
""".replace("%s", str(tmp_path / "trace.json"))
    plugin = str(ROOT / "examples" / "hello_python" / "hello.py")
    (kernel,) = ask_python(code, tmp_path, HARDPOINT_PLUGIN_PATH=plugin, HARDPOINT_DEVICE="hello")
    assert kernel["name"] == "add"
    assert kernel["args"]["timed by"] == "host"
    assert kernel["dur"] >= 0


def test_memory_with_the_cpu_activity_alone() -> None:
    kept = torch.empty(250, device="sim")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        made = torch.empty(1000, device="sim")
        del kept, made
    used = {event.key: event.self_device_memory_usage for event in found.key_averages()}
    assert used == {"aten::empty": 4000, "[memory]": -5000}
