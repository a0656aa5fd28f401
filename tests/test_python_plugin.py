"""Plug-ins written in Python: their C table, error propagation, and use through torch."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import pytest
from plugin_tools import ROOT, Layout, ask_python, layout

from hardpoint import _plugin_adapter
from hardpoint._plugin_adapter import fill_table, provided
from hardpoint._plugin_tables import (
    EXTENSION_TABLES,
    EXTENSIONS,
    REQUIRED,
    AttributesStruct,
    Host,
    LaunchArgStruct,
    LaunchStruct,
    PluginTable,
    PropertiesStruct,
    TraceRecordStruct,
)
from hardpoint._runtime import include_dir
from hardpoint.plugin import (
    GROUP_ID_BYTES,
    DeviceError,
    Element,
    LaunchArg,
    LaunchFlag,
    Plugin,
    Reduction,
    Status,
    TraceKind,
)

DEFERRED = {"HARDPOINT_PLUGIN_PATH": str(ROOT / "tests" / "fixtures" / "deferred.py"), "HARDPOINT_DEVICE": "deferred"}

# ---- The table


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return layout(include_dir() / "hardpoint" / "plugin.h", tmp_path_factory.mktemp("layout"))


def offsets(table: Any) -> dict[str, tuple[int, int]]:
    return {name: (getattr(table, name).offset, getattr(table, name).size) for name, *_ in table._fields_}


@pytest.mark.parametrize(
    ("struct", "table"),
    [
        ("HpPlugin", PluginTable),
        ("HpProperties", PropertiesStruct),
        ("HpLaunchArg", LaunchArgStruct),
        ("HpLaunch", LaunchStruct),
        ("HpAttributes", AttributesStruct),
        ("HpTraceRecord", TraceRecordStruct),
    ],
)
def test_layout(struct: str, table: Any, header: Layout) -> None:
    assert {"": (0, ctypes.sizeof(table)), **offsets(table)} == header[struct]


def test_host_layout_is_a_prefix(header: Layout) -> None:
    assert offsets(Host).items() <= header["HpHost"].items()


@pytest.mark.parametrize("extension", EXTENSION_TABLES)
def test_layout_of_extensions(extension: str, header: Layout) -> None:
    table = EXTENSION_TABLES[extension]
    (_, size), *fields = header[f"Hp{extension.capitalize()}"].values()
    assert ctypes.sizeof(table) == size
    assert list(offsets(table).values()) == fields
    names = [name for name in header[f"Hp{extension.capitalize()}"] if name]
    # A method is named after its slot, with a suffix where the slot's name alone is ambiguous.
    assert all(own.startswith(slot) for own, slot in zip(offsets(table), names, strict=True))


def test_status_codes() -> None:
    text = (include_dir() / "hardpoint" / "plugin.h").read_text()
    for status in Status:
        assert f"HP_{status.name} = {status.value}" in text


def test_elements_and_reductions() -> None:
    text = (include_dir() / "hardpoint" / "plugin.h").read_text()
    for kind, prefix in ((Element, "HP_"), (Reduction, "HP_"), (TraceKind, "HP_TRACE_")):
        inside = text[text.index(f"typedef enum Hp{kind.__name__} {{") : text.index(f"}} Hp{kind.__name__};")]
        assert [f"{prefix}{member.name} = {member.value}" for member in kind] == re.findall(r"HP_\w+ = \d+", inside)
    for flag in LaunchFlag:
        assert f"HP_LAUNCH_{flag.name} = {flag.value}" in text
    assert f"#define HP_GROUP_ID_BYTES {GROUP_ID_BYTES}\n" in text


# ---- Exceptions and results


class ReturningPlugin(Plugin):
    name = "odd"

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    def _give(self, *_: Any) -> Any:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    allocate = query_stream = memory = _give

    def free(self, device: int, address: int) -> None:
        self.freed = (device, address)


def filled_table(outcome: Any) -> tuple[Any, list[str], ReturningPlugin]:
    """The C table of a plug-in, the messages it reports, and the plug-in."""
    messages: list[str] = []

    def fail(status: int, pattern: bytes, message: bytes) -> int:
        messages.append(message.decode())
        return status

    host = Host(fail=dict(Host._fields_)["fail"](fail))
    plugin = ReturningPlugin(outcome)
    return fill_table(plugin, host), messages, plugin


class CommunicatingPlugin(Plugin):
    """Records its calls."""

    name = "talker"

    def __init__(self, identity: bytes = b"group 7") -> None:
        self.identity = identity
        self.calls: list[Any] = []

    def group_id(self) -> bytes:
        return self.identity

    def can_join(self, device: int, group: bytes) -> bool:
        return group.rstrip(b"\0") == self.identity

    def create_communicator(self, *args: Any) -> int:
        self.calls.append(("create", *args))
        return 11

    def destroy_communicator(self, communicator: int) -> None:
        self.calls.append(("destroy", communicator))

    def all_reduce(self, *args: int) -> None:
        self.calls.append(("all_reduce", *args))

    def send(self, communicator: int, src: int, bytes: int, peer: int, stream: int) -> None:
        raise NotImplementedError("no sends")


def collectives_of(plugin: Plugin) -> Any:
    host = Host(fail=dict(Host._fields_)["fail"](lambda status, *_: status))
    address = fill_table(plugin, host).collectives
    return address and EXTENSION_TABLES["collectives"].from_address(address)


def test_collectives() -> None:
    plugin = CommunicatingPlugin()
    table = collectives_of(plugin)
    group = (ctypes.c_ubyte * GROUP_ID_BYTES)(*[255] * GROUP_ID_BYTES)
    assert table.group_id(group) == Status.OK
    assert bytes(group) == b"group 7".ljust(GROUP_ID_BYTES, b"\0")
    assert table.can_join(0, group) == Status.OK
    assert table.can_join(0, (ctypes.c_ubyte * GROUP_ID_BYTES)()) == Status.NOT_SUPPORTED
    handle = ctypes.c_void_p()
    assert table.create_communicator(0, group, 1, 3, 500, ctypes.byref(handle)) == Status.OK
    assert handle.value == 11
    assert table.all_reduce(11, 64, 128, 5, Element.FLOAT32, Reduction.MEAN, None) == Status.OK
    assert table.send(11, 64, 5, 1, None) == Status.NOT_SUPPORTED
    assert table.destroy_communicator(11) == Status.OK
    made, reduced, destroyed = plugin.calls
    assert made == ("create", 0, bytes(group), 1, 3, 500)
    assert reduced == ("all_reduce", 11, 64, 128, 5, 7, 4, 0)
    assert destroyed == ("destroy", 11)
    assert not table.broadcast
    assert not table.group_start


def test_group_id_is_too_long() -> None:
    table = collectives_of(CommunicatingPlugin(b"x" * (GROUP_ID_BYTES + 1)))
    assert table.group_id((ctypes.c_ubyte * GROUP_ID_BYTES)()) == Status.ERROR


def test_send_alone_provides_no_collectives() -> None:
    class Sender(Plugin):
        name = "sender"

        def send(self, text: str) -> None:
            raise AssertionError(text)

    assert not collectives_of(Sender())


@pytest.mark.parametrize(
    ("outcome", "status", "message"),
    [
        (MemoryError("12 bytes are left"), Status.OUT_OF_MEMORY, "12 bytes are left"),
        (MemoryError(), Status.OUT_OF_MEMORY, "out of memory"),
        (NotImplementedError("not here"), Status.NOT_SUPPORTED, "not here"),
        (DeviceError(Status.DEVICE_LOST, "fell off the bus"), Status.DEVICE_LOST, "fell off the bus"),
        (DeviceError(Status.TIMEOUT, "50% done"), Status.TIMEOUT, "50% done"),
        (KeyError("x"), Status.ERROR, "KeyError: 'x'"),
        (SystemExit(3), Status.ERROR, "SystemExit: 3"),
        ("not an address", Status.ERROR, "TypeError: "),
    ],
)
def test_exceptions_become_statuses(outcome: Any, status: Status, message: str) -> None:
    table, messages, _ = filled_table(outcome)
    assert table.allocate(0, 64, ctypes.byref(ctypes.c_void_p())) == status
    assert len(messages) == 1
    assert messages[0].startswith(message)


def test_results_are_stored() -> None:
    table, messages, plugin = filled_table(4096)
    address = ctypes.c_void_p()
    assert table.allocate(0, 64, ctypes.byref(address)) == Status.OK
    assert address.value == 4096
    assert table.free(1, None) == Status.OK
    assert plugin.freed == (1, 0)  # a plug-in receives a null pointer as 0
    table, _, _ = filled_table((5, 9))
    info = ctypes.cast(table.info, ctypes.POINTER(EXTENSION_TABLES["info"])).contents
    free, total = ctypes.c_uint64(), ctypes.c_uint64()
    assert info.memory(0, ctypes.byref(free), ctypes.byref(total)) == Status.OK
    assert (free.value, total.value) == (5, 9)
    assert not info.properties
    assert not table.events
    assert messages == []


def test_method_set_on_the_instance() -> None:
    plugin = ReturningPlugin(1)
    plugin.device_count = lambda: 3  # type: ignore[attr-defined]
    assert "device_count" in provided(plugin, REQUIRED)
    assert provided(plugin, EXTENSIONS["info"]) == ["memory"]


@pytest.mark.parametrize(
    ("outcome", "status"), [(True, Status.OK), (None, Status.OK), (False, Status.NOT_READY), (OSError(), Status.ERROR)]
)
def test_queries(outcome: Any, status: Status) -> None:
    table, _, _ = filled_table(outcome)
    streams = ctypes.cast(table.streams, ctypes.POINTER(EXTENSION_TABLES["streams"])).contents
    assert streams.query_stream(0, None) == status


class CompilingPlugin(ReturningPlugin):
    dialect = "opencl"
    group_size = 64
    local_memory = 4096

    def __init__(self, outcome: Any) -> None:
        super().__init__(outcome)
        self.seen: list[Any] = []

    def device_count(self) -> int:
        return 2

    def fingerprint(self, device: int) -> str:
        return f"odd-{device}"

    def _note(self, *given: Any) -> Any:
        self.seen.append(given)
        return self._give()

    compile = load = unload = find = launch = _note


def compiler_of(plugin: ReturningPlugin) -> tuple[Any, Any]:
    """The compiler table, and the plug-in table that owns it."""
    table = fill_table(plugin, Host(fail=dict(Host._fields_)["fail"](lambda status, *_: status)))
    return ctypes.cast(table.compiler, ctypes.POINTER(EXTENSION_TABLES["compiler"])).contents, table


def test_compiler() -> None:
    plugin = CompilingPlugin(b"code\0with zeros\0")
    compiler, _table = compiler_of(plugin)
    assert (compiler.dialect, compiler.group_size, compiler.local_memory) == (b"opencl", 64, 4096)
    assert [ctypes.string_at(compiler.fingerprint(i)) for i in range(2)] == [b"odd-0", b"odd-1"]

    binary, size = ctypes.c_void_p(), ctypes.c_size_t()
    status = compiler.compile(1, "größer".encode(), b"-DX=1", ctypes.byref(binary), ctypes.byref(size))
    assert status == Status.OK
    assert ctypes.string_at(binary.value, size.value) == b"code\0with zeros\0"
    assert plugin.seen.pop() == (1, "größer", "-DX=1")
    compiler.release_binary(binary)
    assert _plugin_adapter._binaries == {}
    compiler.release_binary(binary)  # a second release does nothing

    plugin.outcome = 77
    handle = ctypes.c_void_p()
    assert compiler.load(0, b"a\0b", 3, ctypes.byref(handle)) == Status.OK
    assert handle.value == 77
    assert plugin.seen.pop() == (0, b"a\0b")
    assert compiler.find(0, 77, b"kernel", ctypes.byref(handle)) == Status.OK
    assert plugin.seen.pop() == (0, 77, "kernel")

    pointer, number = ctypes.c_void_p(4096), ctypes.c_int64(5)
    args = (LaunchArgStruct * 2)((ctypes.addressof(pointer), 8, 1), (ctypes.addressof(number), 8, 0))
    triple = ctypes.c_uint32 * 3
    assert compiler.launch(0, None, 77, triple(9, 2, 1), triple(64, 1, 1), args, 2) == Status.OK
    given = [LaunchArg(ctypes.addressof(pointer), 8, True), LaunchArg(ctypes.addressof(number), 8, False)]
    assert plugin.seen.pop() == (0, 0, 77, (9, 2, 1), (64, 1, 1), given)
    assert compiler.unload(0, 77) == Status.OK
    assert plugin.seen.pop() == (0, 77)


def test_failing_compiler() -> None:
    compiler, _table = compiler_of(CompilingPlugin(NotImplementedError("no compiler here")))
    out = ctypes.c_void_p()
    assert compiler.compile(0, b"", b"", ctypes.byref(out), ctypes.byref(ctypes.c_size_t())) == Status.NOT_SUPPORTED
    assert compiler.load(0, b"x", 1, ctypes.byref(out)) == Status.NOT_SUPPORTED
    assert out.value is None


def test_incomplete_compiler_is_not_provided() -> None:
    plugin = ReturningPlugin(1)
    plugin.find = plugin.load = lambda *_: 1  # type: ignore[attr-defined]
    assert not fill_table(plugin, Host()).compiler


# ---- Through torch

START = """
import torch, hardpoint
from hardpoint.plugin import Plugin
(deferred,) = (c.latest for c in Plugin.__subclasses__())
x = torch.arange(6.0).to("deferred")
"""


def test_extensions(tmp_path: Path) -> None:
    code = """
