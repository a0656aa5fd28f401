"""Plug-ins written in Python: derive from :class:`Plugin`, no compiler needed.

The class becomes the C table of ``hardpoint/plugin.h``. Addresses and handles are plain integers, and 0 is the default
stream. An exception becomes a status code with its message: ``MemoryError`` means out of memory,
``NotImplementedError`` not supported, :class:`DeviceError` the status it carries.

A minimal plug-in has a name and the six methods that :class:`Plugin` requires. Everything else is optional and comes
in extensions. To add one, define its methods; deriving from its class as well lets a type checker verify their
signatures::

    class MyChip(Plugin, Streams, Events):
        name = "mychip"
"""

# The methods of extensions are declarations without a body.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypedDict

from hardpoint import _plugin_tables as tables
from hardpoint._plugin_tables import ALIGNMENT, GROUP_ID_BYTES
from hardpoint._runtime import ABI, PluginError
from hardpoint.kernels import Kernel, kernel

if TYPE_CHECKING:
    pass

__all__ = [
    "ALIGNMENT",
    "GROUP_ID_BYTES",
    "Collectives",
    "Compiler",
    "DeviceError",
    "DeviceProperties",
    "Element",
    "Events",
    "FunctionAttributes",
    "Graphs",
    "Info",
    "LaunchArg",
    "LaunchFlag",
    "LaunchOptions",
    "Peer",
    "Pinned",
    "Plugin",
    "PluginError",
    "Reduction",
    "Status",
    "Streams",
    "TraceKind",
    "Tracing",
    "kernel",
]


class Status(enum.IntEnum):
    """Status codes of the plug-in contract."""

    OK = 0
    ERROR = 1
    INVALID_ARGUMENT = 2
    OUT_OF_MEMORY = 3
    NOT_SUPPORTED = 4
    NOT_READY = 5
    TIMEOUT = 6
    DEVICE_LOST = 7


class Element(enum.IntEnum):
    """Element types of a reduction between processes."""

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
    """Reduction operations between processes."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3
    MEAN = 4


class TraceKind(enum.IntEnum):
    """The kind of work in a record of :class:`Tracing`."""

    KERNEL = 0
    COPY = 1
    FILL = 2
    COLLECTIVE = 3


class LaunchFlag(enum.IntFlag):
    """Flags of :class:`LaunchOptions`."""

    COOPERATIVE = 1
    OVERLAP = 2


class DeviceError(RuntimeError):
    """An error with a status code. Raise it in a plug-in's method."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


class DeviceProperties(TypedDict, total=False):
    """Result of :meth:`Info.properties`. Missing entries are unknown."""

    name: str
    total_memory: int
    compute_units: int
    version_major: int
    version_minor: int
    uuid: bytes
    pci_id: str
    max_allocation: int
    native_elements: Collection[Element]
    cache_bytes: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int
    simd_width: int
    group_size: int
    max_group_size: int
    local_memory: int
    max_local_memory: int
    unit_registers: int


class FunctionAttributes(TypedDict, total=False):
    """Result of :meth:`Compiler.attributes`. Missing entries are unknown."""

    registers: int
    spilled_bytes: int
    local_bytes: int
    max_group_size: int


class LaunchArg(NamedTuple):
    """One argument of a portable kernel.

    Attributes:
        address: Address of the device pointer or of the value, valid until ``launch`` returns.
        bytes: Size of the value.
        is_pointer: Whether the value is a device pointer.
    """

    address: int
    bytes: int
    is_pointer: bool


class LaunchOptions(NamedTuple):
    """How to launch a function.

    Attributes:
        groups: Number of work-groups.
        group_size: Work-items of a group.
        local_bytes: Dynamic local memory per group.
        cluster: Groups that share local memory; all 0 without clusters.
        flags: See :class:`LaunchFlag`.
    """

    groups: tuple[int, int, int]
    group_size: tuple[int, int, int]
    local_bytes: int
    cluster: tuple[int, int, int]
    flags: LaunchFlag


