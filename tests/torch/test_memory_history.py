"""Memory history in the format of PyTorch's memory viewer."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.cuda._memory_viz as memory_viz

Snapshot = dict[str, Any]


@pytest.fixture
def history() -> Iterator[Any]:
    """``torch.sim.memory``, with an empty history that is off again after the test."""
    memory = torch.sim.memory
    memory._record_memory_history(None, clear_history=True)
    yield memory
    memory._record_memory_history(None, clear_history=True)


def events(snapshot: Snapshot, address: int) -> list[str]:
    """The events of a block, in order."""
    return [e["action"] for e in snapshot["device_traces"][0] if e.get("addr") == address]


def block_of(snapshot: Snapshot, address: int) -> dict[str, Any]:
    [found] = [b for segment in snapshot["segments"] for b in segment["blocks"] if b["address"] == address]
    return found


def test_events_and_blocks_have_python_stacks(history: Any) -> None:
    history._record_memory_history(stacks="python")
    kept = torch.empty(1000, device="sim")
    address = kept.data_ptr()
    freed = torch.empty(3 << 20, dtype=torch.uint8, device="sim")
    freed_address = freed.data_ptr()
    del freed
    snapshot = history._snapshot()
    assert events(snapshot, address)[-1] == "alloc"
    assert events(snapshot, freed_address)[-3:] == ["alloc", "free_requested", "free_completed"]
    block = block_of(snapshot, address)
    assert (block["state"], block["requested_size"], block["size"]) == ("active_allocated", 4000, 4096)
    assert (block["frames"][0]["filename"], block["frames"][0]["name"]) == (
        __file__,
        "test_events_and_blocks_have_python_stacks",
    )
    [event] = [e for e in snapshot["device_traces"][0] if e["action"] == "alloc" and e["addr"] == address]
    assert event["frames"] == block["frames"]
    assert (event["size"], event["stream"], event["pool_id"]) == (4096, 0, (0, 0))
    times = [e["time_us"] for e in snapshot["device_traces"][0]]
    assert times == sorted(times)


def test_stacks_have_frames_of_cpp(history: Any) -> None:
    history._record_memory_history()
    kept = torch.empty(1000, device="sim")
    frames = block_of(history._snapshot(), kept.data_ptr())["frames"]
    python = next(i for i, frame in enumerate(frames) if frame["filename"] == __file__)
    assert frames[python]["name"] == "test_stacks_have_frames_of_cpp"
    native = frames[:python]
    assert all(".so" in frame["filename"] and frame["line"] == 0 for frame in native)
    assert any(frame["name"].startswith("at::_ops::empty_memory_format::call(") for frame in native)
    # Neither the core, which records, nor the interpreter.
    assert not any("libhardpoint_core" in frame["filename"] or "_PyEval" in frame["name"] for frame in native)
    # Threads of autograd: up to the start of the thread, then the thread that waits.
    weight = torch.ones(64, 64, device="sim", requires_grad=True)
    (weight * 2).sum().backward()
    assert weight.grad is not None
    names = [f["name"] for f in block_of(history._snapshot(), weight.grad.untyped_storage().data_ptr())["frames"]]
    engine = next(i for i, name in enumerate(names) if name.startswith("torch::autograd::Engine::"))
    assert engine < names.index("test_stacks_have_frames_of_cpp")


def test_what_was_allocated_before_has_no_stack(history: Any) -> None:
    before = torch.empty(1000, device="sim")
    history._record_memory_history()
    snapshot = history._snapshot()
    assert block_of(snapshot, before.data_ptr())["frames"] == []
    assert snapshot["device_traces"][0] == []


def test_the_ring_buffer_keeps_the_latest(history: Any) -> None:
    history._record_memory_history(max_entries=4)
    addresses = []
    for _ in range(10):
        tensor = torch.empty(1000, device="sim")
        addresses.append(tensor.data_ptr())
        del tensor
    trace = history._snapshot()["device_traces"][0]
    assert [e["action"] for e in trace] == ["free_completed", "alloc", "free_requested", "free_completed"]
    assert trace[1]["addr"] == addresses[-1]


def test_settings(history: Any) -> None:
    history._record_memory_history("state", stacks="python")
    kept = torch.empty(1000, device="sim")
    snapshot = history._snapshot()
    assert snapshot["device_traces"][0] == []
    assert block_of(snapshot, kept.data_ptr())["frames"][0]["filename"] == __file__
    history._record_memory_history("all", context=None)
    other = torch.empty(1000, device="sim")
    snapshot = history._snapshot()
    assert block_of(snapshot, other.data_ptr())["frames"] == []
    assert events(snapshot, other.data_ptr())[-1] == "alloc"
    history._record_memory_history("all", context="alloc")
    del other
    freed = history._snapshot()["device_traces"][0][-1]
    assert (freed["action"], freed["frames"]) == ("free_completed", [])
    history._record_memory_history(None)
    count = len(history._snapshot()["device_traces"][0])
    torch.empty(1000, device="sim")
    assert len(history._snapshot()["device_traces"][0]) == count
    with pytest.raises(ValueError, match="'some'"):
        history._record_memory_history("some")


def test_memory_in_use_on_another_stream_is_freed_later(history: Any) -> None:
    history._record_memory_history()
    tensor = torch.empty(1 << 20, device="sim")
    other = torch.sim.Stream()
    tensor.record_stream(other)
    address = tensor.data_ptr()
    del tensor
    assert events(history._snapshot(), address)[-1] == "free_requested"
    torch.sim.empty_cache()
    # The segment stays if an earlier test left a block in it.
    found = [event for event in events(history._snapshot(), address) if event != "segment_free"]
    assert found[-2:] == ["free_requested", "free_completed"]


def test_backward_has_the_line_that_called_it(history: Any) -> None:
    """Autograd allocates on threads of its own, for the thread that waits."""
    model = torch.nn.Linear(64, 64).to("sim")
    loss = model(torch.ones(4, 64, device="sim")).sum()
    history._record_memory_history()
    loss.backward()
    assert model.weight.grad is not None
    frames = block_of(history._snapshot(), model.weight.grad.untyped_storage().data_ptr())["frames"]
    assert "test_backward_has_the_line_that_called_it" in [frame["name"] for frame in frames]


def test_threads(history: Any) -> None:
    history._record_memory_history()

    def allocate() -> None:
        for size in range(1, 50):
            torch.empty(size * 100, device="sim")

    threads = [threading.Thread(target=allocate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trace = history._snapshot()["device_traces"][0]
    live: set[int] = set()
    for event in trace:
        if event["action"] == "alloc":
            assert event["addr"] not in live
            live.add(event["addr"])
        elif event["action"] == "free_requested":
            live.remove(event["addr"])
    assert sum(event["action"] == "alloc" for event in trace) == 4 * 49


def test_an_error_names_the_largest_holders(history: Any) -> None:
    history._record_memory_history()
    large = [torch.empty(3 << 20, dtype=torch.uint8, device="sim") for _ in range(2)]
    small = torch.empty(1 << 20, dtype=torch.uint8, device="sim")
    with pytest.raises(torch.OutOfMemoryError) as raised:
        torch.empty(1 << 60, dtype=torch.uint8, device="sim")
    text = str(raised.value)
    holders = text[text.index("The largest holders are ") :]
    name = Path(__file__).name
    first = int(holders.split(f"{name}:")[1].split(" ")[0])
    assert f"{name}:{first} (6.00 MiB in 2 blocks)" in holders
    assert f"{name}:{first + 1} (1.00 MiB in 1 block)" in holders
    oom = history._snapshot()["device_traces"][0][-1]
    assert (oom["action"], oom["size"]) == ("oom", 1 << 60)
    assert oom["device_free"] > 0
    del large, small
    history._record_memory_history(None)
    with pytest.raises(torch.OutOfMemoryError) as raised:
        torch.empty(1 << 60, dtype=torch.uint8, device="sim")
    assert "holders" not in str(raised.value)


@pytest.mark.skipif(not hasattr(torch.accelerator.memory, "_snapshot"), reason="this torch has no accelerator snapshot")
def test_the_accelerator_has_the_same_snapshot(history: Any) -> None:
    history._record_memory_history()
    kept = torch.empty(1000, device="sim")
    assert events(torch.accelerator.memory._snapshot(), kept.data_ptr())[-1] == "alloc"


def test_the_memory_viewer_renders_it(history: Any, tmp_path: Path) -> None:
    history._record_memory_history()
    model = torch.nn.Linear(256, 256).to("sim")
    model(torch.ones(8, 256, device="sim")).sum().backward()
    file = tmp_path / "snapshot.pickle"
    history._dump_snapshot(str(file))
    snapshot = pickle.loads(file.read_bytes())
    page = memory_viz.trace_plot(snapshot)
    assert "Active Memory Timeline" in page
    table = memory_viz.segsum(snapshot)
    assert "total_reserved" in table
    listing = memory_viz.trace(snapshot)
    assert f"{len(snapshot['device_traces'][0])} entries" in listing
    flames: list[str] = []
    memory_viz.memory(snapshot, format_flamegraph=flames.append)
    assert f"{Path(__file__).name}:" in flames[0]


@pytest.mark.slow
def test_the_viewer_as_a_program(history: Any, tmp_path: Path) -> None:
    history._record_memory_history()
    kept = torch.empty(1000, device="sim")
    history._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    del kept
    command = [sys.executable, memory_viz.__file__, "trace_plot", "snapshot.pickle", "-o", "page.html"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert "Active Memory Timeline" in (tmp_path / "page.html").read_text()
