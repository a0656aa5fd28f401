"""The C table of a plug-in written in Python: converts arguments, results and exceptions of its methods."""

from __future__ import annotations

import ctypes
import operator
import traceback
from collections.abc import Callable, Collection, Sequence
from ctypes import CFUNCTYPE, POINTER, c_int, c_void_p
from typing import TYPE_CHECKING, Any, cast

from hardpoint import _plugin_tables as tables
from hardpoint._plugin_tables import GROUP_ID_BYTES
from hardpoint._runtime import PluginError, core
from hardpoint.plugin import (
    Collectives,
    Compiler,
    DeviceError,
    Element,
    Events,
    Graphs,
    Info,
    LaunchArg,
    LaunchFlag,
    LaunchOptions,
    Peer,
    Pinned,
    Plugin,
    Status,
    Streams,
    TraceKind,
    Tracing,
)

if TYPE_CHECKING:
    from hardpoint._core import Plugin as LoadedPlugin

#: Extensions with method names that plug-ins may use for other purposes: provided only if this method is.
_ONLY_WITH = {"compiler": "compile", "collectives": "create_communicator"}
_QUERIES = ("query_stream", "query_event")
_DECLARATIONS: Sequence[type] = (Plugin, Streams, Events, Info, Pinned, Peer, Compiler, Collectives, Tracing, Graphs)
#: Tables and callbacks, which the core may use until the process ends.
_immortal: list[object] = []
#: Compiled binaries by address, until the core releases them.
_binaries: dict[int, object] = {}


def load(plugin: Plugin, origin: str) -> LoadedPlugin:
    """Hand a plug-in to the core. ``origin`` names it in messages."""
    try:
        name = plugin.name
    except Exception as error:
        raise PluginError(f"{origin}: name of class {type(plugin).__name__}: {_described(error).decode()}") from error
    if not name:
        raise PluginError(f'{origin}: class {type(plugin).__name__} has no name: set `name = "mychip"`')
    if not isinstance(name, str):
        raise PluginError(f'{origin}: class {type(plugin).__name__} has the name {name!r}: set `name = "mychip"`')

    def init(host: Any, result: Any) -> int:
        try:
            result[0] = ctypes.addressof(fill_table(plugin, host.contents))
        except BaseException as error:
            text = str(error).encode() if isinstance(error, PluginError) else _described(error)
            return int(host.contents.fail(Status.ERROR, b"%s", text))
        return Status.OK

    entry = CFUNCTYPE(c_int, POINTER(tables.Host), POINTER(c_void_p))(init)
    _immortal.append(entry)
    loaded = core.adopt(ctypes.cast(entry, c_void_p).value or 0, origin)
    loaded.python = plugin
    return loaded


def fill_table(plugin: Plugin, host: tables.Host) -> Any:
    """Return the plug-in's C table."""
    plugin._host = host
    functions = Slots(plugin, host.fail)
    table = tables.PluginTable()
    table.struct_size = ctypes.sizeof(table)
    table.abi_major, table.abi_minor = plugin.abi
    table.name = plugin.name.replace("\0", "\\0").encode(errors="backslashreplace")
    for name in provided(plugin, tables.REQUIRED):
        setattr(table, name, functions.callback(name, tables.REQUIRED[name]))
    for name in provided(plugin, tables.OPTIONAL):
        setattr(table, name, functions.callback(name, tables.OPTIONAL[name]))
    for extension, slots in tables.EXTENSIONS.items():
        names = provided(plugin, slots)
        if not names or _ONLY_WITH.get(extension, names[0]) not in names:
            continue
        part = tables.EXTENSION_TABLES[extension]()
        part.struct_size = ctypes.sizeof(part)
        for name in names:
            setattr(part, name, functions.callback(name, slots[name]))
        if extension == "compiler":
            functions.fill_compiler(part)
        _immortal.append(part)
        setattr(table, extension, ctypes.addressof(part))
    _immortal.append(table)
    return table


def _described(error: BaseException) -> bytes:
    """The type and message of an exception. Never fails, whatever the exception is."""
    try:
        text = str(error)
    except BaseException:
        text = "(its text cannot be read)"
    if isinstance(error, MemoryError):
        text = text or "out of memory"
    if not isinstance(error, (DeviceError, MemoryError, NotImplementedError)):
        text = f"{type(error).__name__}: {text}"
    return text.replace("\0", "\\0").encode(errors="backslashreplace")


