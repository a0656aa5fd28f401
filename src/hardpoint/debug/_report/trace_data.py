"""Reads a trace file into columns. A million events take tens of megabytes. Unfinished files can be read too."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Categories of events, in the order of their numbers. The first four are the tiers.
CATEGORIES = ("vendor", "portable", "decomposition", "cpu", "copy", "collective", "wait", "launch", "compilation")
TIERS = CATEGORIES[:4]
CPU, COPY, WAIT, LAUNCH, COMPILATION = 3, 4, 6, 7, 8


class Names:
    """Interned strings; 0 is the empty string."""

    def __init__(self) -> None:
        self.texts = [""]
        self._numbers = {"": 0}

    def number(self, text: str) -> int:
        """The number of a string."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


class Spans:
    """Events with a start and an end, in microseconds since the trace began."""

    def __init__(self) -> None:
        self.start, self.end = array("d"), array("d")
        self.row = array("q")  # device index among the devices, or thread
        self.category = array("b")
        self.name, self.operator, self.line = array("l"), array("l"), array("l")  # Names
        self.bytes = array("q")

    def __len__(self) -> int:
        return len(self.start)

    def order(self) -> list[int]:
        """Positions by start; an enclosing span comes before the spans in it."""
        return sorted(range(len(self)), key=lambda i: (self.start[i], -self.end[i]))


class MemoryEvents:
    """Allocations and frees of one device, in order."""

    def __init__(self) -> None:
        self.time = array("d")
        self.allocated, self.cached = array("q"), array("q")
        self.change = array("b")  # 1: allocation, -1: free, 0: segments and failures
        self.address, self.bytes, self.stack = array("q"), array("q"), array("l")


class TraceData:
    """The contents of a trace."""

    def __init__(self) -> None:
        self.names = Names()
        self.devices: list[str] = []
        self.work = Spans()  # on devices; the row is the number of the device
        self.calls = Spans()  # operators on threads, and compilations
        self.waits = Spans()
        self.samples: list[tuple[float, str]] = []  # lines of the program, ten times a second
        self.memory: dict[int, MemoryEvents] = {}
        self.stacks: dict[int, tuple[str, str]] = {}  # the program's line, and all frames
        self.about: dict[str, Any] = {}
        self.totals: dict[str, Any] = {}
        self.timed_by_host = False
        self._device_of: dict[int, int] = {}
        self._process = 0  # the traced program

    @property
    def complete(self) -> bool:
        """Whether the trace was closed: the program ended, and the disk did not fill up."""
        return bool(self.totals)

    def add(self, event: dict[str, Any]) -> None:
        """Add one event of the file."""
        phase = event.get("ph")
        if phase == "X":
            self._add_span(event)
        elif phase == "C":
            self._add_memory(event)
        elif phase == "i":
            self.samples.append((event["ts"], event["name"]))
        elif phase == "M":
            arguments = event.get("args", {})
            if event["name"] == "process_name":
                if event["pid"] != self._process:
                    self._device(event["pid"], arguments["name"])
            elif event["name"] == "hardpoint_stack":
                self.stacks[arguments["stack"]] = (arguments["line"], arguments["frames"])
            elif event["name"] == "hardpoint":
                self.about = arguments
                self._process = event["pid"]
            elif event["name"] == "hardpoint_totals":
                self.totals = arguments

    def _device(self, process: int, name: str = "") -> int:
        number = self._device_of.get(process)
        if number is None:
            number = self._device_of[process] = len(self.devices)
            self.devices.append(name or f"device {number}")
        return number

    def _add_span(self, event: dict[str, Any]) -> None:
        arguments = event.get("args", {})
        category = CATEGORIES.index(event["cat"])
        on_device = event["pid"] in self._device_of
        spans = self.work if on_device else self.waits if category == WAIT else self.calls
        if category == LAUNCH:  # the work itself is a separate event
            return
        spans.start.append(event["ts"])
        spans.end.append(event["ts"] + event["dur"])
        spans.row.append(self._device_of[event["pid"]] if on_device else event["tid"])
        spans.category.append(category)
        spans.name.append(self.names.number(event["name"]))
        spans.operator.append(self.names.number(arguments.get("operator", "") if on_device else event["name"]))
        spans.line.append(self.names.number(arguments.get("line", "")))
        spans.bytes.append(arguments.get("bytes", 0))
        self.timed_by_host = self.timed_by_host or arguments.get("timed by") == "host"

    def _add_memory(self, event: dict[str, Any]) -> None:
        happened = event["memory"]
        events = self.memory.setdefault(self._device(event["pid"]), MemoryEvents())
        events.time.append(event["ts"])
        events.allocated.append(event["args"]["allocated"])
        events.cached.append(event["args"]["cached"])
        events.change.append({"alloc": 1, "free_requested": -1}.get(happened["action"], 0))
        events.address.append(happened["address"])
        events.bytes.append(happened["bytes"])
        events.stack.append(happened["stack"])


def read_events(file: Path) -> Iterator[dict[str, Any]]:
    """The events of a trace file, one at a time, up to the last complete one. Raises ``ValueError`` for other files."""
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            if lines.readline().strip() != "[":
                raise ValueError(f"{file} is not a trace that Hardpoint wrote")
            for line in lines:
                text = line.strip().rstrip(",")
                if text in ("", "]"):
                    continue
                try:
                    yield json.loads(text)
                except json.JSONDecodeError:
                    return  # the process was killed while writing it
    except OSError as error:
        raise ValueError(f"cannot read {file}: {error.strerror}") from None


def load(file: Path) -> TraceData:
    """Read a trace. Raises ``ValueError`` if the file is not one."""
    data = TraceData()
    for event in read_events(file):
        data.add(event)
    if not data.about:
        raise ValueError(f"{file} is not a trace that Hardpoint wrote")
    return data