answer = dict(double=(x + x).tolist(), devices=torch.accelerator.device_count())
answer["properties"] = torch.deferred.get_device_properties(0)
answer["memory"] = [deferred.used == total - free for free, total in [torch.deferred.mem_get_info(0)]]
page_locked = torch.arange(4.0).pin_memory()
answer["pinned"] = [torch.ones(1).is_pinned(), page_locked.is_pinned(), deferred.calls["allocate_pinned"]]
torch.accelerator.synchronize()
y = page_locked.to("deferred", non_blocking=True)
answer["queued"] = [len(deferred.streams[0, 0].queue), torch.accelerator.current_stream().query()]
torch.accelerator.synchronize()
answer["idle"] = [len(deferred.streams[0, 0].queue), torch.accelerator.current_stream().query()]
answer["copied"] = y.tolist()
answer["peer"] = [(x + x).to("deferred:1").tolist(), deferred.calls["copy_peer"]]
answer["calls"] = hardpoint.counters()["aten::add.Tensor"]
"""
    answer = ask_python(START + code, tmp_path, **DEFERRED)
    assert answer["double"] == [0, 2, 4, 6, 8, 10]
    assert answer["devices"] == 2
    assert answer["properties"][:5] == ["Deferred accelerator", 256 << 20, 7, 3, 0]
    assert answer["memory"] == [True]
    assert answer["pinned"] == [False, True, 1]
    assert answer["queued"] == [1, False]
    assert answer["idle"] == [0, True]
    assert answer["copied"] == [0, 1, 2, 3]
    assert answer["peer"] == [[0, 2, 4, 6, 8, 10], 1]
    assert answer["calls"] == {"vendor": 2}


def test_streams_and_events(tmp_path: Path) -> None:
    code = """
