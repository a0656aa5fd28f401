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

from hardpoint.plugin import ALIGNMENT, DeviceError, DeviceProperties, Plugin, Status

#: Memory of each device.
TOTAL = 256 << 20
DEVICES = 2
#: Bugs that the device can have.
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
    # Planted by someone who had not read the cases.
    "memory() ignores the device",
    "memory() reports all memory as free",
    "allocations go to the first device",
    "small allocations are not aligned",
    "copies lose what follows 16 MiB",
    "copies write whole words of 16 bytes",
    "copies use the stream of the latest event",
    "copies between devices ignore the stream",
    "copies between devices lose the last byte",
    "fills write whole words",
    "fills ignore the stream",
    "host functions are called at once",
    "synchronize_stream ignores the device",
    "query_stream is always done",
    "query_event is always done",
    "query_event is never done",
    "an event that was never recorded is not done",
    "elapsed is in microseconds",
    "an event keeps its first record",
    "destroyed events are no longer waited for",
    "destroyed streams lose their work",
    "timed waits do not wait",
    "timed waits always time out",
    # Planted blind, a second time.
    "copies to the device write whole words only",
    "copies from odd host addresses are shifted",
    "copies between devices lose what follows 1 MiB",
    "copies to the host leak a buffer",
    "fills write zeros",
    "fills stop after 1 MiB",
    "allocation sizes have 32 bits",
    "out of memory gives a null pointer",
    "concurrent allocations get the same block",
    "free of the second device counts for the first",
    "pinned blocks overlap",
    "total_memory is in KiB",
    "record_event ignores the stream",
    "record_event uses the first device",
    "record_event leaks",
    "an event excludes the latest work",
    "a wait refers to the latest record",
    "waits for events of other devices are dropped",
    "synchronize_event fails for events without a record",
    "elapsed is always 0",
    "host functions are called twice",
    "later work does not wait for host functions",
    "streams with a priority are rejected",
    "destroy_stream clears all streams",
    "captured work runs at once, too",
    "a graph runs once only",
    "a graph ignores the order of its stream",
    "a graph has only the latest work",
    "a graph runs its work in reverse order",
    "a capture never ends",
    # Planted blind, a third time.
    "every fifth block is not aligned",
    "memory() swaps free and total",
    "memory() is in KiB",
    "query_stream is never done",
    "elapsed is in seconds",
    "elapsed between streams is 0",
    "copies between devices use the other device's stream",
    "fills use 7 bits",
    "fills write one byte in 4",
    "a graph runs on the stream of its capture",
    "graphs lose fills",
    "destroy_graph destroys all graphs",
    "the number of devices grows",
    "synchronize_stream works once only",
    "synchronize_stream stops after 256 pieces of work",
    "all streams have one handle",
    "waits of the default stream are dropped",
    "small copies overtake large ones",
    "large copies overtake small ones",
    "free releases the latest block",
    "the 50th block is the first again",
    "host functions run in reverse order",
    "concurrent events get the same handle",
    "copies of a power of two lose the last byte",
    "copies to the host from odd addresses are shifted",
    "events of the default stream record nothing",
)


@dataclass
class Stream:
    """Queued work, and how much of it has run."""

    queue: list[Callable[[], Any]] = field(default_factory=list)
    done: int = 0
    #: Work of a capture.
    captured: list[Callable[[], Any]] | None = None

    def push(self, work: Callable[[], Any]) -> None:
        """Queue work, or store it in the capture."""
        (self.queue if self.captured is None else self.captured).append(work)

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
    device: int = 0