def _status(error: BaseException) -> int:
    """The status of an exception: never OK, nor what only a query may return."""
    if isinstance(error, MemoryError):
        return Status.OUT_OF_MEMORY
    if isinstance(error, NotImplementedError):
        return Status.NOT_SUPPORTED
    known = (status for status in Status if status not in (Status.OK, Status.NOT_READY))
    return next((s for s in known if isinstance(error, DeviceError) and error.status == s), Status.ERROR)


def _store(method: str, target: Any, value: Any) -> None:
    """Store what a method returned in the C function's parameter, which silently cuts numbers that are too large."""
    kind = target._type_
    value = getattr(value, "value", value)  # of a ctypes object
    try:
        number = float(value) if kind is ctypes.c_double else operator.index(value)
    except (TypeError, ValueError):
        raise TypeError(f"{method} returned {value!r:.80}, which is no number") from None
    target[0] = number
    if kind is not ctypes.c_double and (target[0] or 0) != number:
        raise ValueError(f"{method} returned {number}, which is out of range")


def _asked(plugin: Plugin, method: str, *arguments: Any) -> Any:
    """Call a method. An exception names it."""
    try:
        return getattr(plugin, method)(*arguments)
    except Exception as error:
        raise PluginError(f"{method} failed: {_described(error).decode()}") from error


