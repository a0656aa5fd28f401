"""The structs of ``hardpoint/plugin.h`` in ctypes. tests/test_python_plugin.py compares the layouts."""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

ALIGNMENT = 64
GROUP_ID_BYTES = 128


class Host(Structure):
    """``HpHost``, up to the last function used here."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("abi_major", c_uint32),
        ("abi_minor", c_uint32),
        ("log", CFUNCTYPE(None, c_int, c_char_p)),
        ("fail", CFUNCTYPE(c_int, c_int, c_char_p, c_char_p)),
        ("raise", c_void_p),
        ("operator_name", CFUNCTYPE(c_char_p)),
        ("current_stream", CFUNCTYPE(c_void_p, c_int)),
        ("scratch_allocate", c_void_p),
        ("scratch_free", c_void_p),
        ("correlation", CFUNCTYPE(c_uint64)),
    )


class PropertiesStruct(Structure):
    """``HpProperties``."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("name", ctypes.c_char * 128),
        ("total_memory", c_uint64),
        ("compute_units", ctypes.c_int32),
        ("version_major", ctypes.c_int32),
        ("version_minor", ctypes.c_int32),
        ("uuid", c_uint8 * 16),
        ("pci_id", ctypes.c_char * 16),
        ("max_allocation", c_uint64),
        ("native_elements", c_uint64),
        ("cache_bytes", c_uint64),
        ("clock_khz", c_uint32),
        ("memory_clock_khz", c_uint32),
        ("memory_bus_bits", c_uint32),
        ("simd_width", c_uint32),
        ("group_size", c_uint32),
        ("max_group_size", c_uint32),
        ("local_memory", c_uint32),
        ("max_local_memory", c_uint32),
        ("unit_registers", c_uint32),
    )


class LaunchArgStruct(Structure):
    """``HpLaunchArg``."""

    _fields_ = (("value", c_void_p), ("bytes", c_uint32), ("is_pointer", c_uint32))


class LaunchStruct(Structure):
    """``HpLaunch``."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("groups", c_uint32 * 3),
        ("group_size", c_uint32 * 3),
        ("local_bytes", c_uint32),
        ("cluster", c_uint32 * 3),
        ("flags", c_uint32),
    )


class AttributesStruct(Structure):
    """``HpAttributes``."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("registers", c_uint32),
        ("spilled_bytes", c_uint32),
        ("local_bytes", c_uint32),
        ("max_group_size", c_uint32),
    )


