"""A plug-in written in Python: derive from :class:`Plugin`, no compiler needed.

The class is turned into the C table of ``hardpoint/plugin.h``, so that everything else in Hardpoint sees no difference.
Methods take and give plain integers for addresses and handles; an exception becomes a status code with its message.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, ClassVar, NamedTuple

from hardpoint._runtime import ABI, PluginError, core

ALIGNMENT = 64
GROUP_ID_BYTES = 128


class Status(enum.IntEnum):
    """The status codes of the contract."""

    OK = 0
    ERROR = 1
    INVALID_ARGUMENT = 2
    OUT_OF_MEMORY = 3
    NOT_SUPPORTED = 4
    NOT_READY = 5
    TIMEOUT = 6
    DEVICE_LOST = 7


class Element(enum.IntEnum):
    """What the numbers of a reduction between processes are."""

    UINT8 = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    FLOAT16 = 5
    BFLOAT16 = 6
    FLOAT32 = 7
    FLOAT64 = 8


class Reduction(enum.IntEnum):
    """How they are combined."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3
    MEAN = 4


class DeviceError(RuntimeError):
    """Raise it from a plug-in's method to return a status of your choice."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Host(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("abi_major", c_uint32),
        ("abi_minor", c_uint32),
        ("log", CFUNCTYPE(None, c_int, c_char_p)),
        ("fail", CFUNCTYPE(c_int, c_int, c_char_p, c_char_p)),
        ("raise", c_void_p),
        ("operator_name", CFUNCTYPE(c_char_p)),
        ("current_stream", CFUNCTYPE(c_void_p, c_int)),
    )


class _Properties(Structure):
    _fields_ = (
        ("struct_size", c_size_t),
        ("name", ctypes.c_char * 128),
        ("total_memory", c_uint64),
        ("compute_units", ctypes.c_int32),
        ("version_major", ctypes.c_int32),
        ("version_minor", ctypes.c_int32),
    )


class _LaunchArg(Structure):
    _fields_ = (("value", c_void_p), ("bytes", c_uint32), ("is_pointer", c_uint32))


class LaunchArg(NamedTuple):
    """One argument of a portable kernel. Its address is valid until ``launch`` returns."""

    address: int  #: of the device pointer, or of the value
    bytes: int
    is_pointer: bool


class _In:
    """Types of a slot's parameters; the last `outputs` of them are pointers that the method's results are stored to."""

    def __init__(self, *types: Any, outputs: int = 0, result: Any = c_int) -> None:
        self.types = types
        self.outputs = outputs
        self.prototype = CFUNCTYPE(result, *types)


_PTR, _STREAM, _EVENT, _OUT = c_void_p, c_void_p, c_void_p, POINTER(c_void_p)
_COMMUNICATOR, _GROUP_ID = c_void_p, POINTER(ctypes.c_ubyte)
_PROGRAM, _FUNCTION, _GRID = c_void_p, c_void_p, POINTER(c_uint32)

#: Slot by slot, in the order of plugin.h. tests/test_python_plugin.py compares the layout with the compiled header.
_REQUIRED = {
    "device_count": _In(POINTER(c_int), outputs=1),
    "allocate": _In(c_int, c_size_t, _OUT, outputs=1),
    "free": _In(c_int, _PTR),
    "copy_to_device": _In(c_int, _PTR, _PTR, c_size_t, _STREAM),
    "copy_to_host": _In(c_int, _PTR, _PTR, c_size_t, _STREAM),
    "copy_on_device": _In(c_int, _PTR, _PTR, c_size_t, _STREAM),
}
_EXTENSIONS: dict[str, dict[str, _In]] = {
    "streams": {
        "create_stream": _In(c_int, c_int, _OUT, outputs=1),
        "destroy_stream": _In(c_int, _STREAM),
        "synchronize_stream": _In(c_int, _STREAM, c_uint32),
        "query_stream": _In(c_int, _STREAM),
    },
    "events": {
        "create_event": _In(c_int, c_int, _OUT, outputs=1),
        "destroy_event": _In(c_int, _EVENT),
        "record_event": _In(c_int, _EVENT, _STREAM),
        "wait_event": _In(c_int, _EVENT, _STREAM),
        "synchronize_event": _In(c_int, _EVENT, c_uint32),
        "query_event": _In(c_int, _EVENT),
        "elapsed": _In(c_int, _EVENT, _EVENT, POINTER(c_double), outputs=1),
    },
    "info": {
        "properties": _In(c_int, POINTER(_Properties)),
        "memory": _In(c_int, POINTER(c_uint64), POINTER(c_uint64), outputs=2),
    },
    "pinned": {
        "allocate_pinned": _In(c_size_t, _OUT, outputs=1),
        "free_pinned": _In(_PTR),
    },
    "peer": {
        "copy_peer": _In(c_int, _PTR, c_int, _PTR, c_size_t, _STREAM),
    },
    "compiler": {
        # A pointer, since ctypes would not keep the text alive.
        "fingerprint": _In(c_int, result=c_void_p),
        "compile": _In(c_int, c_char_p, c_char_p, _OUT, POINTER(c_size_t), outputs=2),
        "release_binary": _In(_PTR, result=None),
        "load": _In(c_int, _PTR, c_size_t, _OUT, outputs=1),
        "unload": _In(c_int, _PROGRAM),
        "find": _In(c_int, _PROGRAM, c_char_p, _OUT, outputs=1),
        "launch": _In(c_int, _STREAM, _FUNCTION, _GRID, _GRID, POINTER(_LaunchArg), c_uint32),
    },
    "collectives": {
        "group_id": _In(_GROUP_ID),
        "can_join": _In(c_int, _GROUP_ID),
        "create_communicator": _In(c_int, _GROUP_ID, c_int, c_int, c_uint32, _OUT, outputs=1),
        "destroy_communicator": _In(_COMMUNICATOR),
        "abort_communicator": _In(_COMMUNICATOR),
        "all_reduce": _In(_COMMUNICATOR, _PTR, _PTR, c_size_t, c_int, c_int, _STREAM),
        "broadcast": _In(_COMMUNICATOR, _PTR, c_size_t, c_int, _STREAM),
        "reduce": _In(_COMMUNICATOR, _PTR, _PTR, c_size_t, c_int, c_int, c_int, _STREAM),
        "all_gather": _In(_COMMUNICATOR, _PTR, _PTR, c_size_t, _STREAM),
        "reduce_scatter": _In(_COMMUNICATOR, _PTR, _PTR, c_size_t, c_int, c_int, _STREAM),
        "all_to_all": _In(_COMMUNICATOR, _PTR, _PTR, c_size_t, _STREAM),
        "send": _In(_COMMUNICATOR, _PTR, c_size_t, c_int, _STREAM),
        "receive": _In(_COMMUNICATOR, _PTR, c_size_t, c_int, _STREAM),
        "group_start": _In(_COMMUNICATOR),
        "group_end": _In(_COMMUNICATOR),
    },
}
#: Extensions whose other methods have names that a plug-in may well use for helpers of its own: only with this one.
_ONLY_WITH = {"compiler": "compile", "collectives": "create_communicator"}
_HEADS = {"compiler": (("dialect", c_char_p), ("group_size", c_uint32), ("local_memory", c_uint32))}
_QUERIES = ("query_stream", "query_event")


def _table(slots: dict[str, _In], head: tuple[tuple[str, Any], ...], tail: tuple[tuple[str, Any], ...] = ()) -> Any:
    fields = (("struct_size", c_size_t), *head, *((name, slot.prototype) for name, slot in slots.items()), *tail)
    return type("Table", (Structure,), {"_fields_": fields})


_EXTENSION_TABLES = {name: _table(slots, _HEADS.get(name, ())) for name, slots in _EXTENSIONS.items()}
_PluginTable = _table(
    _REQUIRED,
    (("abi_major", c_uint32), ("abi_minor", c_uint32), ("name", c_char_p)),
    (
        *((name, c_void_p) for name in ("streams", "events", "info", "pinned", "peer", "interprocess")),
        ("compiler", c_void_p),
        ("kernels", c_void_p),
        ("num_kernels", c_size_t),
        ("collectives", c_void_p),
    ),
)


def kernel(name: str, *, strided: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a method as the kernel of a standard operator: outputs first, then inputs, then attributes."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        function._hardpoint_kernel = (name, strided)  # type: ignore[attr-defined]
        return function

    return mark


class Plugin:
    """Base class of a Python plug-in.

    Required: ``name``, and the methods ``device_count() -> int``, ``allocate(device, bytes) -> address``,
    ``free(device, address)``, ``copy_to_device``, ``copy_to_host`` and ``copy_on_device``, each
    ``(device, dst, src, bytes, stream)``. Optional: the methods of an extension, all of the ones it requires; they are
    named in docs/abi.md. Kernels are methods marked with :func:`kernel`. With ``compile``, ``load``, ``unload``,
    ``find``, ``launch`` and ``fingerprint`` the device runs Hardpoint's portable kernels. With ``group_id``,
    ``create_communicator`` and ``destroy_communicator`` its processes talk to each other by the collectives it has.
    """

    name: ClassVar[str] = ""
    #: Declared so that a plug-in, or a test, can pretend to be built for another ABI.
    abi: ClassVar[tuple[int, int]] = ABI
    #: Of a plug-in that compiles: the language it is given, the work-items in a group and the bytes that they share.
    dialect: ClassVar[str] = "c"
    group_size: ClassVar[int] = 1
    local_memory: ClassVar[int] = 32 << 10
    #: Plug-ins live until the process ends, and so must their callbacks.
    _alive: ClassVar[list[Any]] = []

    _host: _Host

    def current_stream(self, device: int) -> int:
        """The stream that a kernel queues its work on, as ``create_stream`` returned it; 0 for the default stream."""
        return self._host.current_stream(device) or 0

    def properties(self, device: int) -> dict[str, Any]:
        """``name``, ``total_memory``, ``compute_units``, ``version_major``, ``version_minor``; 0 if missing."""
        return {"name": f"{self.name}:{device}"}

    def _callback(self, name: str, slot: _In, fail: Callable[[int, bytes, bytes], int]) -> Any:
        # Where the C function's parameters are not those of the method, one of the functions below is between.
        method = getattr(self, f"_slot_{name}", None) or getattr(self, name)

        def call(*args: Any) -> int:
            try:
                inputs = args[: len(args) - slot.outputs]
                # ctypes gives None for a null pointer or handle; plug-ins see 0.
                result = method(*(0 if a is None else a for a in inputs))
                if name in _QUERIES:
                    return Status.OK if result is None or result else Status.NOT_READY
                results = result if slot.outputs > 1 else (result,)
                for target, value in zip(args[len(args) - slot.outputs :], results, strict=False):
                    target[0] = value
                return Status.OK
            except DeviceError as error:
                return fail(error.status, b"%s", str(error).encode())
            except MemoryError as error:
                return fail(Status.OUT_OF_MEMORY, b"%s", (str(error) or "out of memory").encode())
            except NotImplementedError as error:
                return fail(Status.NOT_SUPPORTED, b"%s", str(error).encode())
            except BaseException as error:
                return fail(Status.ERROR, b"%s", f"{type(error).__name__}: {error}".encode())

        return slot.prototype(call)

    def _slot_properties(self, device: int, to: Any) -> None:
        for key, value in self.properties(device).items():
            setattr(to.contents, key, value.encode()[:127] if key == "name" else value)

    def _slot_compile(self, device: int, source: bytes, options: bytes) -> tuple[int, int]:
        binary = self.compile(device, source.decode(), (options or b"").decode())  # type: ignore[attr-defined]
        kept = ctypes.create_string_buffer(binary, len(binary))
        self._binaries[ctypes.addressof(kept)] = kept
        return ctypes.addressof(kept), len(binary)

    def _slot_load(self, device: int, binary: int, size: int) -> Any:
        return self.load(device, ctypes.string_at(binary, size))  # type: ignore[attr-defined]

    def _slot_find(self, device: int, program: int, name: bytes) -> Any:
        return self.find(device, program, name.decode())  # type: ignore[attr-defined]

    def _slot_launch(self, device: int, stream: int, function: int, groups: Any, size: Any, args: Any, n: int) -> None:
        given = [LaunchArg(arg.value, arg.bytes, bool(arg.is_pointer)) for arg in args[:n]]
        self.launch(device, stream, function, tuple(groups[:3]), tuple(size[:3]), given)  # type: ignore[attr-defined]

    def _slot_group_id(self, to: Any) -> None:
        identity = self.group_id()  # type: ignore[attr-defined]
        if len(identity) > GROUP_ID_BYTES:
            raise ValueError(f"a group id has at most {GROUP_ID_BYTES} bytes, not {len(identity)}")
        ctypes.memmove(to, identity.ljust(GROUP_ID_BYTES, b"\0"), GROUP_ID_BYTES)

    def _slot_can_join(self, device: int, group: Any) -> None:
        if not self.can_join(device, ctypes.string_at(group, GROUP_ID_BYTES)):  # type: ignore[attr-defined]
            raise NotImplementedError("the group is out of reach")

    def _slot_create_communicator(self, device: int, group: Any, rank: int, size: int, timeout_ms: int) -> Any:
        identity = ctypes.string_at(group, GROUP_ID_BYTES)
        return self.create_communicator(device, identity, rank, size, timeout_ms)  # type: ignore[attr-defined]

    def _fill_rest_of_compiler(self, part: Any) -> None:
        """Texts, sizes, and the two slots that return no status: nothing in these may fail when they are called."""
        part.dialect, part.group_size, part.local_memory = self.dialect.encode(), self.group_size, self.local_memory
        count = self.device_count()  # type: ignore[attr-defined]
        texts = [
            ctypes.create_string_buffer(self.fingerprint(index).encode())  # type: ignore[attr-defined]
            for index in range(count)
        ]
        slots = _EXTENSIONS["compiler"]
        part.fingerprint = slots["fingerprint"].prototype(lambda device: ctypes.addressof(texts[device]))
        self._binaries: dict[int, Any] = {}

        def release(address: int) -> None:
            self._binaries.pop(address, None)

        part.release_binary = slots["release_binary"].prototype(release)

    def _provided(self, slots: dict[str, _In]) -> list[str]:
        def own(name: str) -> bool:
            inherited = getattr(type(self), name, None) is getattr(Plugin, name, ())
            return callable(getattr(self, name, None)) and not inherited

        return [name for name in slots if own(name)]

    def _fill(self, host: _Host) -> Any:
        self._host = host
        fail = host.fail
        table = _PluginTable()
        table.struct_size = ctypes.sizeof(table)
        table.abi_major, table.abi_minor = self.abi
        table.name = self.name.encode()
        for name in self._provided(_REQUIRED):
            setattr(table, name, self._callback(name, _REQUIRED[name], fail))
        for extension, slots in _EXTENSIONS.items():
            provided = self._provided(slots)
            if not provided or _ONLY_WITH.get(extension, provided[0]) not in provided:
                continue
            part = _EXTENSION_TABLES[extension]()
            part.struct_size = ctypes.sizeof(part)
            for name in provided:
                setattr(part, name, self._callback(name, slots[name], fail))
            if extension == "compiler":
                self._fill_rest_of_compiler(part)
            self._alive.append(part)
            setattr(table, extension, ctypes.addressof(part))
        self._alive.append(table)
        return table

    def _adopt(self, origin: str) -> Any:
        """The core's plug-in object for this instance."""
        if not self.name:
            raise PluginError(f'{origin}: class {type(self).__name__} has no name: set `name = "mychip"`')

        def init(host: Any, result: Any) -> int:
            try:
                result[0] = ctypes.addressof(self._fill(host.contents))
            except Exception as error:
                return int(host.contents.fail(Status.ERROR, b"%s", f"{type(error).__name__}: {error}".encode()))
            return Status.OK

        entry = CFUNCTYPE(c_int, POINTER(_Host), POINTER(c_void_p))(init)
        self._alive.append(entry)
        plugin = core.adopt(ctypes.cast(entry, c_void_p).value or 0, origin)
        plugin.python = self
        return plugin

    def _kernels(self) -> list[tuple[str, Callable[..., Any], bool]]:
        """Kernel name, the bound method, and whether it takes any strides."""
        found = []
        for attribute in dir(type(self)):
            function = getattr(type(self), attribute)
            if hasattr(function, "_hardpoint_kernel"):
                name, strided = function._hardpoint_kernel
                found.append((name, getattr(self, attribute), strided))
        return found
