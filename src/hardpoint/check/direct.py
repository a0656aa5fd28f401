"""What the slots of a plug-in do, called directly: pools of streams and events and the caching allocator hide it.

``python -m hardpoint.check.direct LIBRARY`` prints the problems of a shared library as JSON. It runs in a process of
its own because ``hp_plugin_init`` may be called only once per process, and mounting has already called it.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from hardpoint._plugin_tables import ALIGNMENT

#: Bytes of a copy, and copies that are queued before those that count.
BYTES, QUEUED = 4 << 20, 16
#: Sizes of allocations whose addresses are compared.
SIZES = (1, 63, 64, 65, 1000, 4097, 1 << 20) * 2
#: A block that memory() must show, and how far its figure may be off.
LARGE, TOLERANCE = 64 << 20, 32 << 20
#: Seconds until a query must report that work is done.
PATIENCE = 5.0
TIMEOUT_MS = 60_000
#: More than any memory; the lower 32 bits are a page.
HUGE = (1 << 46) + 4096
#: Copies that are queued before one wait.
PIECES = 600
#: Allocations of each of four threads.
ALLOCATIONS = 100
#: Seconds between two events, and of a host function.
PAUSE = 0.02


class Library:
    """Slots of a shared library under the names and signatures of :class:`hardpoint.Plugin`."""

    def __init__(self, table: Any) -> None:
        from hardpoint._plugin_tables import EXTENSION_TABLES, EXTENSIONS, OPTIONAL, REQUIRED

        self._table = table
        groups = [(self._table, {**REQUIRED, **OPTIONAL})]
        for extension, slots in EXTENSIONS.items():
            if self._has(self._table, extension):
                groups.append((EXTENSION_TABLES[extension].from_address(getattr(self._table, extension)), slots))
        self.provided: set[str] = set()
        for table, each in groups:
            for name, slot in each.items():
                if self._has(table, name) and isinstance(slot.prototype, type(ctypes.CFUNCTYPE(None))):
                    self.provided.add(name)
                    setattr(self, name, self._function(getattr(table, name), slot.outputs))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the plug-in has no {name}")

    @staticmethod
    def _has(table: Any, field: str) -> bool:
        position = getattr(type(table), field)
        return position.offset + position.size <= table.struct_size and bool(getattr(table, field))

    @staticmethod
    def _function(slot: Any, outputs: int) -> Callable[..., Any]:
        types = slot.argtypes[len(slot.argtypes) - outputs :] if outputs else ()

        def call(*arguments: Any) -> Any:
            results = [kind._type_() for kind in types]
            if (status := slot(*arguments, *map(ctypes.byref, results))) not in (0, None):
                raise RuntimeError(f"status {status}")
            values = tuple(result.value or 0 for result in results)
            return values[0] if len(values) == 1 else values or None

        return call

    def query(self, name: str, handle: int) -> bool:
        """Whether ``query_stream`` or ``query_event`` reports that work is done."""
        try:
            getattr(self, name)(0, handle)
        except RuntimeError as error:
            if str(error) == "status 5":  # HP_NOT_READY
                return False
            raise
        return True


class Python:
    """Slots of a Python plug-in."""

    def __init__(self, plugin: Any) -> None:
        from hardpoint._plugin_adapter import provided
        from hardpoint._plugin_tables import EXTENSIONS, OPTIONAL

        self._plugin = plugin
        self.provided = {name for slots in (*EXTENSIONS.values(), OPTIONAL) for name in provided(plugin, slots)}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plugin, name)

    def call_host(self, device: int, stream: int, function: Any, data: Any) -> None:
        """As in C, with an argument for the function."""
        self._plugin.call_host(device, stream, lambda: function(data))

    def query(self, name: str, handle: int) -> bool:
        """Whether ``query_stream`` or ``query_event`` reports that work is done."""
        return bool(getattr(self._plugin, name)(0, handle))


class Checks:
    """The checks. Each returns what is wrong, or an empty text; None if the plug-in lacks a slot for it."""

    def __init__(self, slots: Any) -> None:
        self.slots = slots
        self.devices = int(slots.device_count())
        self.counts = {int(slots.device_count()) for _ in range(4)} | {self.devices}

    def _has(self, *names: str) -> bool:
        return bool(self.slots.provided.issuperset(names))

    @contextmanager
    def _host(self, *values: int) -> Iterator[list[int]]:
        """Host buffers that are filled with values: pinned if the plug-in can, so that copies are asynchronous."""
        pinned = self._has("allocate_pinned")
        owned = [] if pinned else [(ctypes.c_char * BYTES)() for _ in values]
        made = [self.slots.allocate_pinned(BYTES) for _ in values] if pinned else list(map(ctypes.addressof, owned))
        for address, value in zip(made, values, strict=True):
            ctypes.memset(address, value, BYTES)
        try:
            yield made
        finally:
            for address in made if pinned else ():
                self.slots.free_pinned(address)

    @contextmanager
    def _streams(self, count: int) -> Iterator[list[int]]:
        made = [self.slots.create_stream(0, 0) for _ in range(count)]
        try:
            yield made
        finally:
            for stream in made:
                self.slots.destroy_stream(0, stream)

    @contextmanager
    def _block(self, size: int = BYTES, device: int = 0) -> Iterator[int]:
        address = self.slots.allocate(device, size)
        try:
            yield address
        finally:
            self.slots.free(device, address)

    def _busy(self, block: int, source: int, stream: int) -> None:
        for _ in range(QUEUED):
            self.slots.copy_to_device(0, block, source, BYTES, stream)

    @staticmethod
    def _is(address: int, value: int) -> bool:
        return bool(ctypes.string_at(address, BYTES) == bytes([value]) * BYTES)

    def _wait(self, stream: int) -> None:
        self.slots.synchronize_stream(0, stream, 0)

    def number_of_devices(self) -> str | None:
        """It is the same in every call."""
        return "" if len(self.counts) == 1 else f"device_count gave {', '.join(map(str, sorted(self.counts)))}"

    def addresses(self) -> str | None:
        """Blocks are aligned and do not overlap."""
        for kind in ("", "_pinned"):
            if kind and not self._has("allocate_pinned"):
                continue
            allocate, free = getattr(self.slots, f"allocate{kind}"), getattr(self.slots, f"free{kind}")
            device = () if kind else (0,)
            held = [(allocate(*device, size), size) for size in SIZES]
            for address, _ in held:
                free(*device, address)
            ordered = sorted(held)
            if any(a + size > b for (a, size), (b, _) in itertools.pairwise(ordered)):
                return f"two blocks of allocate{kind} overlap"
            if not kind and (bad := [size for address, size in held if address % ALIGNMENT]):
                return f"blocks of {bad} bytes are not aligned to {ALIGNMENT}"
        return ""

    def memory_of_a_device(self) -> str | None:
        """memory() follows the allocations of that device, and of no other."""
        if not self._has("memory"):
            return None
        for device in range(self.devices):
            before = [self.slots.memory(i)[0] for i in range(self.devices)]
            with self._block(LARGE, device):
                after = [self.slots.memory(i)[0] for i in range(self.devices)]
            for i, (old, new) in enumerate(zip(before, after, strict=True)):
                expected = LARGE if i == device else 0
                if abs(old - new - expected) > TOLERANCE:
                    return f"{LARGE} bytes on device {device}, and memory({i}) went from {old} to {new} bytes free"
            for i, old in enumerate(before):
                if abs(old - (new := self.slots.memory(i)[0])) > TOLERANCE:
                    return f"{LARGE} bytes on device {device} were freed, and memory({i}) went from {old} to {new}"
        return ""

    def blocks_in_use(self) -> str | None:
        """Many blocks, of which some are freed, do not overlap."""
        held = [self.slots.allocate(0, size) for size in SIZES[:7] * 10]
        for address in held[1::2]:
            self.slots.free(0, address)
        held[1::2] = [self.slots.allocate(0, size) for size in (SIZES[:7] * 10)[1::2]]
        ordered = sorted(zip(held, SIZES[:7] * 10, strict=True))
        for address in held:
            self.slots.free(0, address)
        if bad := [size for address, size in ordered if address % ALIGNMENT]:
            return f"blocks of {bad} bytes are not aligned to {ALIGNMENT}"
        return "blocks overlap" if any(a + n > b for (a, n), (b, _) in itertools.pairwise(ordered)) else ""

    def too_large_allocations(self) -> str | None:
        """An allocation that does not fit fails, also if the lower 32 bits of its size would fit."""
        try:
            address = self.slots.allocate(0, HUGE)
        except (MemoryError, RuntimeError):
            return ""
        return f"allocate returned {address:#x} for {HUGE} bytes"

    def concurrent_allocations(self) -> str | None:
        """Blocks that several threads allocate do not overlap."""
        held: list[tuple[int, int]] = []

        def work(number: int) -> None:
            for turn in range(ALLOCATIONS):
                size = 64 * (1 + (number + turn) % 5)
                held.append((self.slots.allocate(0, size), size))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        ordered = sorted(held)
        for address in dict(held):
            self.slots.free(0, address)
        overlap = any(a + size > b for (a, size), (b, _) in itertools.pairwise(ordered))
        return "blocks that threads allocated at the same time overlap" if overlap else ""

    def concurrent_handles(self) -> str | None:
        """Events and streams that several threads create are different ones."""
        for kind, rounds in (("event", ALLOCATIONS), ("stream", 4)):
            if not self._has(f"create_{kind}"):
                continue
            create, destroy = getattr(self.slots, f"create_{kind}"), getattr(self.slots, f"destroy_{kind}")
            with ThreadPoolExecutor(4) as pool:
                made = list(pool.map(lambda _, create=create: create(0, 0), range(4 * rounds)))  # type: ignore[misc]
            for handle in set(made):
                destroy(0, handle)
            if len(set(made)) < len(made):
                return f"create_{kind} returned {len(made)} handles, of which {len(set(made))} are different"
        return ""

    def odd_addresses(self) -> str | None:
        """Copies from and to any address of the host and the device."""
        with self._block() as block, self._host(0, 0) as (source, target):
            right = bytes(range(256)) * 17
            for offset in (1, 3, 7):
                ctypes.memmove(source + offset, right, len(right))
                self.slots.copy_to_device(0, block, source + offset, len(right), 0)
                self.slots.copy_to_host(0, target + offset, block, len(right), 0)
                if self._has("synchronize_stream"):
                    self._wait(0)
                if ctypes.string_at(target + offset, len(right)) != right:
                    return f"{len(right)} bytes at {offset} bytes past an aligned address of the host"
                self.slots.copy_to_device(0, block + offset, source + offset, len(right), 0)
                self.slots.copy_to_host(0, target, block + offset, len(right), 0)
                if self._has("synchronize_stream"):
                    self._wait(0)
                if ctypes.string_at(target, len(right)) != right:
                    return f"{len(right)} bytes at {offset} bytes past an aligned address of the device"
        return ""

    def copies_on_each_device(self) -> str | None:
        """Synchronizing the default stream of a device waits for its copies."""
        if not self._has("synchronize_stream"):
            return None
        for device in range(self.devices):
            with self._host(1, 0) as (source, target), self._block(device=device) as block:
                self.slots.copy_to_device(device, block, source, BYTES, 0)
                self.slots.copy_to_host(device, target, block, BYTES, 0)
                self.slots.synchronize_stream(device, 0, 0)
                if not self._is(target, 1):
                    return f"device {device}: a copy was not done after synchronize_stream"
        return ""

    def copies_between_devices(self) -> str | None:
        """A peer copy comes after the work on its stream."""
        if self.devices < 2 or not self._has("copy_peer", "synchronize_stream"):
            return None
        with self._host(1, 0) as (source, target), self._block() as first, self._block(device=1) as second:
            self._busy(first, source, 0)
            try:
                self.slots.copy_peer(1, second, 0, first, BYTES, 0)
            except (RuntimeError, NotImplementedError):
                return None  # no link
            self._wait(0)
            self.slots.copy_to_host(1, target, second, BYTES, 0)
            self.slots.synchronize_stream(1, 0, 0)
            return "" if self._is(target, 1) else "wrong bytes, or too early"

    def later_work_on_the_source(self) -> str | None:
        """Work on the source device's stream after a peer copy waits for the copy."""
        if self.devices < 2 or not self._has("copy_peer", "synchronize_stream"):
            return None
        with self._host(1, 2, 0) as (one, two, target), self._block() as first, self._block(device=1) as second:
            self.slots.copy_to_device(0, first, one, BYTES, 0)
            try:
                self.slots.copy_peer(1, second, 0, first, BYTES, 0)
            except (RuntimeError, NotImplementedError):
                return None  # no link
            self.slots.copy_to_device(0, first, two, BYTES, 0)
            self._wait(0)
            self.slots.copy_to_host(1, target, second, BYTES, 0)
            self.slots.synchronize_stream(1, 0, 0)
            return "" if self._is(target, 1) else "a peer copy is not in the order of the stream it was given"

    def sizes(self) -> str | None:
        """Copies of sizes around powers of two, and small copies in order with large ones."""
        if not self._has("synchronize_stream"):
            return None
        with self._host(1, 2, 0) as (one, two, target), self._block() as block:
            for power in (12, 16, 20):
                for size in (min(1 << power, BYTES) - 1, min(1 << power, BYTES)):
                    ctypes.memset(target, 0, BYTES)
                    self._busy(block, two, 0)
                    self.slots.copy_to_device(0, block, one, size, 0)
                    self.slots.copy_to_host(0, target, block, BYTES, 0)
                    self._wait(0)
                    if ctypes.string_at(target, BYTES) != b"\1" * size + b"\2" * (BYTES - size):
                        return f"a copy of {size} bytes"
            ctypes.memset(target, 0, BYTES)
            self._busy(block, two, 0)
            self.slots.copy_to_device(0, block, one, 64, 0)
            self.slots.copy_to_host(0, target, block, BYTES, 0)
            self._wait(0)
            if ctypes.string_at(target, 65) != b"\1" * 64 + b"\2":
                return "a small copy did not wait for large ones"
            self.slots.copy_to_device(0, block, one, 64, 0)
            self.slots.copy_to_device(0, block, two, BYTES, 0)
            self.slots.copy_to_host(0, target, block, 64, 0)
            self._wait(0)
            return "" if ctypes.string_at(target, 64) == b"\2" * 64 else "a large copy did not wait for a small one"

    def many_pieces(self) -> str | None:
        """Synchronizing waits for any amount of work, as often as it is called."""
        if not self._has("create_stream"):
            return None
        with self._host(1, 2, 0) as (one, two, target), self._block() as block, self._streams(1) as (stream,):
            for turn in range(3):
                for number in range(PIECES):
                    self.slots.copy_to_device(0, block, (one, two)[number % 2], 64, stream)
                self.slots.copy_to_host(0, target, block, 64, stream)
                self._wait(stream)
                if ctypes.string_at(target, 64) != b"\2" * 64:
                    return f"{PIECES} copies were not done after synchronize_stream, turn {turn}"
                ctypes.memset(target, 0, 64)
        return ""

    def fills(self) -> str | None:
        """fill_memory comes after the work on its stream, and sets each byte to the value."""
        if not self._has("fill_memory", "create_stream"):
            return None
        with self._host(1, 0) as (source, target), self._block() as block, self._streams(1) as (stream,):
            self._busy(block, source, stream)
            self.slots.fill_memory(0, block, 0xB5, BYTES, stream)
            self.slots.copy_to_host(0, target, block, BYTES, stream)
            self._wait(stream)
            return "" if self._is(target, 0xB5) else "fill_memory did not wait for earlier work, or wrote other bytes"

    def host_functions(self) -> str | None:
        """call_host calls once, after the work on its stream."""
        if not self._has("call_host", "create_stream"):
            return None
        from hardpoint._plugin_tables import HostFunction

        with self._host(1, 0) as (source, target), self._block() as block, self._streams(1) as (stream,):
            seen: list[bool] = []
            function = HostFunction(lambda data: seen.append(self._is(target, 1)))
            self._busy(block, source, stream)
            self.slots.copy_to_host(0, target, block, BYTES, stream)
            self.slots.call_host(0, stream, function, None)
            self._wait(stream)
            if seen != [True]:
                return f"called {len(seen)} times" if len(seen) != 1 else "called before earlier work was done"
        return ""

    def order_of_host_functions(self) -> str | None:
        """Functions on one stream are called in order."""
        if not self._has("call_host", "create_stream"):
            return None
        from hardpoint._plugin_tables import HostFunction

        with self._streams(1) as (stream,):
            seen: list[int] = []
            functions = [HostFunction(lambda data, number=number: seen.append(number)) for number in range(5)]
            for function in functions:
                self.slots.call_host(0, stream, function, None)
            self._wait(stream)
            return "" if seen == list(range(5)) else f"5 functions were called in the order {seen}"

    def work_after_host_functions(self) -> str | None:
        """Later work on the stream waits for the function."""
        if not self._has("call_host", "create_stream"):
            return None
        from hardpoint._plugin_tables import HostFunction

        with self._host(1, 0) as (source, target), self._block() as block, self._streams(1) as (stream,):
            early: list[bool] = []

            def look(data: object) -> None:
                time.sleep(PAUSE)
                early.append(self._is(target, 1))

            function = HostFunction(look)
            self.slots.copy_to_device(0, block, source, BYTES, stream)
            self.slots.call_host(0, stream, function, None)
            self.slots.copy_to_host(0, target, block, BYTES, stream)
            self._wait(stream)
            return "" if early == [False] else "later work did not wait for the function"

    def priorities(self) -> str | None:
        """Streams have any priority, and work in order."""
        if not self._has("create_stream"):
            return None
        for priority in (-1, 1):
            with self._host(1, 0) as (source, target), self._block() as block:
                stream = self.slots.create_stream(0, priority)
                self.slots.copy_to_device(0, block, source, BYTES, stream)
                self.slots.copy_to_host(0, target, block, BYTES, stream)
                self._wait(stream)
                self.slots.destroy_stream(0, stream)
                if not self._is(target, 1):
                    return f"wrong bytes on a stream of priority {priority}"
        return ""

    def times(self) -> str | None:
        """The time between two events includes a pause of the host."""
        if not self._has("create_event", "elapsed", "synchronize_event"):
            return None
        first, second = (self.slots.create_event(0, 1) for _ in range(2))
        self.slots.record_event(0, first, 0)
        self.slots.synchronize_event(0, first, 0)
        time.sleep(PAUSE)
        self.slots.record_event(0, second, 0)
        self.slots.synchronize_event(0, second, 0)
        spent = self.slots.elapsed(0, first, second)
        if self._has("create_stream"):
            with self._streams(1) as (stream,):
                self.slots.record_event(0, second, stream)
                self.slots.synchronize_event(0, second, 0)
                spent = min(spent, self.slots.elapsed(0, first, second))
        for event in (first, second):
            self.slots.destroy_event(0, event)
        return "" if spent >= 500 * PAUSE else f"{spent} ms between events with {1000 * PAUSE:g} ms between them"

    def default_stream(self) -> str | None:
        """The default stream waits for events, and events wait for it."""
        if not self._has("create_stream", "create_event"):
            return None
        with self._host(1, 2, 3, 0) as (one, two, three, target), self._block() as block, self._streams(1) as (stream,):
            event = self.slots.create_event(0, 0)
            for before, after, source, value in ((stream, 0, one, 1), (0, stream, three, 3)):
                ctypes.memset(target, 0, BYTES)
                self._busy(block, two, before)
                self.slots.copy_to_device(0, block, source, BYTES, before)
                self.slots.record_event(0, event, before)
                self.slots.wait_event(0, event, after)
                self.slots.copy_to_host(0, target, block, BYTES, after)
                self._wait(after)
                right = self._is(target, value)
                self._wait(before)
                if not right:
                    break
            self.slots.destroy_event(0, event)
            if right:
                return ""
            return f"{'another' if before == 0 else 'the default'} stream did not wait for an event of the other"

    def unrecorded_event(self) -> str | None:
        """An event that was never recorded is done."""
        if not self._has("create_event", "create_stream", "synchronize_event"):
            return None
        event = self.slots.create_event(0, 0)
        self.slots.synchronize_event(0, event, 0)
        with self._streams(1) as (stream,):
            self.slots.wait_event(0, event, stream)
            self._wait(stream)
        self.slots.destroy_event(0, event)
        return ""

    def events_of_other_devices(self) -> str | None:
        """Events of the second device work, and its streams wait for events of the first."""
        if self.devices < 2 or not self._has("create_stream", "create_event"):
            return None
        with self._host(1, 0, 0) as (source, middle, target), self._block() as first, self._block(device=1) as second:
            for _ in range(QUEUED):
                self.slots.copy_to_device(1, second, source, BYTES, 0)
            event = self.slots.create_event(1, 0)
            self.slots.copy_to_host(1, middle, second, BYTES, 0)
            self.slots.record_event(1, event, 0)
            self.slots.synchronize_event(1, event, 0)
            right = self._is(middle, 1)
            self.slots.synchronize_stream(1, 0, 0)
            self.slots.destroy_event(1, event)
            if not right:
                return "synchronize_event did not wait for the default stream of the second device"
            ctypes.memset(middle, 0, BYTES)
            stream, event = self.slots.create_stream(1, 0), self.slots.create_event(0, 0)
            self._busy(first, source, 0)
            self.slots.copy_to_host(0, middle, first, BYTES, 0)
            self.slots.record_event(0, event, 0)
            self.slots.wait_event(1, event, stream)
            self.slots.copy_to_device(1, second, middle, BYTES, stream)
            self.slots.copy_to_host(1, target, second, BYTES, stream)
            self.slots.synchronize_stream(1, stream, 0)
            right = self._is(target, 1)
            self._wait(0)
            self.slots.destroy_event(0, event)
            self.slots.destroy_stream(1, stream)
            return "" if right else "a stream of the second device did not wait for an event of the first"

    def queries(self) -> str | None:
        """A query reports the end of work, and not before."""
        if not self._has("query_stream", "query_event"):
            return None
        for name in ("query_stream", "query_event"):
            with self._host(1, 0) as (source, target), self._block() as block, self._streams(1) as (stream,):
                event = self.slots.create_event(0, 0)
                if not self.slots.query("query_event", event):
                    return "query_event: an event that was never recorded is not done"
                self._busy(block, source, stream)
                self.slots.copy_to_host(0, target, block, BYTES, stream)
                self.slots.record_event(0, event, stream)
                handle, end = (stream if name == "query_stream" else event), time.monotonic() + PATIENCE
                while not (done := self.slots.query(name, handle)) and time.monotonic() < end:
                    time.sleep(0.001)
                    if time.monotonic() > end - PATIENCE / 2:
                        self._wait(stream)  # devices that only work when someone waits
                early = done and not self._is(target, 1)
                self._wait(stream)
                self.slots.destroy_event(0, event)
                if early or not done:
                    return f"{name}: {'done too early' if early else 'not done after the work was'}"
        return ""

    def timed_waits(self) -> str | None:
        """A wait with a timeout waits, and succeeds if there is time enough."""
        if not self._has("create_stream", "create_event"):
            return None
        for kind in ("stream", "event"):
            with self._host(1, 0) as (source, target), self._block() as block, self._streams(1) as (stream,):
                event = self.slots.create_event(0, 0)
                self._busy(block, source, stream)
                self.slots.copy_to_host(0, target, block, BYTES, stream)
                self.slots.record_event(0, event, stream)
                getattr(self.slots, f"synchronize_{kind}")(0, stream if kind == "stream" else event, TIMEOUT_MS)
                right = self._is(target, 1)
                self._wait(stream)
                self.slots.destroy_event(0, event)
                if not right:
                    return f"synchronize_{kind} with a timeout returned before the work was done"
        return ""

    def recorded_again(self) -> str | None:
        """An event that is recorded again refers to the new record."""
        if not self._has("create_stream", "create_event"):
            return None
        with self._host(1, 2, 0) as (one, two, target), self._block() as block, self._streams(1) as (stream,):
            event = self.slots.create_event(0, 0)
            self.slots.copy_to_device(0, block, one, BYTES, stream)
            self.slots.record_event(0, event, stream)
            self._busy(block, two, stream)
            self.slots.copy_to_host(0, target, block, BYTES, stream)
            self.slots.record_event(0, event, stream)
            self.slots.synchronize_event(0, event, 0)
            right = self._is(target, 2)
            self._wait(stream)
            self.slots.destroy_event(0, event)
            return "" if right else "synchronize_event waited for an earlier record"

    def earlier_record(self) -> str | None:
        """A wait refers to the record before it, not to a later one."""
        if not self._has("create_stream", "create_event"):
            return None
        with self._host(1, 0) as (source, target), self._block() as block, self._streams(2) as (first, second):
            event = self.slots.create_event(0, 0)
            self._busy(block, source, first)
            self.slots.record_event(0, event, first)
            self.slots.wait_event(0, event, second)
            self.slots.record_event(0, event, second)
            self.slots.copy_to_host(0, target, block, BYTES, second)
            self._wait(second)
            right = self._is(target, 1)
            self._wait(first)
            self.slots.destroy_event(0, event)
            return "" if right else "a wait did not refer to the record before it"

    def graphs(self) -> str | None:
        """Captured work runs at each launch, in order, and at no other time."""
        if not self._has("begin_capture", "create_stream"):
            return None
        with (
            self._host(1, 2, 3, 0) as (one, two, three, target),
            self._block() as a,
            self._block() as b,
            self._block() as c,
            self._streams(2) as (stream, other),
        ):

            def seen(block: int, on: int = stream) -> int:
                self.slots.copy_to_host(0, target, block, BYTES, on)
                self._wait(on)
                return ctypes.string_at(target, 1)[0] if self._is(target, ctypes.string_at(target, 1)[0]) else -1

            for block, value in ((a, one), (b, three), (c, three)):
                self.slots.copy_to_device(0, block, value, BYTES, stream)
            self._wait(stream)
            self.slots.begin_capture(0, stream)
            self.slots.copy_on_device(0, b, a, BYTES, stream)
            self.slots.copy_on_device(0, a, c, BYTES, stream)
            graph = self.slots.end_capture(0, stream)
            if (found := (seen(a), seen(b))) != (1, 3):
                return f"captured work ran before the launch: {found}"
            self.slots.launch_graph(0, graph, stream)
            first = seen(b), seen(a)
            self.slots.launch_graph(0, graph, other)
            second = seen(b, other)
            self._busy(a, two, other)
            self.slots.launch_graph(0, graph, other)
            third = seen(b, other)
            right = (first, second, third) == ((1, 3), 3, 2)
            if not right:
                return f"launches of a graph gave {first}, {second} and {third}, not (1, 3), 3 and 2"
            self.slots.begin_capture(0, stream)
            if self._has("fill_memory"):
                self.slots.fill_memory(0, a, 4, BYTES, stream)
            else:
                self.slots.copy_on_device(0, a, c, BYTES, stream)
            other_graph = self.slots.end_capture(0, stream)
            self.slots.destroy_graph(0, graph)
            self.slots.launch_graph(0, other_graph, stream)
            last, expected = seen(a), 4 if self._has("fill_memory") else 3
            self.slots.destroy_graph(0, other_graph)
            return "" if last == expected else f"a graph gave {last}, not {expected}, after another was destroyed"

    def destroyed_event(self) -> str | None:
        """A stream still waits for the record of an event that was destroyed."""
        if not self._has("create_stream", "create_event"):
            return None
        with self._host(1, 0) as (source, target), self._block() as block, self._streams(2) as (first, second):
            event = self.slots.create_event(0, 0)
            self._busy(block, source, first)
            self.slots.record_event(0, event, first)
            self.slots.wait_event(0, event, second)
            self.slots.destroy_event(0, event)
            self.slots.copy_to_host(0, target, block, BYTES, second)
            self._wait(second)
            right = self._is(target, 1)
            self._wait(first)
            return "" if right else "a stream did not wait for an event that was destroyed after the call"

    def destroyed_stream(self) -> str | None:
        """The work of a stream that was destroyed runs to its end, and that of others."""
        if not self._has("create_stream", "create_event"):
            return None
        with self._host(1, 0) as (source, target), self._block() as block, self._streams(1) as (other,):
            unused = self.slots.create_stream(0, 0)
            self._busy(block, source, other)
            self.slots.copy_to_host(0, target, block, BYTES, other)
            self.slots.destroy_stream(0, unused)
            self._wait(other)
            if not self._is(target, 1):
                return "destroy_stream lost the work of another stream"
            ctypes.memset(target, 0, BYTES)
            stream, event = self.slots.create_stream(0, 0), self.slots.create_event(0, 0)
            self._busy(block, source, stream)
            self.slots.copy_to_host(0, target, block, BYTES, stream)
            self.slots.record_event(0, event, stream)
            self.slots.destroy_stream(0, stream)
            self.slots.synchronize_event(0, event, 0)
            right = self._is(target, 1)
            self.slots.destroy_event(0, event)
            return "" if right else "work that was queued before destroy_stream is lost"


NAMES = [name for name in vars(Checks) if not name.startswith("_")]


def problems(slots: Any) -> dict[str, str | None]:
    """Check -> what is wrong; None if the plug-in lacks a slot for it."""
    checks, found = Checks(slots), {}
    for name in NAMES:
        try:
            found[name] = getattr(checks, name)()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def of_library(path: str) -> dict[str, str | None]:
    """Problems of a shared library, found in a separate process."""
    command = [sys.executable, "-m", "hardpoint.check.direct", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"the plug-in failed when its slots were called directly: {done.stderr.strip()[-500:]}")
    found: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    from hardpoint.check.slots import load_table

    print(json.dumps(problems(Library(load_table(sys.argv[1])))))