class Streams:
    """Extension: streams. Without it every call is synchronous and each device has one stream."""

    def create_stream(self, device: int, priority: int, /) -> int:
        """Return a new stream. A negative ``priority`` is more urgent."""

    def destroy_stream(self, device: int, stream: int, /) -> None:
        """Destroy a stream."""

    def synchronize_stream(self, device: int, stream: int, timeout_ms: int, /) -> None:
        """Wait for the queued work, and raise its first failure. ``timeout_ms`` 0 waits without a limit."""

    def query_stream(self, device: int, stream: int, /) -> bool:
        """Return whether all queued work is done. Optional: defaults to ``synchronize_stream``."""

    def call_host(self, device: int, stream: int, function: Callable[[], None], /) -> None:
        """Call ``function`` on any thread once the queued work is done. Optional: defaults to synchronizing."""


class Events:
    """Extension: events. Without it Hardpoint synchronizes streams instead."""

    def create_event(self, device: int, with_timing: int, /) -> int:
        """Return a new event."""

    def destroy_event(self, device: int, event: int, /) -> None:
        """Destroy an event."""

    def record_event(self, device: int, event: int, stream: int, /) -> None:
        """Record the event on a stream. Waits refer to the latest record."""

    def wait_event(self, device: int, event: int, stream: int, /) -> None:
        """Make later work on the stream wait for the event, which may belong to another device."""

    def synchronize_event(self, device: int, event: int, timeout_ms: int, /) -> None:
        """Wait for the event. ``timeout_ms`` 0 waits without a limit."""

    def query_event(self, device: int, event: int, /) -> bool:
        """Return whether the event is done. An event that was never recorded is done."""

    def elapsed(self, device: int, start: int, end: int, /) -> float:
        """Return the milliseconds between two events made with timing. Optional."""


class Info:
    """Extension: properties and memory figures. Without it the device has the plug-in's name and reports 0 bytes."""

    def properties(self, device: int, /) -> DeviceProperties:
        """Return the device's properties. Optional."""

    def memory(self, device: int, /) -> tuple[int, int]:
        """Return free and total memory in bytes. Optional."""


class Pinned:
    """Extension: page-locked host memory. Without it host memory is pageable and its copies are synchronous."""

    def allocate_pinned(self, size: int, /) -> int:
        """Return the address of ``size`` bytes of page-locked host memory."""

    def free_pinned(self, address: int, /) -> None:
        """Free page-locked host memory."""


class Peer:
    """Extension: copies between two devices of the plug-in. Without it they go through the host."""

    def copy_peer(self, dst_device: int, dst: int, src_device: int, src: int, size: int, stream: int, /) -> None:
        """Copy ``size`` bytes, queued on a stream of ``src_device``."""

    def can_access(self, dst_device: int, src_device: int, /) -> bool:
        """Return whether two devices have a direct link. Optional: defaults to yes."""


class Compiler:
    """Extension: runs Hardpoint's portable kernels. Without it only the plug-in's kernels run on the device.

    Attributes:
        dialect: Language of the source: ``c``, ``opencl`` or ``cuda``.
        group_size: Work-items per work-group that suit the device.
        local_memory: Bytes of memory shared by a work-group.
        binary_kinds: Kinds of binaries that ``load`` takes besides results of ``compile``, such as ``cubin ptx``.
    """

    dialect: ClassVar[str]
    group_size: ClassVar[int]
    local_memory: ClassVar[int]
    binary_kinds: ClassVar[str]

    def fingerprint(self, device: int, /) -> str:
        """Name the compiler and the kind of device. Compiled kernels are cached under this name."""

    def compile(self, device: int, source: str, options: str, /) -> bytes:
        """Compile a source and return the binary."""

    def load(self, device: int, binary: bytes, /) -> int:
        """Load a binary and return a handle of the program."""

    def unload(self, device: int, program: int, /) -> None:
        """Unload a program."""

    def find(self, device: int, program: int, name: str, /) -> int:
        """Return a handle of the program's function ``name``, valid until the program is unloaded."""

    def launch(
        self,
        device: int,
        stream: int,
        function: int,
        groups: tuple[int, int, int],
        group_size: tuple[int, int, int],
        args: list[LaunchArg],
        /,
    ) -> None:
        """Queue ``groups`` work-groups of ``group_size`` work-items on a stream."""

    def launch_with(
        self, device: int, stream: int, function: int, options: LaunchOptions, args: list[LaunchArg], /
    ) -> None:
        """Queue a launch with options. Optional: defaults to ``launch``, which takes no other options."""

    def attributes(self, device: int, function: int, /) -> FunctionAttributes:
        """Return properties of a compiled function. Optional."""