class TraceRecordStruct(Structure):
    """``HpTraceRecord``."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("kind", c_int),
        ("device", c_int32),
        ("stream", c_void_p),
        ("name", c_char_p),
        ("start_ns", c_int64),
        ("end_ns", c_int64),
        ("bytes", c_uint64),
        ("correlation", c_uint64),
    )


#: The callback that ``HpTracing.start`` gets.
RecordFunction = CFUNCTYPE(None, c_void_p, POINTER(TraceRecordStruct))
#: The function that ``HpStreams.call_host`` gets.
HostFunction = CFUNCTYPE(None, c_void_p)


class Slot:
    """A function pointer of a table: its parameter types, of which the last ``outputs`` receive results."""

    def __init__(self, *types: Any, outputs: int = 0, result: Any = c_int) -> None:
        self.outputs = outputs
        self.prototype = CFUNCTYPE(result, *types)


class Text(Slot):
    """A text field among the slots."""

    def __init__(self) -> None:
        self.outputs = 0
        self.prototype = c_char_p  # type: ignore[assignment]


_PTR, _STREAM, _EVENT, _OUT = c_void_p, c_void_p, c_void_p, POINTER(c_void_p)
_COMMUNICATOR, _GROUP_ID = c_void_p, POINTER(ctypes.c_ubyte)
_PROGRAM, _FUNCTION, _GRID = c_void_p, c_void_p, POINTER(c_uint32)
_GRAPH = c_void_p

#: The required slots, in the order of plugin.h.
REQUIRED = {
    "device_count": Slot(POINTER(c_int), outputs=1),
    "allocate": Slot(c_int, c_size_t, _OUT, outputs=1),
    "free": Slot(c_int, _PTR),
    "copy_to_device": Slot(c_int, _PTR, _PTR, c_size_t, _STREAM),
    "copy_to_host": Slot(c_int, _PTR, _PTR, c_size_t, _STREAM),
    "copy_on_device": Slot(c_int, _PTR, _PTR, c_size_t, _STREAM),
}
#: Extension -> its slots, in the order of plugin.h.
EXTENSIONS: dict[str, dict[str, Slot]] = {
    "streams": {
        "create_stream": Slot(c_int, c_int, _OUT, outputs=1),
        "destroy_stream": Slot(c_int, _STREAM),
        "synchronize_stream": Slot(c_int, _STREAM, c_uint32),
        "query_stream": Slot(c_int, _STREAM),
        "call_host": Slot(c_int, _STREAM, _PTR, _PTR),
    },
    "events": {
        "create_event": Slot(c_int, c_int, _OUT, outputs=1),
        "destroy_event": Slot(c_int, _EVENT),
        "record_event": Slot(c_int, _EVENT, _STREAM),
        "wait_event": Slot(c_int, _EVENT, _STREAM),
        "synchronize_event": Slot(c_int, _EVENT, c_uint32),
        "query_event": Slot(c_int, _EVENT),
        "elapsed": Slot(c_int, _EVENT, _EVENT, POINTER(c_double), outputs=1),
    },
    "info": {
        "properties": Slot(c_int, POINTER(PropertiesStruct)),
        "memory": Slot(c_int, POINTER(c_uint64), POINTER(c_uint64), outputs=2),
    },
    "pinned": {
        "allocate_pinned": Slot(c_size_t, _OUT, outputs=1),
        "free_pinned": Slot(_PTR),
    },
    "peer": {
        "copy_peer": Slot(c_int, _PTR, c_int, _PTR, c_size_t, _STREAM),
        "can_access": Slot(c_int, c_int, POINTER(c_int), outputs=1),
    },
    "compiler": {
        # Returns a pointer: with c_char_p, ctypes would free the text too early.
        "fingerprint": Slot(c_int, result=c_void_p),
        "compile": Slot(c_int, c_char_p, c_char_p, _OUT, POINTER(c_size_t), outputs=2),
        "release_binary": Slot(_PTR, result=None),
        "load": Slot(c_int, _PTR, c_size_t, _OUT, outputs=1),
        "unload": Slot(c_int, _PROGRAM),
        "find": Slot(c_int, _PROGRAM, c_char_p, _OUT, outputs=1),
        "launch": Slot(c_int, _STREAM, _FUNCTION, _GRID, _GRID, POINTER(LaunchArgStruct), c_uint32),
        "binary_kinds": Text(),
        "launch_with": Slot(c_int, _STREAM, _FUNCTION, POINTER(LaunchStruct), POINTER(LaunchArgStruct), c_uint32),
        "attributes": Slot(c_int, _FUNCTION, POINTER(AttributesStruct)),
    },
    "collectives": {
        "group_id": Slot(_GROUP_ID),
        "can_join": Slot(c_int, _GROUP_ID),
        "create_communicator": Slot(c_int, _GROUP_ID, c_int, c_int, c_uint32, _OUT, outputs=1),
        "destroy_communicator": Slot(_COMMUNICATOR),
        "abort_communicator": Slot(_COMMUNICATOR),
        "all_reduce": Slot(_COMMUNICATOR, _PTR, _PTR, c_size_t, c_int, c_int, _STREAM),
        "broadcast": Slot(_COMMUNICATOR, _PTR, c_size_t, c_int, _STREAM),
        "reduce": Slot(_COMMUNICATOR, _PTR, _PTR, c_size_t, c_int, c_int, c_int, _STREAM),
        "all_gather": Slot(_COMMUNICATOR, _PTR, _PTR, c_size_t, _STREAM),
        "reduce_scatter": Slot(_COMMUNICATOR, _PTR, _PTR, c_size_t, c_int, c_int, _STREAM),
        "all_to_all": Slot(_COMMUNICATOR, _PTR, _PTR, c_size_t, _STREAM),
        "send": Slot(_COMMUNICATOR, _PTR, c_size_t, c_int, _STREAM),
        "receive": Slot(_COMMUNICATOR, _PTR, c_size_t, c_int, _STREAM),
        "group_start": Slot(_COMMUNICATOR),
        "group_end": Slot(_COMMUNICATOR),
    },
    "tracing": {
        "start_tracing": Slot(_PTR, _PTR),
        "stop_tracing": Slot(),
    },
    "graphs": {
        "begin_capture": Slot(c_int, _STREAM),
        "end_capture": Slot(c_int, _STREAM, _OUT, outputs=1),
        "launch_graph": Slot(c_int, _GRAPH, _STREAM),
        "destroy_graph": Slot(c_int, _GRAPH),
    },
}
#: Optional slots of ``HpPlugin`` itself.
OPTIONAL = {
    "fill_memory": Slot(c_int, _PTR, c_uint8, c_size_t, _STREAM),
    "shutdown": Slot(_PTR, result=None),
}
_HEADS = {"compiler": (("dialect", c_char_p), ("group_size", c_uint32), ("local_memory", c_uint32))}


def _table(slots: dict[str, Slot], head: tuple[tuple[str, Any], ...], tail: tuple[tuple[str, Any], ...] = ()) -> Any:
    fields = (("struct_size", c_size_t), *head, *((name, slot.prototype) for name, slot in slots.items()), *tail)
    return type("Table", (Structure,), {"_fields_": fields})


#: Extension -> its struct.
EXTENSION_TABLES = {name: _table(slots, _HEADS.get(name, ())) for name, slots in EXTENSIONS.items()}
#: ``HpPlugin``.
PluginTable = _table(
    REQUIRED,
    (("abi_major", c_uint32), ("abi_minor", c_uint32), ("name", c_char_p)),
    (
        *((name, c_void_p) for name in ("streams", "events", "info", "pinned", "peer", "interprocess")),
        ("compiler", c_void_p),
        ("kernels", c_void_p),
        ("num_kernels", c_size_t),
        ("collectives", c_void_p),
        ("tracing", c_void_p),
        ("fill_memory", OPTIONAL["fill_memory"].prototype),
        ("context", c_void_p),
        ("shutdown", OPTIONAL["shutdown"].prototype),
        ("private_function", c_void_p),
        ("graphs", c_void_p),
    ),
)
