"""A small device with streams and events in Python, and one bug of BUGS, named by ``MUTANT_BUG``.

Work runs only when something waits for it, so a missing wait gives wrong results.
"""

# hardpoint.plugin documents the methods.
# ruff: noqa: D102

from __future__ import annotations

import ctypes
import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hardpoint.plugin import ALIGNMENT, DeviceProperties, Plugin

TOTAL = 256 << 20
#: What may be wrong with the device.
BUGS = (
    "free does nothing",
    "memory() counts only allocations",
    "destroyed events are kept",
    "destroyed streams are kept",
    "freed pinned memory is kept",
    "copies lose the last byte",
    "copies lose what follows 1 MiB",
    "copies to odd addresses are shifted",
    "copies on the device ignore the stream",
    "copies to the host ignore the stream",
    "a stream does not wait for events",
    "record_event records nothing",
    "synchronize_stream returns at once",
    "synchronize_event returns at once",
    "work of a stream runs in reverse order",
    "events run backwards",
    "addresses are not aligned",
    "blocks overlap",
    "out of memory is another error",
    "freed memory is not usable again",
)


@dataclass
class Stream:
    """Queued work, and how much of it has run."""

    queue: list[Callable[[], None]] = field(default_factory=list)
    done: int = 0

    def run(self, count: int | None = None, backwards: bool = False) -> None:
        """Run the first ``count`` pieces of work ever queued, or all."""
        while self.queue and (count is None or self.done < count):
            work = self.queue.pop(-1 if backwards else 0)
            self.done += 1
            work()

    def position(self) -> int:
        """The number of pieces of work ever queued."""
        return self.done + len(self.queue)


@dataclass
class Event:
    """A point in a stream."""

    stream: Stream | None = None
    position: int = 0
    time: float = 0.0


class Mutant(Plugin):
    """Memory on the host, with a limit; streams and events that run when waited for."""

    name = "mutant"

    def __init__(self) -> None:
        self.bug = os.environ.get("MUTANT_BUG", "")
        self.blocks: dict[int, tuple[Any, int]] = {}
        self.kept: list[Any] = []
        self.used = 0
        self.handles = itertools.count(1)
        self.streams: dict[int, Stream] = {0: Stream()}
        self.events: dict[int, Event] = {}
        if self.bug and self.bug not in BUGS:
            raise ValueError(f"MUTANT_BUG: no bug '{self.bug}'")

    def device_count(self) -> int:
        return 1

    # ---- Memory

    def _block(self, size: int) -> int:
        block = (ctypes.c_char * (size + 2 * ALIGNMENT))()
        address: int = ctypes.addressof(block)
        address += -address % ALIGNMENT
        self.blocks[address] = block, size
        return address

    def allocate(self, device: int, size: int) -> int:
        if size > TOTAL - self.used:
            if self.bug == "out of memory is another error":
                raise RuntimeError("allocation failed")
            raise MemoryError(f"{TOTAL - self.used} bytes are left")
        if self.bug == "blocks overlap" and self.blocks:
            return int(next(iter(self.blocks))) + ALIGNMENT
        self.used += size
        address = self._block(size)
        if self.bug == "addresses are not aligned":
            self.blocks[address + 8] = self.blocks.pop(address)
            return address + 8
        return address

    def free(self, device: int, address: int) -> None:
        if self.bug == "free does nothing":
            return
        if self.bug == "freed memory is not usable again":
            self.kept.append(self.blocks.pop(address))
            return
        _, size = self.blocks.pop(address)
        if self.bug != "memory() counts only allocations":
            self.used -= size

    def properties(self, device: int) -> DeviceProperties:
        return {"name": "Mutant", "total_memory": TOTAL, "compute_units": 1}

    def memory(self, device: int) -> tuple[int, int]:
        return max(TOTAL - self.used, 0), TOTAL

    def allocate_pinned(self, size: int) -> int:
        return self._block(size)

    def free_pinned(self, address: int) -> None:
        block = self.blocks.pop(address)
        if self.bug == "freed pinned memory is kept":
            self.kept.append(block)

    # ---- Copies

    def _copy(self, dst: int, src: int, size: int, stream: int, at_once: bool) -> None:
        if self.bug == "copies lose the last byte" and size > 4096:
            size -= 1
        if self.bug == "copies lose what follows 1 MiB":
            size = min(size, 1 << 20)
        if self.bug == "copies to odd addresses are shifted" and dst % 2:
            src += 1

        def work() -> None:
            ctypes.memmove(dst, src, size)

        if at_once:
            work()
        else:
            self.streams[stream].queue.append(work)

    def copy_to_device(self, device: int, dst: int, src: int, size: int, stream: int) -> None:
        self._copy(dst, src, size, stream, False)

    def copy_to_host(self, device: int, dst: int, src: int, size: int, stream: int) -> None:
        self._copy(dst, src, size, stream, self.bug == "copies to the host ignore the stream")

    def copy_on_device(self, device: int, dst: int, src: int, size: int, stream: int) -> None:
        self._copy(dst, src, size, stream, self.bug == "copies on the device ignore the stream")

    # ---- Streams and events

    def create_stream(self, device: int, priority: int) -> int:
        handle = next(self.handles)
        self.streams[handle] = Stream()
        return handle

    def destroy_stream(self, device: int, stream: int) -> None:
        removed = self.streams.pop(stream)
        if self.bug == "destroyed streams are kept":
            self.kept.append((removed, [0.0] * 8))

    def synchronize_stream(self, device: int, stream: int, timeout_ms: int) -> None:
        if self.bug != "synchronize_stream returns at once":
            self.streams[stream].run(backwards=self.bug == "work of a stream runs in reverse order")

    def query_stream(self, device: int, stream: int) -> bool:
        return not self.streams[stream].queue

    def create_event(self, device: int, with_timing: int) -> int:
        handle = next(self.handles)
        self.events[handle] = Event()
        return handle

    def destroy_event(self, device: int, event: int) -> None:
        removed = self.events.pop(event)
        if self.bug == "destroyed events are kept":
            self.kept.append(removed)

    def record_event(self, device: int, event: int, stream: int) -> None:
        if self.bug == "record_event records nothing":
            return
        target = self.streams[stream]
        recorded = self.events[event] = Event(target)

        def stamp() -> None:
            recorded.time = -time.perf_counter() if self.bug == "events run backwards" else time.perf_counter()

        target.queue.append(stamp)
        recorded.position = target.position()

    def _finish(self, event: Event) -> None:
        if event.stream is not None:
            event.stream.run(event.position)

    def wait_event(self, device: int, event: int, stream: int) -> None:
        awaited = self.events[event]
        if self.bug != "a stream does not wait for events":
            self.streams[stream].queue.append(lambda: self._finish(awaited))

    def synchronize_event(self, device: int, event: int, timeout_ms: int) -> None:
        if self.bug != "synchronize_event returns at once":
            self._finish(self.events[event])

    def query_event(self, device: int, event: int) -> bool:
        found = self.events[event]
        return found.stream is None or found.stream.done >= found.position

    def elapsed(self, device: int, start: int, end: int) -> float:
        return (self.events[end].time - self.events[start].time) * 1000
