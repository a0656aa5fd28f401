"""Handles and memory that a plug-in does not release, found by calling its slots directly.

``python -m hardpoint.check.handles LIBRARY`` prints the leaks of a shared library as JSON. It runs in a separate
process because ``hp_plugin_init`` may be called only once per process, and mounting has already called it.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import Any, NamedTuple

#: Measured pairs of create and destroy, after a tenth as many that fill the plug-in's own pools.
EVENTS, STREAMS, BLOCKS = 20_000, 200, 2_000
#: Calls of which each must leave nothing behind.
CALLS = 4_000
#: Number of consecutive measurements that must all show a leak.
WINDOWS = 5
#: Bytes of an allocation; the plug-in's own memory() shows it.
BLOCK = 1 << 20
#: Bytes or objects that a released handle may leave behind, for fragments and counters.
SLACK = 16


class Resource(NamedTuple):
    """Something that a plug-in creates and destroys."""

    name: str
    create: Callable[[], Any]
    destroy: Callable[[Any], None]
    rounds: int


def _calls(slots: Any, filled: Collection[str], wait: Callable[[], None]) -> Iterator[Resource]:
    """Records and small copies on the default stream."""
    block, buffer = slots.allocate(0, BLOCK), (ctypes.c_char * 64)()
    host = ctypes.addressof(buffer)

    def copies() -> None:
        slots.copy_to_device(0, block, host, 64, 0)
        slots.copy_to_host(0, host, block, 64, 0)

    yield Resource("copies", copies, lambda _: wait(), CALLS)
    slots.free(0, block)
    if "create_event" in filled:
        event = slots.create_event(0, 0)
        yield Resource("records", lambda: slots.record_event(0, event, 0), lambda _: wait(), CALLS)
        slots.destroy_event(0, event)


class _MallInfo(ctypes.Structure):
    """``struct mallinfo2`` of malloc.h."""

    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = tuple((name, ctypes.c_size_t) for name in _names.split())


def _usage() -> dict[str, float]:
    """What this process uses: threads, files, bytes of the C heap, and Python objects."""
    gc.collect()
    heap = 0
    if hasattr(libc := ctypes.CDLL(None), "mallinfo2"):
        libc.mallinfo2.restype = _MallInfo
        info = libc.mallinfo2()
        heap = info.uordblks + info.hblkhd
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        "bytes": heap / SLACK,
        "objects": sys.getallocatedblocks(),
    }


def _leak(resource: Resource, free_memory: Callable[[], int]) -> str:
    """A leak grows in every window. Arenas, caches and ending threads grow in some, by chance."""
    for _ in range(resource.rounds // 10):
        resource.destroy(resource.create())
    found = _growth(resource, free_memory)
    for _ in range(WINDOWS - 1):
        if not found:
            break
        try:
            found = _growth(resource, free_memory)
        except (MemoryError, RuntimeError):  # the leak has used up the device
            break
    return found


def _growth(resource: Resource, free_memory: Callable[[], int]) -> str:
    verb = "were made" if resource.name in ("copies", "records") else "were created and destroyed"
    before, memory = _usage(), free_memory()
    for _ in range(resource.rounds):
        resource.destroy(resource.create())
    if (lost := memory - free_memory()) > 0:
        return f"{resource.rounds} {resource.name} {verb}, and memory() lost {lost} bytes"
    for kind, count in _usage().items():
        if (left := count - before[kind]) > resource.rounds * 0.9:
            amount = f"{left * SLACK:.0f} bytes" if kind == "bytes" else f"{left:.0f} {kind}"
            return f"{resource.rounds} {resource.name} {verb}, and {amount} are left"
    return ""


def leaks(resources: Iterator[Resource], free_memory: Callable[[], int]) -> dict[str, str]:
    """Resource -> a description of its leak; empty if there is none."""
    return {resource.name: _leak(resource, free_memory) for resource in resources}


def of_python(plugin: Any) -> dict[str, str]:
    """Leaks of a Python plug-in."""
    from hardpoint._plugin_adapter import provided
    from hardpoint._plugin_tables import EXTENSIONS

    filled = {name for slots in EXTENSIONS.values() for name in provided(plugin, slots)}

    def resources() -> Iterator[Resource]:
        # First: a leak of blocks uses up the device.
        wait = (lambda: plugin.synchronize_stream(0, 0, 0)) if "synchronize_stream" in filled else (lambda: None)
        yield from _calls(plugin, filled, wait)
        if "create_event" in filled:
            yield Resource(
                "events", lambda: plugin.create_event(0, 0), lambda event: plugin.destroy_event(0, event), EVENTS
            )
        if "create_stream" in filled:
            yield Resource(
                "streams", lambda: plugin.create_stream(0, 0), lambda s: plugin.destroy_stream(0, s), STREAMS
            )
        yield Resource("blocks", lambda: plugin.allocate(0, BLOCK), lambda block: plugin.free(0, block), BLOCKS // 10)
        if "allocate_pinned" in filled:
            yield Resource("pinned blocks", lambda: plugin.allocate_pinned(BLOCK), plugin.free_pinned, BLOCKS // 10)

    return leaks(resources(), lambda: int(plugin.memory(0)[0]) if "memory" in filled else 0)


def of_library(path: str) -> dict[str, str]:
    """Leaks of a shared library; measured in a separate process."""
    command = [sys.executable, "-m", "hardpoint.check.handles", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"the plug-in failed when its slots were called directly: {done.stderr.strip()[-500:]}")
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def _measure(path: str) -> dict[str, str]:
    from hardpoint._plugin_tables import EXTENSION_TABLES, EXTENSIONS
    from hardpoint.check import direct
    from hardpoint.check.slots import load_table

    table = load_table(path)
    filled: dict[str, Any] = {}
    for extension, slots in EXTENSIONS.items():
        if address := getattr(table, extension, None):
            part = EXTENSION_TABLES[extension].from_address(address)
            ends = {name: getattr(type(part), name).offset + 8 for name in slots}
            filled |= {name: getattr(part, name) for name in slots if ends[name] <= part.struct_size}
    filled = {name: slot for name, slot in filled.items() if slot}

    def creator(slot: Any, *arguments: int) -> Callable[[], int]:
        def create() -> int:
            handle = c_void_p()
            _check(slot(*arguments, byref(handle)))
            return handle.value or 0

        return create

    def free_memory() -> int:
        if "memory" not in filled:
            return 0
        free, total = c_uint64(), c_uint64()
        _check(filled["memory"](0, byref(free), byref(total)))
        return free.value

    def resources() -> Iterator[Resource]:
        library = direct.Library(table)
        has_streams = "synchronize_stream" in library.provided
        wait = (lambda: library.synchronize_stream(0, 0, 0)) if has_streams else (lambda: None)
        yield from _calls(library, library.provided, wait)
        for name, suffix, rounds in (("events", "event", EVENTS), ("streams", "stream", STREAMS)):
            if f"create_{suffix}" in filled:
                create, destroy = creator(filled[f"create_{suffix}"], 0, 0), filled[f"destroy_{suffix}"]
                yield Resource(name, create, _destroyer(destroy), rounds)
        yield Resource("blocks", creator(table.allocate, 0, BLOCK), lambda h: _check(table.free(0, h)), BLOCKS)
        if "allocate_pinned" in filled:
            free_pinned = filled["free_pinned"]
            yield Resource(
                "pinned blocks", creator(filled["allocate_pinned"], BLOCK), lambda h: _check(free_pinned(h)), BLOCKS
            )

    count = c_int()
    _check(table.device_count(byref(count)))
    return leaks(resources(), free_memory)


def _destroyer(slot: Any) -> Callable[[int], None]:
    return lambda handle: _check(slot(0, handle))


def _check(status: int) -> None:
    if status != 0:
        raise RuntimeError(f"status {status}")


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1])))