class Collectives:
    """Extension: collectives between processes, one device each. Without it they are staged through the host.

    Only ``group_id``, ``create_communicator`` and ``destroy_communicator`` are required. Work is queued on the stream.
    Raise ``NotImplementedError`` before anything is queued, and for the same arguments in every process, to have the
    call staged through the host. ``size`` is in bytes and ``count`` in elements.
    """

    def group_id(self) -> bytes:
        """Return an identifier of a new group, of at most ``GROUP_ID_BYTES`` bytes."""

    def can_join(self, device: int, group: bytes, /) -> bool:
        """Return whether this process can reach the group."""

    def create_communicator(self, device: int, group: bytes, rank: int, size: int, timeout_ms: int, /) -> int:
        """Join the group as process ``rank`` of ``size``, and return a communicator.

        ``timeout_ms`` limits this wait and those of later calls; 0 waits without a limit.
        """

    def destroy_communicator(self, communicator: int, /) -> None:
        """Destroy a communicator that has no queued work."""

    def abort_communicator(self, communicator: int, /) -> None:
        """Fail the queued work in every process of the group. Called from any thread."""

    def all_reduce(
        self, communicator: int, dst: int, src: int, count: int, element: int, reduction: int, stream: int, /
    ) -> None:
        """Reduce ``src`` over all processes into every ``dst``."""

    def broadcast(self, communicator: int, data: int, size: int, root: int, stream: int, /) -> None:
        """Copy the ``data`` of process ``root`` to all processes."""

    def reduce(
        self, communicator: int, dst: int, src: int, count: int, element: int, reduction: int, root: int, stream: int, /
    ) -> None:
        """Reduce ``src`` over all processes into the ``dst`` of process ``root``."""

    def all_gather(self, communicator: int, dst: int, src: int, size: int, stream: int, /) -> None:
        """Concatenate the ``src`` of all processes, each of ``size`` bytes, in every ``dst``."""

    def reduce_scatter(
        self, communicator: int, dst: int, src: int, count: int, element: int, reduction: int, stream: int, /
    ) -> None:
        """Reduce ``src`` over all processes, and store chunk ``rank`` of ``count`` elements in ``dst``."""

    def all_to_all(self, communicator: int, dst: int, src: int, size: int, stream: int, /) -> None:
        """Send chunk i of ``src`` to process i, and store the chunk of process i as chunk i of ``dst``."""

    def send(self, communicator: int, src: int, size: int, peer: int, stream: int, /) -> None:
        """Send ``src`` to process ``peer``."""

    def receive(self, communicator: int, dst: int, size: int, peer: int, stream: int, /) -> None:
        """Receive ``dst`` from process ``peer``."""

    def group_start(self, communicator: int, /) -> None:
        """Start to collect this thread's calls."""

    def group_end(self, communicator: int, /) -> None:
        """Queue the collected calls, to run at the same time."""


