"""Contract 1.2 seen from C, C++, Python and the shipped plug-ins."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from plugin_tools import CC, ROOT, ask_python, environment

from hardpoint._plugin_adapter import fill_table
from hardpoint._plugin_tables import (
    EXTENSION_TABLES,
    AttributesStruct,
    Host,
    HostFunction,
    LaunchStruct,
    PropertiesStruct,
    RecordFunction,
)
from hardpoint._runtime import include_dir, package_file
from hardpoint.check import slots
from hardpoint.plugin import Element, LaunchFlag, LaunchOptions, Plugin, Status, TraceKind

TRACED = {"HARDPOINT_PLUGIN_PATH": str(ROOT / "tests" / "fixtures" / "traced.py"), "HARDPOINT_DEVICE": "traced"}

# ---- The header

DESIGNATED = (
    'static const HpPlugin plugin = {HP_PLUGIN_HEADER, .name = "x"};\nint main(void) { return plugin.name == 0; }'
)
ASSIGNED = (
    'int main() { HpPlugin plugin = hp_plugin_header(); plugin.name = "x"; return plugin.abi_minor != HP_ABI_MINOR; }'
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (DESIGNATED, "-x c -std=c11 -pedantic -Wextra"),
        (DESIGNATED, "-x c++ -std=c++17"),
        (DESIGNATED, "-x c++ -std=c++20 -pedantic"),
        (ASSIGNED, "-x c++ -std=c++11 -pedantic -Wextra"),
        (ASSIGNED, "-x c++ -std=c++17 -pedantic -Wextra"),
    ],
)
def test_the_table_starts_in_c_and_cpp(text: str, flags: str, tmp_path: Path) -> None:
    source = tmp_path / "plugin.txt"
    source.write_text(f'#include "hardpoint/plugin.h"\n{text}\n')
    program = tmp_path / "program"
    command = [CC, *flags.split(), "-Wall", "-Werror", f"-I{include_dir()}", str(source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([program]).returncode == 0


@pytest.mark.parametrize("name", ["sim", "cuda", "opencl", "paddle_bridge"])
def test_plugins_export_nothing_beside_the_contract(name: str) -> None:
    library = package_file(f"lib/libhardpoint_{name}.so")
    listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    symbols = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert "hp_plugin_init" in symbols
    assert {symbol for symbol in symbols if not symbol.startswith("__tvm_ffi_")} == {"hp_plugin_init"}


# ---- Slots of a plug-in in Python


class NewPlugin(Plugin):
    name = "new"
    binary_kinds = "cubin ptx"

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def device_count(self) -> int:
        return 1

    def create_stream(self, device: int, priority: int) -> int:
        return 1

    def call_host(self, device: int, stream: int, function: Any) -> None:
        self.seen.append((device, stream))
        function()

    def copy_peer(self, *_: int) -> None:
        raise AssertionError

    def can_access(self, dst_device: int, src_device: int) -> bool:
        return dst_device == 1

    def fingerprint(self, device: int) -> str:
        return "new"

    def compile(self, device: int, source: str, options: str) -> bytes:
        return b""

    def launch_with(self, *given: Any) -> None:
        self.seen.append(given)

    def attributes(self, device: int, function: int) -> dict[str, int]:
        return {"registers": 40, "max_group_size": function}

    def start_tracing(self, record: Any) -> None:
        record(TraceKind.FILL, 1, 64, 1000, 2000, correlation=5, name="größer", bytes=12)

    def stop_tracing(self) -> None:
        self.seen.append("stopped")

    def fill_memory(self, *given: int) -> None:
        self.seen.append(given)

    def shutdown(self) -> None:
        raise RuntimeError("the program ends anyway")

    def properties(self, device: int) -> dict[str, Any]:
        return {
            "name": "n" * 200,
            "pci_id": "0000:3b:00.0",
            "uuid": b"0123456789abcdef",
            "native_elements": {Element.UINT8, Element.FLOAT64},
        }


@pytest.fixture
def plugin() -> NewPlugin:
    return NewPlugin()


@pytest.fixture
def table(plugin: NewPlugin) -> Any:
    return fill_table(plugin, Host(fail=dict(Host._fields_)["fail"](lambda status, *_: status)))


def extension(table: Any, name: str) -> Any:
    return EXTENSION_TABLES[name].from_address(getattr(table, name))


def test_host_functions_and_links(plugin: NewPlugin, table: Any) -> None:
    called: list[int] = []
    function = HostFunction(lambda data: called.append(data))
    address = ctypes.cast(function, ctypes.c_void_p)
    assert extension(table, "streams").call_host(0, None, address, 77) == Status.OK
    assert (called, plugin.seen) == ([77], [(0, 0)])
    yes = ctypes.c_int(7)
    for device in range(2):
        assert extension(table, "peer").can_access(device, 0, ctypes.byref(yes)) == Status.OK
        assert yes.value == device


def test_launch_options_and_attributes(plugin: NewPlugin, table: Any) -> None:
    compiler = extension(table, "compiler")
    assert compiler.binary_kinds == b"cubin ptx"
    triple = ctypes.c_uint32 * 3
    size = ctypes.sizeof(LaunchStruct)
    launch = LaunchStruct(size, triple(1, 2, 3), triple(64, 1, 1), 66000, triple(2, 1, 1), 3)
    assert compiler.launch_with(0, None, 9, ctypes.byref(launch), None, 0) == Status.OK
    flags = LaunchFlag.COOPERATIVE | LaunchFlag.OVERLAP
    assert plugin.seen == [(0, 0, 9, LaunchOptions((1, 2, 3), (64, 1, 1), 66000, (2, 1, 1), flags), [])]
    found = AttributesStruct(ctypes.sizeof(AttributesStruct))
    assert compiler.attributes(0, 512, ctypes.byref(found)) == Status.OK
    assert (found.registers, found.local_bytes, found.max_group_size) == (40, 0, 512)


def test_tracing(plugin: NewPlugin, table: Any) -> None:
    records: list[Any] = []

    def receive(context: int, record: Any) -> None:
        r = record.contents
        records.append((context, r.kind, r.device, r.stream, r.name.decode(), r.start_ns, r.end_ns))
        records.append((r.struct_size, r.bytes, r.correlation))

    function = RecordFunction(receive)
    tracing = extension(table, "tracing")
    assert tracing.start_tracing(ctypes.cast(function, ctypes.c_void_p), 88) == Status.OK
    assert records == [(88, 2, 1, 64, "größer", 1000, 2000), (64, 12, 5)]
    assert tracing.stop_tracing() == Status.OK
    assert plugin.seen == ["stopped"]


def test_fill_and_shutdown(plugin: NewPlugin, table: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert table.fill_memory(1, 4096, 255, 10, None) == Status.OK
    assert plugin.seen == [(1, 4096, 255, 10, 0)]
    table.shutdown(None)
    assert "the program ends anyway" in capfd.readouterr().err


def test_properties(table: Any) -> None:
    found = PropertiesStruct(ctypes.sizeof(PropertiesStruct))
    assert extension(table, "info").properties(0, ctypes.byref(found)) == Status.OK
    assert found.name == b"n" * 127
    assert (bytes(found.uuid), found.pci_id) == (b"0123456789abcdef", b"0000:3b:00.0")
    assert found.native_elements == 1 << 0 | 1 << 8


def test_check_sees_the_slots_of_python(plugin: NewPlugin) -> None:
    found = set(slots.filled_by_python(plugin))
    assert {"fill_memory", "shutdown", "streams.call_host", "peer.can_access", "tracing.start", "tracing.stop"} <= found
    assert {f"compiler.{slot}" for slot in slots.EXTENSIONS["compiler"]} - found == {
        *("compiler.load", "compiler.unload", "compiler.find", "compiler.launch")
    }
    assert not slots.filled_by_python(Plugin())


@pytest.mark.slow
def test_check_sees_the_slots_of_libraries() -> None:
    sim = set(slots.filled_by_library(str(package_file("lib/libhardpoint_sim.so"))))
    assert {"fill_memory", "private_function", "tracing.start", "tracing.stop", "compiler.launch_with"} <= sim
    assert not {"shutdown", "compiler.binary_kinds"} & sim


# ---- A device in Python from end to end

PROFILED = """
import json, torch
from torch.profiler import profile, ProfilerActivity
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as found:
    a = torch.ones(3).to("traced")
    result = (a + a).tolist()
