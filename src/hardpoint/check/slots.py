"""Slots of the plug-in contract: which ones a plug-in fills, and the substitute for empty ones.

``python -m hardpoint.check.slots LIBRARY`` prints the filled slots as JSON. It runs in a separate process because
``hp_plugin_init`` may be called only once per process, and mounting has already called it.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from ctypes import CFUNCTYPE, POINTER, c_int, c_size_t, c_void_p
from typing import Any

REQUIRED = ("device_count", "allocate", "free", "copy_to_device", "copy_to_host", "copy_on_device")

#: Extension -> slots after struct_size, in the order of plugin.h.
EXTENSIONS: dict[str, tuple[str, ...]] = {
    "streams": ("create", "destroy", "synchronize", "query", "call_host"),
    "events": ("create", "destroy", "record", "wait", "synchronize", "query", "elapsed"),
    "info": ("properties", "memory"),
    "pinned": ("allocate", "free"),
    "peer": ("copy", "can_access"),
    "interprocess": ("export_memory", "open_memory", "close_memory"),
    "compiler": (
        *("dialect", "sizes", "fingerprint", "compile", "release_binary", "load", "unload", "find", "launch"),
        *("binary_kinds", "launch_with", "attributes"),
    ),
    "collectives": (
        *("group_id", "can_join", "create", "destroy", "abort"),
        *("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all"),
        *("send", "receive", "group_start", "group_end"),
    ),
    "tracing": ("start", "stop"),
    "graphs": ("begin_capture", "end_capture", "launch", "destroy"),
}

#: Optional slots of HpPlugin itself.
OPTIONAL = ("fill_memory", "shutdown", "private_function")

#: Substitute for an absent extension or optional slot.
INSTEAD: dict[str, str] = {
    "streams": "every call is synchronous, with one stream per device",
    "streams.query": "synchronize",
    "streams.call_host": "the stream is synchronized, and the function called",
    "events": "streams are synchronized instead",
    "events.elapsed": "an error when it is called",
    "info": "the plug-in's name, and the allocator's own statistics",
    "info.properties": "the plug-in's name",
    "info.memory": "the allocator's own statistics",
    "pinned": "pageable memory, synchronous copies",
    "peer": "copies go through the host",
    "peer.can_access": "all devices have a direct link",
    "interprocess": "tensors are copied between processes",
    "compiler": "vendor kernels, then the CPU",
    "compiler.binary_kinds": "only the compiler's own binaries can be loaded",
    "compiler.launch_with": "launch, without local memory, clusters and flags",
    "compiler.attributes": "registers and limits of a function are unknown",
    "collectives": "through the host",
    "collectives.can_join": "every process can join",
    "collectives.abort": "queued work fails at its timeout",
    "tracing": "Hardpoint times launches with events, or with the host's clock",
    "fill_memory": "copies of a pattern",
    "shutdown": "nothing is called when the program ends",
    "private_function": "no functions beside the contract",
    "graphs": "recorded launches are replayed one by one",
    # These work through the host, each on its own.
    **{f"collectives.{slot}": "through the host" for slot in EXTENSIONS["collectives"][5:]},
}


def filled_by_python(plugin: Any) -> list[str]:
    """Slots that a Python plug-in fills."""
    from hardpoint._plugin_adapter import provided
    from hardpoint._plugin_tables import EXTENSIONS as PYTHON_EXTENSIONS
    from hardpoint._plugin_tables import OPTIONAL as PYTHON_OPTIONAL
    from hardpoint._plugin_tables import REQUIRED as PYTHON_REQUIRED

    found = [*provided(plugin, PYTHON_REQUIRED), *provided(plugin, PYTHON_OPTIONAL)]
    for extension, slots in PYTHON_EXTENSIONS.items():
        # A table may begin with fields that are not methods.
        names = dict(zip(reversed(slots), reversed(EXTENSIONS[extension]), strict=False))
        found += [f"{extension}.{names[name]}" for name in provided(plugin, slots)]
    if "compiler.compile" in found:
        found += [f"compiler.{name}" for name in ("dialect", "sizes", "release_binary")]
        found += ["compiler.binary_kinds"] if plugin.binary_kinds else []
    return found


def filled_by_library(path: str) -> list[str]:
    """Slots that a shared library fills; read in a separate process."""
    command = [sys.executable, "-m", "hardpoint.check.slots", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"hp_plugin_init failed when called alone: {done.stderr.strip()[-500:]}")
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def _pointers(address: int) -> list[int]:
    """Fields of a table after struct_size, as pointers."""
    size = c_size_t.from_address(address).value
    return [c_void_p.from_address(address + 8 * i).value or 0 for i in range(1, size // 8)]


_host: Any = None  # must outlive the plug-in


def load_table(path: str) -> Any:
    """Call a library's ``hp_plugin_init`` with a minimal host, and return its table. Once per process."""
    from hardpoint._plugin_tables import Host, PluginTable
    from hardpoint._runtime import ABI

    global _host
    messages: list[str] = []

    # Variadic arguments are ignored: the format string is enough for a message.
    def fail(status: int, text: bytes, _: bytes) -> int:
        messages.append(text.decode(errors="replace"))
        return status

    host = _host = Host()
    host.struct_size = ctypes.sizeof(host)
    host.abi_major, host.abi_minor = ABI
    callbacks: dict[str, Any] = dict(Host._fields_)
    host.log = callbacks["log"](lambda level, text: None)
    host.fail = callbacks["fail"](fail)
    host.operator_name = callbacks["operator_name"](lambda: b"")
    host.current_stream = callbacks["current_stream"](lambda device: 0)
    result = c_void_p()
    init = CFUNCTYPE(c_int, POINTER(Host), POINTER(c_void_p))(("hp_plugin_init", ctypes.CDLL(path)))
    if (status := init(ctypes.byref(host), ctypes.byref(result))) != 0 or not result.value:
        raise SystemExit(f"status {status}: {' '.join(messages)}")
    return PluginTable.from_address(result.value)


def _read(path: str) -> list[str]:
    from hardpoint._plugin_tables import PluginTable

    table = load_table(path)

    def has(field: str) -> bool:
        position = getattr(PluginTable, field)
        return position.offset + position.size <= table.struct_size and bool(getattr(table, field))

    found = [name for name in (*REQUIRED, *OPTIONAL) if has(name)]
    for extension, slots in EXTENSIONS.items():
        if has(extension):
            pointers = _pointers(getattr(table, extension))
            found += [f"{extension}.{slot}" for slot, pointer in zip(slots, pointers, strict=False) if pointer]
    return found


if __name__ == "__main__":
    print(json.dumps(_read(sys.argv[1])))
