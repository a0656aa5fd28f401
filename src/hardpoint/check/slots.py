"""The slots of the plug-in contract: which a plug-in fills, and what Hardpoint does where one is empty.

A plug-in's table is read in a process of its own, since ``hp_plugin_init`` may be called once in a process and the
mounted plug-in's call has been made: ``python -m hardpoint.check.slots LIBRARY`` prints the filled slots as JSON.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from ctypes import CFUNCTYPE, POINTER, c_int, c_size_t, c_void_p
from typing import Any

REQUIRED = ("device_count", "allocate", "free", "copy_to_device", "copy_to_host", "copy_on_device")

#: Extension -> its slots in the order of plugin.h, after struct_size.
EXTENSIONS: dict[str, tuple[str, ...]] = {
    "streams": ("create", "destroy", "synchronize", "query"),
    "events": ("create", "destroy", "record", "wait", "synchronize", "query", "elapsed"),
    "info": ("properties", "memory"),
    "pinned": ("allocate", "free"),
    "peer": ("copy",),
    "interprocess": ("export_memory", "open_memory", "close_memory"),
    "compiler": ("dialect", "sizes", "fingerprint", "compile", "release_binary", "load", "unload", "find", "launch"),
    "collectives": (
        *("group_id", "can_join", "create", "destroy", "abort"),
        *("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all"),
        *("send", "receive", "group_start", "group_end"),
    ),
}

#: What is used where an extension, or one of its optional slots, is absent.
INSTEAD: dict[str, str] = {
    "streams": "every call is synchronous, one stream a device",
    "streams.query": "synchronize",
    "events": "streams are synchronised instead",
    "events.elapsed": "an error when it is asked for",
    "info": "the plug-in's name, and what the allocator itself holds",
    "pinned": "plain memory, synchronous copies",
    "peer": "copies go through the host",
    "interprocess": "tensors are sent between processes by copy",
    "compiler": "vendor kernels, then the CPU",
    "collectives": "through the host",
}


def filled_by_python(plugin: Any) -> list[str]:
    """The slots that a plug-in written in Python fills."""
    from hardpoint.plugin import _EXTENSIONS, _REQUIRED

    found = list(plugin._provided(_REQUIRED))
    for extension, slots in _EXTENSIONS.items():
        provided = plugin._provided(slots)
        found += [f"{extension}.{EXTENSIONS[extension][list(slots).index(name)]}" for name in provided]
    return found


def filled_by_library(path: str) -> list[str]:
    """The slots that a shared library's table fills; read in a process of its own."""
    command = [sys.executable, "-m", "hardpoint.check.slots", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"hp_plugin_init failed when called alone: {done.stderr.strip()[-500:]}")
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def _words(address: int) -> list[int]:
    """A table's fields after struct_size, as pointers."""
    size = c_size_t.from_address(address).value
    return [c_void_p.from_address(address + 8 * i).value or 0 for i in range(1, size // 8)]


def _read(path: str) -> list[str]:
    from hardpoint.plugin import _Host, _PluginTable

    messages: list[str] = []

    # Variable arguments are left alone: the format is enough for a message.
    def fail(status: int, text: bytes, _: bytes) -> int:
        messages.append(text.decode(errors="replace"))
        return status

    host = _Host()
    host.struct_size = ctypes.sizeof(host)
    from hardpoint._runtime import ABI

    host.abi_major, host.abi_minor = ABI
    callbacks: dict[str, Any] = dict(_Host._fields_)
    host.log = callbacks["log"](lambda level, text: None)
    host.fail = callbacks["fail"](fail)
    host.operator_name = callbacks["operator_name"](lambda: b"")
    host.current_stream = callbacks["current_stream"](lambda device: 0)
    result = c_void_p()
    init = CFUNCTYPE(c_int, POINTER(_Host), POINTER(c_void_p))(("hp_plugin_init", ctypes.CDLL(path)))
    if (status := init(ctypes.byref(host), ctypes.byref(result))) != 0 or not result.value:
        raise SystemExit(f"status {status}: {' '.join(messages)}")
    table = _PluginTable.from_address(result.value)

    def has(field: str) -> bool:
        place = getattr(_PluginTable, field)
        return place.offset + place.size <= table.struct_size and bool(getattr(table, field))

    found = [name for name in REQUIRED if has(name)]
    for extension, slots in EXTENSIONS.items():
        if has(extension):
            words = _words(getattr(table, extension))
            found += [f"{extension}.{slot}" for slot, word in zip(slots, words, strict=False) if word]
    return found


if __name__ == "__main__":
    print(json.dumps(_read(sys.argv[1])))