class Record(Protocol):
    """Receives the records of a trace. See ``HpTraceRecord``."""

    def __call__(
        self,
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
        """Take one record. Times are ``time.time_ns()``."""


class Tracing:
    """Extension: reports what the devices did, and when. Without it, Hardpoint times launches itself.

    Store ``self.correlation()`` with queued work, and pass it on with the work's record.
    """

    def start_tracing(self, record: Record, /) -> None:
        """Call ``record`` for all work from now on, from any thread, until ``stop_tracing`` returns."""

    def stop_tracing(self) -> None:
        """Deliver the remaining records."""


class Graphs:
    """Extension: graphs. Without it, recorded launches are replayed one by one.

    Between ``begin_capture`` and ``end_capture``, store work that is queued on the stream instead of running it:
    kernels, copies on the device and fills.
    """

    def begin_capture(self, device: int, stream: int, /) -> None:
        """Start to store the work that is queued on a stream."""

    def end_capture(self, device: int, stream: int, /) -> int:
        """End the capture, and return a handle of the captured graph."""

    def launch_graph(self, device: int, graph: int, stream: int, /) -> None:
        """Queue the captured work on a stream."""

    def destroy_graph(self, device: int, graph: int, /) -> None:
        """Destroy a graph. No launch of it is queued."""


class Plugin:
    """Base class of a plug-in written in Python.

    Set ``name`` and define the six methods below. Kernels are methods with the decorator
    :func:`hardpoint.kernel`. The methods of extensions are those of :class:`Streams`, :class:`Events`, :class:`Info`,
    :class:`Pinned`, :class:`Peer`, :class:`Compiler`, :class:`Collectives`, :class:`Tracing` and :class:`Graphs`. Two
    more are optional: ``fill_memory`` and ``shutdown``.

    Attributes:
        name: Device name in the frameworks, as in ``torch.device("mychip:0")``.
        abi: Version of the plug-in contract.
    """

    name: ClassVar[str] = ""
    abi: ClassVar[tuple[int, int]] = ABI
    dialect: ClassVar[str] = "c"
    group_size: ClassVar[int] = 1
    local_memory: ClassVar[int] = 32 << 10
    binary_kinds: ClassVar[str] = ""

    _host: tables.Host
    _registered: list[Kernel[..., object]]

    def device_count(self) -> int:
        """Return the number of devices."""
        raise NotImplementedError

    def allocate(self, device: int, size: int, /) -> int:
        """Return the address of ``size`` bytes of device memory, aligned to ``ALIGNMENT``."""
        raise NotImplementedError

    def free(self, device: int, address: int, /) -> None:
        """Free device memory that no queued work uses."""
        raise NotImplementedError

    def copy_to_device(self, device: int, dst: int, src: int, size: int, stream: int, /) -> None:
        """Copy ``size`` bytes from the host to the device, queued on a stream."""
        raise NotImplementedError

    def copy_to_host(self, device: int, dst: int, src: int, size: int, stream: int, /) -> None:
        """Copy ``size`` bytes from the device to the host, queued on a stream."""
        raise NotImplementedError

    def copy_on_device(self, device: int, dst: int, src: int, size: int, stream: int, /) -> None:
        """Copy ``size`` bytes within the device, queued on a stream."""
        raise NotImplementedError

    def fill_memory(self, device: int, dst: int, value: int, size: int, stream: int, /) -> None:
        """Set ``size`` bytes to ``value``, queued on a stream. Optional: defaults to copies."""
        raise NotImplementedError

    def shutdown(self) -> None:
        """Close the device. Called once when the program ends. Optional."""
        raise NotImplementedError

    def correlation(self) -> int:
        """Return the number of the launch or copy that this thread is making; 0 while no trace runs."""
        return int(self._host.correlation())

    def current_stream(self, device: int) -> int:
        """Return the stream a kernel must queue its work on, as ``create_stream`` returned it; 0 for the default."""
        return self._host.current_stream(device) or 0

    def _register_kernels(self) -> None:
        """Register the kernels of the class on the mounted device."""
        declared = [getattr(type(self), attribute) for attribute in dir(type(self))]
        self._registered = [
            found.bound(found.__get__(self, type(self))).register(self.name)
            for found in declared
            if isinstance(found, Kernel) and found.device is None
        ]
