"""The figures of a report, from traces made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hardpoint.debug._report import charts, figures, page, trace_data

DEVICE, PROCESS = 1 << 24, 100

Event = dict[str, Any]


def kernel(name: str, start: float, length: float, operator: str = "", tier: str = "vendor") -> Event:
    arguments = {"operator": operator or name, "timed by": "device events"}
    return {
        **{"ph": "X", "name": name, "cat": tier, "pid": DEVICE, "tid": 0, "ts": start, "dur": length},
        "args": arguments,
    }


def copy(name: str, start: float, length: float, size: int, operator: str = "") -> Event:
    event = kernel(name, start, length, operator, "copy")
    event["args"] = {"bytes": size, **({"operator": operator} if operator else {})}
    return event


def call(name: str, start: float, length: float, tier: str = "vendor", line: str = "") -> Event:
    arguments = {"tier": tier, **({"line": line} if line else {})}
    return {
        **{"ph": "X", "name": name, "cat": tier, "pid": PROCESS, "tid": PROCESS, "ts": start, "dur": length},
        "args": arguments,
    }


def memory(time: float, action: str, address: int, size: int, allocated: int, stack: int = 0) -> Event:
    happened = {"action": action, "address": address, "bytes": size, "stack": stack}
    return {
        **{"ph": "C", "name": "memory", "pid": DEVICE, "tid": 0, "ts": time},
        **{"args": {"allocated": allocated, "cached": 1000 - allocated}, "memory": happened},
    }


def compute(folder: Path, *events: Event, totals: Event | None = None) -> figures.Figures:
    """The figures of a trace file with these events."""
    head = [
        {"ph": "M", "name": "hardpoint", "pid": PROCESS, "args": {"hardpoint": "0", "date": "today"}},
        {"ph": "M", "name": "process_name", "pid": DEVICE, "args": {"name": "toy:0"}},
        {"ph": "M", "name": "hardpoint_stack", "pid": PROCESS, "args": {"stack": 1, "line": "a.py:1", "frames": ""}},
        {"ph": "M", "name": "hardpoint_stack", "pid": PROCESS, "args": {"stack": 2, "line": "a.py:2", "frames": ""}},
    ]
    tail = [] if totals is None else [{"ph": "M", "name": "hardpoint_totals", "pid": PROCESS, "args": totals}]
    file = folder / "trace.json"
    file.write_text("[\n" + ",\n".join(json.dumps(event) for event in (*head, *events, *tail)) + "\n]\n")
    return figures.compute(trace_data.load(file))


def test_idle_time_is_split_by_cause(tmp_path: Path) -> None:
    found = compute(
        tmp_path,
        kernel("a", 0, 100),
        # The host waited 30 while "a" ran: it would have been ahead by 30. Then the program does other things.
        {**call("wait for a stream", 70, 30, "wait", "a.py:7"), "args": {"line": "a.py:7"}},
        kernel("b", 200, 100),
        # An operator on the CPU, with a compilation before it.
        {"ph": "i", "name": "a.py:4", "cat": "sample", "pid": PROCESS, "tid": PROCESS, "ts": 150},
        call("compile relu", 320, 50, "compilation"),
        call("slow", 400, 80, "cpu", "a.py:9"),
        kernel("c", 500, 100),
        # Launch-bound: the host is in an operator all the time.
        call("d", 650, 50),
        kernel("d", 700, 100),
        copy("copy to host", 800, 40, 64),
    )
    [device] = found.devices
    assert (device.computing, device.copying) == (400, 40)
    assert device.idle == {"compilation": 50, "cpu": 80, "wait": 30, "launch": 50, "program": 70 + 70 + 50}
    assert [(gap.start, gap.length, gap.cause) for gap in device.gaps[:2]] == [
        (300, 200, "cpu"),
        (100, 100, "program"),
    ]
    assert [gap.detail for gap in device.gaps[:2]] == ["slow", "a.py:4"]
    assert found.waits == [figures.Wait("a.py:7", 1, 30, 30)]
    assert device.copies == {"copy to host": (1, 64, 40)}
    assert found.duration == 840


def test_overlapping_streams_count_once(tmp_path: Path) -> None:
    other = {**kernel("b", 50, 100), "tid": 1}
    found = compute(tmp_path, kernel("a", 0, 100), other, kernel("c", 150, 10))
    assert found.devices[0].computing == 160
    assert sum(found.devices[0].idle.values()) == 0


def test_operators_and_the_kernel_to_write_next(tmp_path: Path) -> None:
    found = compute(
        tmp_path,
        call("fast", 0, 10),
        kernel("fast", 5, 3),
        call("slow", 100, 200, "cpu", "a.py:5"),
        copy("copy to host", 110, 20, 100, "slow"),
        call("slow", 400, 100, "cpu", "a.py:5"),
        call("whole", 600, 100, "decomposition"),
        call("fast", 610, 10),
        call("compile fast", 630, 40, "compilation"),
        kernel("fast", 680, 5),
        totals={"cpu_costs": {"slow": [400, 300_000]}, "counters": {}, "compare": None},
    )
    rows = {(row.operator, row.tier): row for row in found.operators}
    slow = rows["slow", "cpu"]
    assert (slow.calls, slow.host, slow.own, slow.device, slow.bytes, slow.lines) == (2, 300, 300, 20, 400, ["a.py:5"])
    assert rows["fast", "vendor"][2:6] == (2, 20, 20, 8)
    # Without the operator inside, and without the compilation.
    assert rows["whole", "decomposition"].own == 50
    assert rows["whole", "decomposition"].host == 60
    assert ("compile fast", "vendor") not in rows
    assert found.typical_call == 10
    assert found.advice == [
        figures.Advice("slow", "cpu", 2, 300, 0, 280),
        figures.Advice("whole", "decomposition", 1, 60, 0, 50),
    ]
    assert (found.cpu_time, found.cpu_bytes) == (300, 400)


def test_a_wait_for_earlier_kernels_is_no_gain(tmp_path: Path) -> None:
    found = compute(
        tmp_path,
        call("big", 0, 10),
        kernel("big", 5, 505),  # 490 of it inside the call
        call("slow", 20, 600, "cpu", "a.py:5"),
        copy("copy to host", 515, 20, 100, "slow"),
    )
    assert found.advice == [figures.Advice("slow", "cpu", 1, 600, 490, 600 - 490 - 10)]


def test_owners_of_the_peak(tmp_path: Path) -> None:
    found = compute(
        tmp_path,
        memory(0, "alloc", 10, 100, 100, stack=1),
        memory(1, "alloc", 20, 300, 400, stack=2),
        memory(2, "free_requested", 10, 100, 300),
        memory(3, "alloc", 10, 50, 350, stack=2),
        memory(4, "alloc", 30, 200, 550, stack=1),
        memory(5, "free_requested", 20, 300, 250),
    )
    [use] = found.memory
    assert (use.name, use.peak, use.peak_time, use.reserved) == ("toy:0", 550, 4, 1000)
    assert use.owners == [figures.Owner("a.py:2", 350, 2), figures.Owner("a.py:1", 200, 1)]
    assert max(use.allocated_curve) == 550
    assert use.allocated_curve[-1] >= 250


def test_the_page_says_what_to_do(tmp_path: Path) -> None:
    wrong = {"operator": "mul<", "tier": "vendor", "location": "a.py:3", "verdict": "wrong", "reason": "no result"}
    found = compute(
        tmp_path,
        call("fast", 0, 10),
        kernel("fast", 0, 10),
        call("slow", 100, 800, "cpu", "a.py:5"),
        kernel("fast", 900, 100),
        totals={
            **{"command": ["a.py"], "cpu_costs": {"slow": [2048, 1]}, "counters": {}},
            "compare": {"right": 3, "wrong": 1, "findings": [wrong]},
        },
    )
    text = page.render(found)
    advice = text[text.index("What to do next") : text.index("Where the time goes")]
    order = [advice.index(words) for words in ("Fix wrong results first", "Write a kernel for slow")]
    assert order == sorted(order)
    assert "saves about 790 µs" in advice
    assert "2.0 KiB" in text
    assert "mul&lt;" in text
    assert "no result" in text
    assert "times are not typical" in text
    assert text.count("<section>") == 7


def test_an_empty_run_and_other_files(tmp_path: Path) -> None:
    empty = page.render(compute(tmp_path))
    assert "ran nothing on a device" in empty
    assert "Use the device" in empty
    assert "Nothing stands out" not in empty
    assert empty.count("No operator of a device ran.") == 2
    other = tmp_path / "other.json"
    other.write_text('{"traceEvents": []}')
    with pytest.raises(ValueError, match="not a trace that Hardpoint wrote"):
        trace_data.load(other)
    with pytest.raises(ValueError, match="cannot read"):
        trace_data.load(tmp_path / "missing.json")


def test_units() -> None:
    assert [charts.microseconds(v) for v in (0.25, 12.3, 4567, 2e6, 123456)] == [
        *("0.25 µs", "12.3 µs", "4.57 ms", "2 s", "123 ms"),
    ]
    assert [charts.size(v) for v in (100, 2048, 3 << 20)] == ["100 bytes", "2.0 KiB", "3.0 MiB"]