class Mutant(Plugin):
    """Memory on the host, with a limit; streams and events that run when waited for."""

    name = "mutant"

    def __init__(self) -> None:
        self.bug = os.environ.get("MUTANT_BUG", "")
        self.blocks: dict[int, tuple[Any, int]] = {}
        self.leaked: list[Any] = []
        self.used = [0] * DEVICES
        self.handles = itertools.count(1)
        #: Default streams have the handle 0 on every device.
        self.defaults = [Stream() for _ in range(DEVICES)]
        self.streams: dict[int, Stream] = {}
        self.events: dict[int, Event] = {}
        self.latest: Stream | None = None
        self.allocating: int | None = None
        self.pinned = 0
        self.late: list[Callable[[], Any]] = []
        self.graphs: dict[int, list[Callable[[], Any]]] = {}
        self.counted = 0
        self.functions: list[Callable[[], Any]] = []
        self.synchronized: set[int] = set()
        self.capturing: dict[int, Stream] = {}
        if self.bug and self.bug not in BUGS:
            raise ValueError(f"MUTANT_BUG: no bug '{self.bug}'")

    def device_count(self) -> int:
        if self.bug == "the number of devices grows":
            self.counted += 1
            return DEVICES + (self.counted > 2)
        return DEVICES

    def _stream(self, device: int, handle: int) -> Stream:
        return self.streams[handle] if handle else self.defaults[device]

    # ---- Memory

    def _block(self, size: int) -> int:
        block = (ctypes.c_char * (size + 2 * ALIGNMENT))()
        address: int = ctypes.addressof(block)
        address += -address % ALIGNMENT
        self.blocks[address] = block, size
        return address

    def allocate(self, device: int, size: int) -> int:
        if self.bug == "allocations go to the first device":
            device = 0
        if self.bug == "allocation sizes have 32 bits":
            size &= 0xFFFFFFFF
        if size > TOTAL - self.used[device]:
            if self.bug == "out of memory gives a null pointer":
                return 0
            if self.bug == "out of memory is another error":
                raise RuntimeError("allocation failed")
            raise MemoryError(f"{TOTAL - self.used[device]} bytes are left")
        if self.bug == "blocks overlap" and self.blocks:
            return int(next(iter(self.blocks))) + ALIGNMENT
        self.used[device] += size
        self.counted += 1
        if self.bug == "the 50th block is the first again" and self.counted == 50 and self.blocks:
            return int(next(iter(self.blocks)))
        if self.bug == "concurrent allocations get the same block":
            if self.allocating is None:
                self.allocating = self._block(size)
            address = self.allocating
            time.sleep(0.0001)
            self.allocating = None
            return address
        address = self._block(size)
        unaligned = (
            self.bug == "addresses are not aligned"
            or (self.bug == "small allocations are not aligned" and size < 4096)
            or (self.bug == "every fifth block is not aligned" and self.counted % 5 == 0)
        )
        if unaligned:
            self.blocks[address + 8] = self.blocks.pop(address)
            return address + 8
        return address

    def free(self, device: int, address: int) -> None:
        if self.bug == "allocations go to the first device":
            device = 0
        if self.bug == "free does nothing":
            return
        if self.bug == "free of the second device counts for the first":
            device = 0
        if self.bug == "freed memory is not usable again":
            self.leaked.append(self.blocks.pop(address))
            return
        if self.bug == "concurrent allocations get the same block" and address not in self.blocks:
            return
        if self.bug == "free releases the latest block":
            address = next(reversed(self.blocks), address)
        _, size = self.blocks.pop(address)
        if self.bug != "memory() counts only allocations":
            self.used[device] -= size

    def properties(self, device: int) -> DeviceProperties:
        total = TOTAL >> 10 if self.bug == "total_memory is in KiB" else TOTAL
        return {"name": "Mutant", "total_memory": total, "compute_units": 1}

    def memory(self, device: int) -> tuple[int, int]:
        if self.bug == "memory() ignores the device":
            device = 0
        if self.bug == "memory() reports all memory as free":
            return TOTAL, TOTAL
        if self.bug == "memory() swaps free and total":
            return TOTAL, max(TOTAL - self.used[device], 0)
        if self.bug == "memory() is in KiB":
            return max(TOTAL - self.used[device], 0) >> 10, TOTAL >> 10
        return max(TOTAL - self.used[device], 0), TOTAL

    def allocate_pinned(self, size: int) -> int:
        if self.bug == "pinned blocks overlap" and self.pinned and size < 4096:
            return self.pinned + 64
        self.pinned = self._block(size)
        return self.pinned

    def free_pinned(self, address: int) -> None:
        if self.bug == "pinned blocks overlap" and address not in self.blocks:
            return
        block = self.blocks.pop(address)
        if self.bug == "freed pinned memory is kept":
            self.leaked.append(block)

    # ---- Copies

    def _copy(self, dst: int, src: int, size: int, stream: Stream, at_once: bool) -> None:
        if self.bug == "copies lose the last byte" and size > 4096:
            size -= 1
        if self.bug == "copies lose what follows 1 MiB":
            size = min(size, 1 << 20)
        if self.bug == "copies lose what follows 16 MiB":
            size = min(size, 16 << 20)
        if self.bug == "copies of a power of two lose the last byte" and size >= 65536 and size & (size - 1) == 0:
            size -= 1
        if self.bug == "small copies overtake large ones" and size <= 64:
            at_once = True
        if self.bug == "large copies overtake small ones" and size > 1 << 20:
            at_once = True
        if self.bug == "copies to odd addresses are shifted" and dst % 2:
            src += 1
        if self.bug == "copies write whole words of 16 bytes":
            size += -size % 16
        if self.bug == "copies use the stream of the latest event":
            stream = self.latest or stream
        if at_once:
            ctypes.memmove(dst, src, size)
        else:
            stream.push(lambda: ctypes.memmove(dst, src, size))

    def copy_to_device(self, device: int, dst: int, src: int, size: int, stream: int) -> None:
        if self.bug == "copies to the device write whole words only" and size > 4:
            size -= size % 4
        if self.bug == "copies from odd host addresses are shifted":
            src -= src % 2
        self._copy(dst, src, size, self._stream(device, stream), False)

    def copy_to_host(self, device: int, dst: int, src: int, size: int, stream: int) -> None:
        at_once = self.bug == "copies to the host ignore the stream"
        if self.bug == "copies to the host from odd addresses are shifted":
            src -= src % 2
        if self.bug == "copies to the host leak a buffer":
            self.leaked.append(bytearray(64))
        self._copy(dst, src, size, self._stream(device, stream), at_once)

    def copy_on_device(self, device: int, dst: int, src: int, size: int, stream: int) -> None:
        at_once = self.bug == "copies on the device ignore the stream"
        self._copy(dst, src, size, self._stream(device, stream), at_once)

    def copy_peer(self, dst_device: int, dst: int, src_device: int, src: int, size: int, stream: int) -> None:
        if self.bug == "copies between devices lose the last byte":
            size -= 1
        if self.bug == "copies between devices lose what follows 1 MiB":
            size = min(size, 1 << 20)
        at_once = self.bug == "copies between devices ignore the stream"
        on = dst_device if self.bug == "copies between devices use the other device's stream" else src_device
        self._copy(dst, src, size, self._stream(on, stream), at_once)

    def fill_memory(self, device: int, dst: int, value: int, size: int, stream: int) -> None:
        if self.bug == "fills write whole words":
            size += -size % 4
        if self.bug == "fills write zeros":
            value = 0
        if self.bug == "fills use 7 bits":
            value &= 0x7F
        if self.bug == "graphs lose fills" and self._stream(device, stream).captured is not None:
            return
        if self.bug == "fills write one byte in 4":
            pattern = bytes((value, 0, 0, 0)) * (-(-size // 4))
            self._stream(device, stream).push(lambda: ctypes.memmove(dst, pattern, size))
            return
        if self.bug == "fills stop after 1 MiB":
            size = min(size, 1 << 20)
        if self.bug == "fills ignore the stream":
            ctypes.memset(dst, value, size)
        else:
            self._stream(device, stream).push(lambda: ctypes.memset(dst, value, size))

    # ---- Streams and events

    def create_stream(self, device: int, priority: int) -> int:
        if priority and self.bug == "streams with a priority are rejected":
            raise ValueError("no priorities")
        handle = next(self.handles)
        if self.bug == "all streams have one handle":
            self.streams.setdefault(1 << 40, Stream())
            return 1 << 40
        self.streams[handle] = Stream()
        return handle

    def destroy_stream(self, device: int, stream: int) -> None:
        if self.bug == "all streams have one handle":
            return
        removed = self.streams.pop(stream)
        if self.bug == "destroyed streams lose their work":
            removed.queue.clear()
        if self.bug == "destroy_stream clears all streams":
            for other in self.streams.values():
                other.queue.clear()
        if self.bug == "destroyed streams are kept":
            self.leaked.append((removed, [0.0] * 8))

    def _waits(self, timeout_ms: int) -> bool:
        if timeout_ms and self.bug == "timed waits always time out":
            raise DeviceError(Status.TIMEOUT, f"not done after {timeout_ms} ms")
        return not (timeout_ms and self.bug == "timed waits do not wait")

    def synchronize_stream(self, device: int, stream: int, timeout_ms: int) -> None:
        if self.bug == "synchronize_stream ignores the device":
            device = 0
        if self.bug == "synchronize_stream works once only" and stream in self.synchronized:
            return
        self.synchronized.add(stream)
        if self.bug != "synchronize_stream returns at once" and self._waits(timeout_ms):
            target = self._stream(device, stream)
            limit = target.done + 256 if self.bug == "synchronize_stream stops after 256 pieces of work" else None
            target.run(limit, backwards=self.bug == "work of a stream runs in reverse order")
            while self.late:
                self.late.pop()()

    def query_stream(self, device: int, stream: int) -> bool:
        if self.bug == "query_stream is never done":
            return False
        return not self._stream(device, stream).queue or self.bug == "query_stream is always done"

    def call_host(self, device: int, stream: int, function: Callable[[], None]) -> None:
        if self.bug == "host functions are called at once":
            function()
            return
        target = self._stream(device, stream)
        if self.bug == "later work does not wait for host functions":
            self.late.append(function)
            target.push(lambda: None)
            return
        if self.bug == "host functions run in reverse order":
            self.functions.append(function)
            function = lambda: self.functions.pop()()  # noqa: E731
        for _ in range(2 if self.bug == "host functions are called twice" else 1):
            target.push(function)

    def create_event(self, device: int, with_timing: int) -> int:
        if self.bug == "concurrent events get the same handle":
            if self.allocating is None:
                self.allocating = next(self.handles)
            handle = self.allocating
            time.sleep(0.0001)
            self.allocating = None
        else:
            handle = next(self.handles)
        self.events[handle] = Event()
        return handle

    def destroy_event(self, device: int, event: int) -> None:
        removed = self.events.pop(event, Event())
        if self.bug == "destroyed events are kept":
            self.leaked.append(removed)

    def record_event(self, device: int, event: int, stream: int) -> None:
        if self.bug == "record_event records nothing":
            return
        if self.bug == "events of the default stream record nothing" and not stream:
            return
        if self.bug == "an event keeps its first record" and self.events[event].stream is not None:
            return
        if self.bug == "record_event ignores the stream":
            stream = 0
        if self.bug == "record_event uses the first device" and not stream:
            device = 0
        if self.bug == "record_event leaks":
            self.leaked.append(bytearray(64))
        target = self.latest = self._stream(device, stream)
        recorded = self.events[event] = Event(target)

        def stamp() -> None:
            recorded.time = -time.perf_counter() if self.bug == "events run backwards" else time.perf_counter()

        target.push(stamp)
        recorded.position = target.position()
        recorded.device = device
        if self.bug == "an event excludes the latest work":
            recorded.position = max(recorded.position - 2, 0)

    def _finish(self, event: Event) -> None:
        if event.stream is not None:
            event.stream.run(event.position)

    def wait_event(self, device: int, event: int, stream: int) -> None:
        awaited = self.events[event]

        if self.bug == "waits for events of other devices are dropped" and awaited.device != device:
            return

        def wait() -> None:
            if self.bug == "a wait refers to the latest record":
                target = self.events.get(event, awaited)
                if target.stream is not self._stream(device, stream):
                    self._finish(target)
            elif self.bug != "destroyed events are no longer waited for" or event in self.events:
                self._finish(awaited)

        if self.bug == "waits of the default stream are dropped" and not stream:
            return
        if self.bug != "a stream does not wait for events":
            self._stream(device, stream).push(wait)

    def synchronize_event(self, device: int, event: int, timeout_ms: int) -> None:
        if self.bug == "synchronize_event fails for events without a record" and self.events[event].stream is None:
            raise ValueError("the event was never recorded")
        if self.bug != "synchronize_event returns at once" and self._waits(timeout_ms):
            self._finish(self.events[event])

    def query_event(self, device: int, event: int) -> bool:
        found = self.events[event]
        if found.stream is None:
            return self.bug != "an event that was never recorded is not done"
        if self.bug in ("query_event is always done", "query_event is never done"):
            return "always" in self.bug
        return found.stream.done >= found.position

    def elapsed(self, device: int, start: int, end: int) -> float:
        if self.bug == "elapsed is always 0":
            return 0.0
        seconds = self.events[end].time - self.events[start].time
        if self.bug == "elapsed between streams is 0" and self.events[end].stream is not self.events[start].stream:
            return 0.0
        factors = {"elapsed is in microseconds": 1e6, "elapsed is in seconds": 1.0}
        return seconds * factors.get(self.bug, 1e3)

    # ---- Graphs

    def begin_capture(self, device: int, stream: int) -> None:
        self._stream(device, stream).captured = []

    def end_capture(self, device: int, stream: int) -> int:
        target = self._stream(device, stream)
        work = target.captured or []
        if self.bug != "a capture never ends":
            target.captured = None
        if self.bug == "captured work runs at once, too":
            target.queue += work
        if self.bug == "a graph has only the latest work":
            work = work[-1:]
        if self.bug == "a graph runs its work in reverse order":
            work = work[::-1]
        handle = next(self.handles)
        self.graphs[handle] = work
        self.capturing[handle] = target
        return handle

    def launch_graph(self, device: int, graph: int, stream: int) -> None:
        work = self.graphs[graph]
        if self.bug == "a graph runs once only":
            self.graphs[graph] = []
        if self.bug == "a graph ignores the order of its stream":
            for each in work:
                each()
            return
        on = self._stream(device, stream)
        if self.bug == "a graph runs on the stream of its capture":
            on = self.capturing[graph]
        for each in work:
            on.push(each)

    def destroy_graph(self, device: int, graph: int) -> None:
        del self.graphs[graph]
        if self.bug == "destroy_graph destroys all graphs":
            self.graphs.clear()
