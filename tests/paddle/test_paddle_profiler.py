"""paddle.profiler shows the device's kernels and copies, linked to the operators that launched them."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import paddle
import pytest
from paddle.base.core import TracerEventType
from paddle.profiler import Profiler, ProfilerState, ProfilerTarget

BOTH = [ProfilerTarget.CPU, ProfilerTarget.CUSTOM_DEVICE]


def profiled(function: Callable[[], Any], **options: Any) -> Profiler:
    """Run a function between the start and the stop of a profiler."""
    gc.collect()  # Paddle allows one profiler at a time
    # Without on_trace_ready, Paddle writes a file to the current folder.
    found = Profiler(**{"targets": BOTH, "on_trace_ready": lambda _: None, **options})
    found.start()
    function()
    found.stop()
    return found


def nodes(found: Profiler) -> Iterator[Any]:
    """All events of the host's threads."""
    waiting = list(found.profiler_result.get_data().values())
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children_node


class Event(NamedTuple):
    """A copy of an event, which Paddle frees with its profiler."""

    name: str
    start: int
    end: int
    correlation: int = 0
    kernel: bool = False
    bytes: int = 0


class Launch(NamedTuple):
    """A launch, the host event around it, and its kernel or copy."""

    host: Event
    launch: Event
    work: Event


def launches(found: Profiler) -> list[Launch]:
    """In the order of the launches."""
    listed = []
    for host in nodes(found):
        for launch in host.runtime_node:
            for work in launch.device_node:
                kernel = work.type == TracerEventType.Kernel
                size = 0 if kernel else work.num_bytes
                listed.append(
                    Launch(
                        Event(host.name, host.start_ns, host.end_ns),
                        Event(launch.name, launch.start_ns, launch.end_ns, launch.correlation_id),
                        Event(work.name, work.start_ns, work.end_ns, work.correlation_id, kernel, size),
                    )
                )
    return sorted(listed, key=lambda one: one.launch.start)


def trace_of(found: Profiler, folder: Path) -> list[dict[str, Any]]:
    """Events of the exported Chrome trace."""
    path = folder / "trace.json"
    found.export(str(path), "json")
    return json.loads(path.read_text())["traceEvents"]


class Training:
    """A small network, warm: its kernels are built."""

    def __init__(self) -> None:
        paddle.seed(3)
        self.model = paddle.nn.Sequential(paddle.nn.Linear(16, 32), paddle.nn.ReLU(), paddle.nn.Linear(32, 4))
        self.optimizer = paddle.optimizer.SGD(0.1, parameters=self.model.parameters())
        rng = np.random.default_rng(0)
        self.x = paddle.to_tensor(rng.standard_normal((8, 16)).astype("float32"))
        self.y = paddle.to_tensor(rng.integers(0, 4, (8,)))
        self.steps(1)

    def steps(self, count: int) -> None:
        for _ in range(count):
            loss = paddle.nn.functional.cross_entropy(self.model(self.x), self.y)
            loss.backward()
            self.optimizer.step()
            self.optimizer.clear_grad()
        paddle.device.synchronize()


def test_kernels_in_order_and_linked_to_operators() -> None:
    a, b = paddle.rand([32, 32]), paddle.rand([32, 32])

    def work() -> None:
        c = a
        for _ in range(3):
            c = c + b
        paddle.matmul(c, b)

    work()
    found = profiled(work)
    kernels = [one.work for one in launches(found)]
    assert [kernel.name for kernel in kernels] == ["add"] * 3 + ["matmul"]
    assert all(kernel.end >= kernel.start for kernel in kernels)
    assert [k.start for k in kernels] == sorted(k.start for k in kernels), "one stream runs in order"
    for host, launch, kernel in launches(found):
        assert launch.name == f"launch {kernel.name}"
        assert launch.correlation == kernel.correlation
        assert kernel.name in host.name, "the innermost host event is the operator's"
        assert host.start <= launch.start <= launch.end <= host.end
        assert kernel.start >= launch.start
    assert len({kernel.correlation for kernel in kernels}) == 4


def test_three_training_steps_have_three_times_the_kernels() -> None:
    training = Training()
    one = Counter(one.work.name for one in launches(profiled(lambda: training.steps(1))) if one.work.kernel)
    three = Counter(one.work.name for one in launches(profiled(lambda: training.steps(3))) if one.work.kernel)
    assert three == Counter({name: 3 * count for name, count in one.items()})
    assert one["matmul"] == 5  # two forward, three backward: the input needs no gradient
    assert one["phi::sgd"] == 4


def test_copies_have_their_bytes() -> None:
    host = np.arange(1000, dtype="float32")

    def copy() -> None:
        assert np.array_equal(paddle.to_tensor(host).numpy(), host)

    found = profiled(copy)
    copies = {one.work.name: one.work.bytes for one in launches(found) if not one.work.kernel}
    assert copies["copy to device"] == 4000
    assert 4000 <= copies["copy to host"] < 4096  # numpy() copies up to the end of the allocation


def test_tables_and_exported_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = Training()
    found = profiled(lambda: training.steps(2))
    found.summary()
    table = capsys.readouterr().out
    assert "Kernel Summary" in table
    assert "matmul" in table
    events = trace_of(found, tmp_path)
    kernels = [e for e in events if e.get("cat") == "Kernel"]
    assert len(kernels) == sum(one.work.kernel for one in launches(found))
    starts = {e["id"]: e for e in events if e.get("ph") == "s"}
    ends = {e["id"]: e for e in events if e.get("ph") == "f"}
    assert {e["args"]["correlation id"] for e in kernels} <= starts.keys() & ends.keys(), "each kernel has its arrow"


def test_scheduled_windows_are_traced_separately() -> None:
    training = Training()
    counts: list[int] = []
    gc.collect()
    states = [ProfilerState.RECORD_AND_RETURN, ProfilerState.CLOSED] * 2
    found = Profiler(
        targets=BOTH, scheduler=lambda step: states[step % 4], on_trace_ready=lambda p: counts.append(len(launches(p)))
    )
    found.start()
    for _ in range(4):
        training.steps(1)
        found.step()
    found.stop()
    assert len(counts) >= 2
    assert counts[0] == counts[1] > 0


def test_the_cpu_alone_shows_no_kernels() -> None:
    training = Training()
    assert launches(profiled(lambda: training.steps(1), targets=[ProfilerTarget.CPU])) == []