side = torch.Stream("deferred")
main = torch.accelerator.current_stream()
start, end = (torch.Event("deferred", enable_timing=True) for _ in range(2))
start.record(side)
side.wait_stream(main)
with side:
    y = x + x
    end.record()
before = end.query()
main.wait_event(end)
z = y + y
answer = dict(before=before, z=z.tolist(), after=end.query())
answer.update(waits=deferred.calls["wait_event"], ms=start.elapsed_time(end))
"""
    answer = ask_python(START + code, tmp_path, **DEFERRED)
    assert answer["before"] is False
    assert answer["z"] == [0, 4, 8, 12, 16, 20]
    assert answer["after"] is True
    assert answer["waits"] == 2
    assert 0 <= answer["ms"] < 60_000


def test_failures(tmp_path: Path) -> None:
    code = """
answer = {}
def failing(name, action):
    try:
        action()
        answer[name] = "no error"
    except Exception as error:
        answer[name] = [type(error).__name__, str(error)]
failing("memory", lambda: torch.empty(1 << 30, dtype=torch.uint8, device="deferred"))
deferred.broken = True
failing("launch", lambda: x + x)
failing("wait", torch.accelerator.synchronize)
deferred.broken = False
failing("index", lambda: torch.ones(1, device="deferred:2"))
answer["sum"] = (x + x).tolist()
"""
    answer = ask_python(START + code, tmp_path, **DEFERRED)
    assert answer["memory"][0] == "OutOfMemoryError"
    assert "deferred:0: out of memory: tried to allocate 1073741824 bytes (1.00 GiB)" in answer["memory"][1]
    assert "The plug-in says: " in answer["memory"][1]
    assert "bytes are left" in answer["memory"][1]
    assert answer["launch"] == "no error"  # only queued
    assert answer["wait"][0] == "RuntimeError"
    assert "deferred:0: waiting for stream 0 failed (device lost): the adder melted" in answer["wait"][1]
    assert answer["wait"][1].endswith("aten::add.Tensor")
    assert answer["index"][0] == "RuntimeError"
    assert "2 device(s)" in answer["index"][1]
    assert answer["sum"] == [0, 2, 4, 6, 8, 10]


@pytest.mark.slow
def test_training_on_a_deferred_device(tmp_path: Path) -> None:
    code = """
def train(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    data = torch.linspace(-1, 1, 24).reshape(8, 3)
    for _ in range(3):
        optimizer.zero_grad()
        model(data.to(device, non_blocking=True)).square().mean().backward()
        optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]
torch.testing.assert_close(train("deferred"), train("cpu"))
answer = hardpoint.counters()
"""
    answer = ask_python(START + code, tmp_path, **DEFERRED)
    assert answer["aten::tanh_backward"] == {"cpu": 3}