def _text(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise PluginError(f"{name} is {value!r:.80}, not a text")
    return value.encode(errors="backslashreplace")


def _size(name: str, value: Any) -> int:
    if not hasattr(value, "__index__") or not 0 <= value < 1 << 31:
        raise PluginError(f"{name} is {value!r:.80}, not a number of at least 0")
    return operator.index(value)


def provided(plugin: Plugin, slots: dict[str, tables.Slot]) -> list[str]:
    """Return the names of the slots that the plug-in defines a method for."""

    def is_declaration(name: str) -> bool:
        function = getattr(getattr(plugin, name), "__func__", None)
        return function is not None and any(vars(base).get(name) is function for base in _DECLARATIONS)

    return [name for name in slots if callable(getattr(plugin, name, None)) and not is_declaration(name)]


class Slots:
    """The C functions of a plug-in's methods."""

    def __init__(self, plugin: Plugin, fail: Callable[[int, bytes, bytes], int]) -> None:
        self.plugin = plugin
        self._fail = fail

    def callback(self, name: str, slot: tables.Slot) -> Any:
        """The C function for a method."""
        # _slot_NAME converts arguments where the C function's differ from the method's.
        method = getattr(self, f"_slot_{name}", None) or getattr(self.plugin, name)

        def call(*args: Any) -> int:
            try:
                inputs = args[: len(args) - slot.outputs]
                # ctypes passes a null pointer or handle as None.
                result = method(*(0 if a is None else a for a in inputs))
                if name in _QUERIES:
                    return Status.OK if result is None or result else Status.NOT_READY
                results = (result,) if slot.outputs == 1 else result if slot.outputs else ()
                if slot.outputs > 1 and not (isinstance(results, (tuple, list)) and len(results) == slot.outputs):
                    raise TypeError(f"{name} returned {result!r:.80}, not {slot.outputs} numbers")
                for target, value in zip(args[len(args) - slot.outputs :], results, strict=True):
                    _store(name, target, value)
                return Status.OK
            except BaseException as error:
                return self._fail(_status(error), b"%s", _described(error))

        return slot.prototype(call)

    def _slot_properties(self, device: int, to: Any) -> None:
        found = dict(cast(Info, self.plugin).properties(device))
        known = {field for field, _ in tables.PropertiesStruct._fields_}
        if unknown := found.keys() - known:
            raise ValueError(f"properties has no field {', '.join(sorted(map(repr, unknown)))}")
        if "uuid" in found:
            found["uuid"] = (ctypes.c_uint8 * 16)(*cast(bytes, found["uuid"])[:16])
        elements = cast("Collection[Element]", found.get("native_elements", ()))
        found["native_elements"] = sum(1 << element for element in set(elements))
        for key, value in found.items():
            size = getattr(tables.PropertiesStruct, key).size
            setattr(to.contents, key, value.encode()[: size - 1] if isinstance(value, str) else value)

    def _slot_call_host(self, device: int, stream: int, function: int, data: int) -> None:
        call = tables.HostFunction(function)
        cast(Streams, self.plugin).call_host(device, stream, lambda: call(data))

    def _slot_start_tracing(self, function: int, context: int) -> None:
        deliver = tables.RecordFunction(function)

        def record(
            kind: TraceKind,
            device: int,
            stream: int,
            start_ns: int,
            end_ns: int,
            *,
            correlation: int = 0,
            name: str | None = None,
            bytes: int = 0,
        ) -> None:
            text = None if name is None else name.encode()
            size = ctypes.sizeof(tables.TraceRecordStruct)
            fields = (size, kind, device, stream, text, start_ns, end_ns, bytes, correlation)
            deliver(context, ctypes.byref(tables.TraceRecordStruct(*fields)))

        cast(Tracing, self.plugin).start_tracing(record)

    def _slot_shutdown(self, context: int) -> None:
        try:
            self.plugin.shutdown()
        except Exception:
            traceback.print_exc()

    def _slot_compile(self, device: int, source: bytes, options: bytes) -> tuple[int, int]:
        binary = cast(Compiler, self.plugin).compile(device, source.decode(), (options or b"").decode())
        if not isinstance(binary, (bytes, bytearray)):
            raise TypeError(f"compile returned {type(binary).__name__}, not bytes")
        buffer = ctypes.create_string_buffer(binary, len(binary))
        _binaries[ctypes.addressof(buffer)] = buffer
        return ctypes.addressof(buffer), len(binary)

    def _slot_load(self, device: int, binary: int, size: int) -> int:
        return cast(Compiler, self.plugin).load(device, ctypes.string_at(binary, size))

    def _slot_find(self, device: int, program: int, name: bytes) -> int:
        return cast(Compiler, self.plugin).find(device, program, name.decode())

    def _slot_launch_with(self, device: int, stream: int, function: int, launch: Any, args: Any, n: int) -> None:
        given = [LaunchArg(arg.value, arg.bytes, bool(arg.is_pointer)) for arg in args[:n]]
        found = launch.contents
        triples = [tuple(field) for field in (found.groups, found.group_size, found.cluster)]
        options = LaunchOptions(triples[0], triples[1], found.local_bytes, triples[2], LaunchFlag(found.flags))
        cast(Compiler, self.plugin).launch_with(device, stream, function, options, given)

    def _slot_attributes(self, device: int, function: int, to: Any) -> None:
        for key, value in cast(Compiler, self.plugin).attributes(device, function).items():
            setattr(to.contents, key, value)

    def _slot_launch(self, device: int, stream: int, function: int, groups: Any, size: Any, args: Any, n: int) -> None:
        given = [LaunchArg(arg.value, arg.bytes, bool(arg.is_pointer)) for arg in args[:n]]
        cast(Compiler, self.plugin).launch(device, stream, function, tuple(groups[:3]), tuple(size[:3]), given)

    def _slot_group_id(self, to: Any) -> None:
        group = cast(Collectives, self.plugin).group_id()
        if len(group) > GROUP_ID_BYTES:
            raise ValueError(f"a group id has at most {GROUP_ID_BYTES} bytes, not {len(group)}")
        ctypes.memmove(to, group.ljust(GROUP_ID_BYTES, b"\0"), GROUP_ID_BYTES)

    def _slot_can_join(self, device: int, group: Any) -> None:
        if not cast(Collectives, self.plugin).can_join(device, ctypes.string_at(group, GROUP_ID_BYTES)):
            raise NotImplementedError("the group is out of reach")

    def _slot_create_communicator(self, device: int, group: Any, rank: int, size: int, timeout_ms: int) -> int:
        group = ctypes.string_at(group, GROUP_ID_BYTES)
        return cast(Collectives, self.plugin).create_communicator(device, group, rank, size, timeout_ms)

    def fill_compiler(self, table: Any) -> None:
        """Fill the fields of the compiler's table that are not slots, and the two slots that return no status."""
        plugin = self.plugin
        table.dialect = _text("dialect", plugin.dialect)
        table.group_size = _size("group_size", plugin.group_size)
        table.local_memory = _size("local_memory", plugin.local_memory)
        table.binary_kinds = _text("binary_kinds", plugin.binary_kinds) or None
        # Computed here, since a failure inside the slot could not be reported.
        texts = []
        for index in range(_size("device_count", _asked(plugin, "device_count"))):
            fingerprint = _asked(plugin, "fingerprint", index)
            texts.append(ctypes.create_string_buffer(_text("fingerprint", fingerprint)))
        slots = tables.EXTENSIONS["compiler"]
        table.fingerprint = slots["fingerprint"].prototype(lambda device: ctypes.addressof(texts[device]))

        def release(address: int) -> None:
            _binaries.pop(address, None)

        table.release_binary = slots["release_binary"].prototype(release)