found.export_chrome_trace("%s")
rows = [e for e in json.load(open("%s"))["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy")]
rows.sort(key=lambda e: e["ts"])
answer = [result, [(e["name"], e["args"]["timed by"], e["args"].get("operator")) for e in rows]]
"""


def profiled(folder: Path, mistake: str = "") -> Any:
    code = PROFILED.replace("%s", str(folder / "trace.json"))
    return ask_python(code, folder, TRACED_MISTAKE=mistake, **TRACED)


@pytest.mark.slow
def test_records_of_a_python_device(tmp_path: Path) -> None:
    result, rows = profiled(tmp_path)
    assert result == [2, 2, 2]
    assert [(name, source) for name, source, _ in rows] == [
        ("dma", "plug-in"),
        ("vector_add", "plug-in"),
        ("dma", "plug-in"),
    ]
    assert rows[1][2] == "aten::add.Tensor"


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "sources"), [("end", ["host"] * 3), ("clock", ["host"] * 3)])
def test_bad_times_of_a_python_device(mistake: str, sources: list[str], tmp_path: Path) -> None:
    result, rows = profiled(tmp_path, mistake)
    assert result == [2, 2, 2]
    assert [source for _, source, _ in rows] == sources


@pytest.mark.slow
def test_unknown_correlations_of_a_python_device(tmp_path: Path) -> None:
    result, rows = profiled(tmp_path, "correlation")
    assert result == [2, 2, 2]
    # The records without an operator, and each launch with the host's times.
    assert sorted(source for _, source, _ in rows) == ["host"] * 3 + ["plug-in"] * 3
    assert {name for name, source, _ in rows if source == "plug-in"} == {"dma", "vector_add"}


@pytest.mark.slow
def test_properties_links_and_shutdown_of_a_python_device(tmp_path: Path) -> None:
    code = """
import torch
found = torch.traced.get_device_properties(1)
print("uuid", found.uuid)
print("pci", found.pci_id, found.warp_size, found.memory_bus_width, found.clock_rate)
print("native", *found.native_dtypes)
print("links", torch.traced.can_device_access_peer(1, 0), torch.traced.can_device_access_peer(0, 1))
"""
    command = [sys.executable, "-c", code]
    variables = environment(tmp_path, **TRACED)
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "uuid 00010203-0405-0607-0809-0a0b0c0d0e0f",
        "pci 0000:3b:00.1 32 5120 0",
        "native torch.bfloat16 torch.float32",
        "links True False",
        "shut down",
    ]


@pytest.mark.slow
def test_shutdown_is_not_called_in_a_child_of_fork(tmp_path: Path) -> None:
    code = """
import os, sys, torch
torch.ones(1, device="traced")
child = os.fork()
if child:
    os.waitpid(child, 0)
sys.exit(0)
"""
    variables = environment(tmp_path, **TRACED)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["shut down"]
