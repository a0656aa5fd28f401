"""A Python plug-in with every extension that Python offers.

Nothing runs before somebody waits for it: where Hardpoint forgets to wait, numbers are wrong.
"""

import ctypes
import itertools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hardpoint.plugin import ALIGNMENT, DeviceError, Plugin, Status, kernel

MEMORY = 256 << 20


@dataclass
class Stream:
    queue: list[Callable[[], None]] = field(default_factory=list)
    done: int = 0

    @property
    def position(self) -> int:
        return self.done + len(self.queue)

    def run_until(self, position: int) -> None:
        while self.done < position:
            work = self.queue.pop(0)
            self.done += 1
            work()


@dataclass
class Event:
    stream: Stream
    position: int = 0
    time: float = 0.0

    def finish(self) -> None:
        self.stream.run_until(self.position)


class Tardy(Plugin):
    name = "tardy"
    latest: ClassVar["Tardy"]

    def __init__(self) -> None:
        Tardy.latest = self
        self.broken = False
        self.calls: Counter[str] = Counter()
        self.blocks: dict[int, Any] = {}
        self.used = 0
        self.handles = itertools.count(1)
        self.streams: dict[tuple[int, int], Stream] = {(0, 0): Stream(), (1, 0): Stream()}
        self.events: dict[int, Event] = {}

    def device_count(self) -> int:
        return 2

    def _allocate(self, size: int) -> int:
        block = (ctypes.c_char * (size + ALIGNMENT))()
        address = ctypes.addressof(block)
        address += -address % ALIGNMENT
        self.blocks[address] = block
        return address

    def allocate(self, device: int, size: int) -> int:
        if self.used + size > MEMORY:
            raise MemoryError(f"{MEMORY - self.used} bytes are left")
        self.used += size
        return self._allocate(size)

    def free(self, device: int, address: int) -> None:
        self.used -= len(self.blocks.pop(address)) - ALIGNMENT

    def _copy(self, device: int, dst: int, src: int, size: int, stream: int) -> None:
        self.streams[device, stream].queue.append(lambda: ctypes.memmove(dst, src, size) and None)

    copy_to_device = copy_to_host = copy_on_device = _copy

    def create_stream(self, device: int, priority: int) -> int:
        handle = next(self.handles)
        self.streams[device, handle] = Stream()
        return handle

    def destroy_stream(self, device: int, stream: int) -> None:
        del self.streams[device, stream]

    def synchronize_stream(self, device: int, stream: int, timeout_ms: int) -> None:
        self.streams[device, stream].run_until(self.streams[device, stream].position)

    def query_stream(self, device: int, stream: int) -> bool:
        return not self.streams[device, stream].queue

    def create_event(self, device: int, with_timing: int) -> int:
        handle = next(self.handles)
        self.events[handle] = Event(self.streams[device, 0])
        return handle

    def destroy_event(self, device: int, event: int) -> None:
        del self.events[event]

    def record_event(self, device: int, event: int, stream: int) -> None:
        target = self.streams[device, stream]
        recorded = self.events[event] = Event(target)
        target.queue.append(lambda: setattr(recorded, "time", time.perf_counter()))
        recorded.position = target.position

    def wait_event(self, device: int, event: int, stream: int) -> None:
        self.calls["wait_event"] += 1
        self.streams[device, stream].queue.append(self.events[event].finish)

    def synchronize_event(self, device: int, event: int, timeout_ms: int) -> None:
        self.events[event].finish()

    def query_event(self, device: int, event: int) -> bool:
        return self.events[event].stream.done >= self.events[event].position

    def elapsed(self, device: int, start: int, end: int) -> float:
        return (self.events[end].time - self.events[start].time) * 1000

    def properties(self, device: int) -> dict[str, Any]:
        return {"name": "Tardy accelerator", "total_memory": MEMORY, "compute_units": 7, "version_major": 3}

    def memory(self, device: int) -> tuple[int, int]:
        return MEMORY - self.used, MEMORY

    def allocate_pinned(self, size: int) -> int:
        self.calls["allocate_pinned"] += 1
        return self._allocate(size)

    def free_pinned(self, address: int) -> None:
        del self.blocks[address]

    def copy_peer(self, dst_device: int, dst: int, src_device: int, src: int, size: int, stream: int) -> None:
        self.calls["copy_peer"] += 1
        self._copy(src_device, dst, src, size, stream)

    @kernel("add")
    def add(self, out: Any, a: Any, b: Any, alpha: float) -> None:
        if isinstance(b, (int, float)) or out.dtype != "float32":
            raise NotImplementedError("float32 tensors only")
        device = out.device.index
        size = out.numel()
        to, x, y = (ctypes.cast(t.data_ptr(), ctypes.POINTER(ctypes.c_float)) for t in (out, a, b))

        def work() -> None:
            if self.broken:
                raise DeviceError(Status.DEVICE_LOST, "the adder melted")
            for i in range(size):
                to[i] = x[i] + alpha * y[i]

        self.streams[device, self.current_stream(device)].queue.append(work)
