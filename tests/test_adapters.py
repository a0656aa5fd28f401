"""Adapters that are built on first use, with a tiny framework and a tiny CMake project."""

from __future__ import annotations

import errno
import importlib.metadata
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import hardpoint_autoload
from hardpoint import PluginError, _adapter_build, _adapter_checks, _build_process, cli, doctor
from hardpoint._adapters import Adapter, package_id

pytestmark = pytest.mark.slow

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
LIBRARY = f"_C_1_2{SUFFIX}"
FOREVER = 60  # seconds; no test waits that long

CMAKE = """
cmake_minimum_required(VERSION 3.20)
project(tiny LANGUAGES NONE)
add_custom_target(
  adapter ALL COMMAND ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/compile.py ${CMAKE_BINARY_DIR})
"""

#: Compiles the adapter. If there is a file "gate", a FIFO, waits until the test closes it.
COMPILE = """
import importlib.metadata, os, subprocess, sys, sysconfig
from pathlib import Path

folder = Path(__file__).parent.parent
with (folder / "builds").open("a") as file:
    print(os.getpid(), file=file)
if (folder / "gate").exists():
    (folder / "gate").read_text()
version = importlib.metadata.version(os.environ["TINY"])
name = "_C_" + "_".join(version.split(".")[:2])
output = Path(sys.argv[1]) / (name + sysconfig.get_config_var("EXT_SUFFIX"))
command = ["c++", "-shared", "-fPIC", f"-DINIT=PyInit_{name}", "-I", sysconfig.get_path("include")]
raise SystemExit(subprocess.call([*command, str(folder / "sources" / "adapter.cpp"), "-o", str(output)]))
"""

ADAPTER = """
#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "adapter"};
PyMODINIT_FUNC INIT() {
  PyObject* module = PyModule_Create(&definition);
  PyModule_AddIntConstant(module, "answer", 42);
  return module;
}
"""

#: A program that uses the framework: imports it and its adapter.
PROGRAM = """
import importlib, importlib.metadata, signal, sys
from pathlib import Path
from hardpoint._adapters import Adapter

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
name, folder = sys.argv[1], Path(sys.argv[2])
importlib.import_module(name)
installed = lambda: importlib.metadata.version(name)
folders = (folder / "package", folder / "cache")
adapter = Adapter(name, installed, ("1.1", "1.3"), (), 1, folder / "sources", (), folders)
print(adapter.load().answer)
"""


class Tiny:
    """A framework of one file, and the sources of its adapter."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        self.name = f"tiny_{folder.name}"
        self.sources, self.package, self.cache = folder / "sources", folder / "package", folder / "cache"
        self.temporary = folder / "temporary"
        self.sources.mkdir()
        self.temporary.mkdir()
        (self.sources / "CMakeLists.txt").write_text(CMAKE)
        (self.sources / "compile.py").write_text(COMPILE)
        self.write(ADAPTER)
        self.install("1.2.0")
        for variable in ("CXX", "HARDPOINT_BUILD", "TORCH_DEVICE_BACKEND_AUTOLOAD"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("TINY", self.name)
        monkeypatch.setenv("TMPDIR", str(self.temporary))
        monkeypatch.setenv("PYTHONPATH", str(folder / "site"))
        monkeypatch.setattr(tempfile, "tempdir", None)  # cached
        monkeypatch.syspath_prepend(folder / "site")

    def write(self, code: str) -> None:
        (self.sources / "adapter.cpp").write_text(code)

    def install(self, version: str) -> None:
        """Replace the installed framework."""
        site = self.folder / "site"
        shutil.rmtree(site, ignore_errors=True)
        metadata = site / f"{self.name}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {version}\n")
        (site / f"{self.name}.py").write_text(f"__version__ = {version!r}\n")

    def import_(self, version: str = "1.2.0") -> None:
        """Import the framework into the tests' process."""
        module = ModuleType(self.name)
        module.__version__ = version  # type: ignore[attr-defined]
        self.monkeypatch.setitem(sys.modules, self.name, module)

    def adapter(self, **changes: Any) -> Adapter:
        arguments: dict[str, Any] = {
            "installed": lambda: importlib.metadata.version(self.name),
            "supported": ("1.1", "1.3"),
            "minutes": 1,
            "sources": self.sources,
            "package_folders": (),
            "build_folders": (self.package, self.cache),
        }
        return Adapter(self.name, **{**arguments, **changes})

    def builds(self) -> list[int]:
        """Process ids of the compilations so far."""
        file = self.folder / "builds"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def files(self) -> list[str]:
        """Names of the files that builds have left."""
        roots = (self.package, self.cache, self.temporary)
        return sorted(path.name for root in roots for path in root.rglob("*") if path.is_file())

    def start(self) -> subprocess.Popen[str]:
        """Start a program that uses the adapter."""
        command = [sys.executable, "-c", PROGRAM, self.name, str(self.folder)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder)

    def start_to_build(self) -> tuple[subprocess.Popen[str], io.TextIOWrapper]:
        """Start a program and return once it compiles. Closing the second result lets it continue."""
        gate = self.folder / "gate"
        os.mkfifo(gate)
        program = self.start()
        opened = gate.open("w")  # waits for compile.py to open it
        gate.unlink()
        return program, opened


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tiny]:
    before = set(sys.modules)
    yield Tiny(tmp_path, monkeypatch)
    for name in set(sys.modules) - before:
        if name.startswith("hardpoint.tiny_"):
            del sys.modules[name]


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or waits for its parent to take note."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


def test_first_use_builds_and_the_second_does_not(tiny: Tiny, capsys: pytest.CaptureFixture[str]) -> None:
    adapter = tiny.adapter()
    assert adapter.find() is None
    assert adapter.load().answer == 42
    announced, done = capsys.readouterr().err.splitlines()
    assert announced == f"hardpoint: building the adapter for {tiny.name} 1.2, once (about 1 minute)..."
    assert done.startswith("hardpoint: ... done in ")
    assert done.endswith(f" s, kept in {tiny.package}")
    assert adapter.find() == tiny.package / LIBRARY
    assert tiny.files() == [LIBRARY]
    assert stat.S_IMODE((tiny.package / LIBRARY).stat().st_mode) & 0o444 == 0o444

    program = tiny.start()
    assert program.communicate(timeout=FOREVER) == ("42\n", "")
    assert len(tiny.builds()) == 1


def test_loading_twice_returns_the_same_module(tiny: Tiny) -> None:
    tiny.import_()
    adapter = tiny.adapter()
    assert adapter.load() is adapter.load()


def test_terminal_shows_the_elapsed_time(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    tiny.adapter().build()
    first, second = terminal.getvalue().splitlines()[0], terminal.getvalue().splitlines()[-1]
    text = f"hardpoint: building the adapter for {tiny.name} 1.2, once (about 1 minute)..."
    assert first == text
    assert f"\r{text} 0 s" in terminal.getvalue()
    assert second.startswith("hardpoint: ... done in ")


def test_program_without_stderr(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert tiny.adapter().load().answer == 42


def test_automatic_builds_can_be_turned_off(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARDPOINT_BUILD", "0")
    with pytest.raises(PluginError) as error:
        tiny.adapter().load()
    assert str(error.value) == (
        f"Hardpoint's adapter is not built for {tiny.name} 1.2 (built for: none); "
        f"build it with: hardpoint build {tiny.name}"
    )
    assert tiny.builds() == []
    tiny.adapter().build()
    assert tiny.adapter().load().answer == 42


def test_build_command_builds_again(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from hardpoint.torch import _adapter

    monkeypatch.setattr(_adapter, "ADAPTER", tiny.adapter())
    for count in (1, 2):
        done = CliRunner().invoke(cli.app, ["build", "torch"])
        assert done.exit_code == 0, done.output
        assert len(tiny.builds()) == count
    tiny.write("this is no C++")
    done = CliRunner().invoke(cli.app, ["build", "torch"])
    assert done.exit_code == 1
    assert "could not be built: cmake ended with 1" in done.output


def test_second_process_waits_for_the_first(tiny: Tiny) -> None:
    first, gate = tiny.start_to_build()
    second = tiny.start()
    assert second.stderr is not None
    waiting = second.stderr.readline()
    assert waiting == (f"hardpoint: waiting for process {first.pid}, which builds the adapter for {tiny.name} 1.2\n")
    gate.close()
    output, messages = first.communicate(timeout=FOREVER)
    assert output == "42\n", messages
    assert "building the adapter" in messages
    assert second.communicate(timeout=FOREVER) == ("42\n", "")
    assert len(tiny.builds()) == 1
    assert tiny.files() == [LIBRARY]


def test_killed_build_is_cleaned_up_by_the_next(tiny: Tiny, capsys: pytest.CaptureFixture[str]) -> None:
    program, gate = tiny.start_to_build()
    program.kill()
    program.communicate(timeout=FOREVER)
    (compiler,) = tiny.builds()
    (work,) = tiny.temporary.iterdir()
    assert not has_ended(compiler)
    prefix = work.name.rpartition("-")[0]
    (tiny.package / f"{prefix}-{LIBRARY}").write_text("half of a library")
    alive = tiny.package / f"{_build_process.temporary_prefix()}{LIBRARY}.other"
    alive.write_text("of a process that still exists")

    assert tiny.adapter().load().answer == 42
    assert "waiting" not in capsys.readouterr().err
    assert has_ended(compiler)
    assert list(tiny.temporary.iterdir()) == []
    assert tiny.files() == sorted([LIBRARY, alive.name])
    gate.close()


def test_builder_that_is_killed_lets_the_waiting_process_build(tiny: Tiny) -> None:
    first, gate = tiny.start_to_build()
    second = tiny.start()
    assert second.stderr is not None
    assert f"waiting for process {first.pid}" in second.stderr.readline()
    first.kill()
    first.communicate(timeout=FOREVER)
    output, messages = second.communicate(timeout=FOREVER)
    assert output == "42\n", messages
    assert "building the adapter" in messages
    assert tiny.files() == [LIBRARY]
    gate.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_interrupted_build_leaves_nothing(tiny: Tiny, number: signal.Signals) -> None:
    program, gate = tiny.start_to_build()
    program.send_signal(number)
    program.communicate(timeout=FOREVER)
    assert program.returncode == -number
    assert all(map(has_ended, tiny.builds()))
    assert tiny.files() == []
    assert list(tiny.temporary.iterdir()) == []
    gate.close()


def hide_tools(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, *tools: str) -> None:
    """Leave only these tools of the machine."""
    folder = tiny.folder / "bin"
    folder.mkdir()
    for tool in ("python", *tools):
        (folder / tool).symlink_to(sys.executable if tool == "python" else str(shutil.which(tool)))
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "python"))


def test_missing_compiler(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_tools(tiny, monkeypatch, "cmake", "ninja")
    monkeypatch.setattr(_adapter_checks, "_output", lambda *_: "cmake version 3.28.1")
    with pytest.raises(PluginError) as error:
        tiny.adapter().load()
    assert str(error.value) == (
        f"Hardpoint's adapter for {tiny.name} 1.2 cannot be built: no C++ compiler is found (c++, g++ or $CXX): "
        "apt-get install g++"
    )
    assert tiny.files() == []
    monkeypatch.setenv("CXX", "/nowhere/c++ -m64")
    with pytest.raises(PluginError, match=r"CXX is '/nowhere/c\+\+ -m64', which is not found"):
        tiny.adapter().load()


def test_missing_cmake_and_packages(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_tools(tiny, monkeypatch, "c++")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: "/nowhere")
    with pytest.raises(PluginError) as error:
        tiny.adapter(needs=(("no_such_module", "PyYAML"),)).load()
    first, *others = str(error.value).splitlines()
    assert first == f"Hardpoint's adapter for {tiny.name} 1.2 cannot be built:"
    assert others == [
        '- cmake is not installed: python -m pip install "hardpoint[build]"',
        '- PyYAML is not installed: python -m pip install "hardpoint[build]"',
        "- the Python headers are missing (/nowhere/Python.h): apt-get install python3-dev",
    ]


@pytest.mark.parametrize(
    ("version", "problem"),
    [("cmake version 3.16.3", "is version 3.16, but 3.20 is needed"), ("Traceback", "does not run")],
)
def test_unusable_cmake(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, version: str, problem: str) -> None:
    monkeypatch.setattr(_adapter_checks, "_output", lambda *_: version)
    with pytest.raises(PluginError, match=problem):
        tiny.adapter().load()


def test_no_writable_folder(tiny: Tiny) -> None:
    file = tiny.folder / "file"
    file.write_text("")
    folders = (file / "package", file / "cache" / "adapters")
    with pytest.raises(PluginError) as error:
        tiny.adapter(build_folders=folders).load()
    assert str(error.value) == (
        f"Hardpoint's adapter for {tiny.name} 1.2 cannot be built: there is no writable folder to keep it in "
        f"(tried: {folders[0]}, {folders[1]}): set HARDPOINT_CACHE to a writable folder"
    )
    assert tiny.builds() == []


def test_cache_is_used_if_the_package_is_read_only(tiny: Tiny) -> None:
    tiny.package.write_text("no folder")
    assert tiny.adapter().build() == tiny.cache / LIBRARY


def test_half_written_library_is_rebuilt(tiny: Tiny, capsys: pytest.CaptureFixture[str]) -> None:
    tiny.import_()
    path = tiny.adapter().build()
    os.truncate(path, path.stat().st_size // 2)
    assert tiny.adapter().find() is None
    capsys.readouterr()
    assert tiny.adapter().load().answer == 42
    reason = capsys.readouterr().err.splitlines()[0]
    assert reason == f"hardpoint: {path} does not load (the file is incomplete): building it again"
    assert len(tiny.builds()) == 2


def test_truncated_libraries_are_found_out(tiny: Tiny) -> None:
    path = tiny.adapter().build()
    content = path.read_bytes()
    for length in (0, 1, 63, 64, 200, len(content) // 3, len(content) - 1):
        path.write_bytes(content[:length])
        assert tiny.adapter().find() is None
    path.write_bytes(bytes(range(256)) * 8)
    assert tiny.adapter().find() is None
    path.write_bytes(content)
    assert tiny.adapter().find() == path


def with_undefined_symbol() -> str:
    return ADAPTER.replace("42", "gone()").replace("static", 'extern "C" int gone();\nstatic')


def test_library_in_a_read_only_package_that_does_not_load(tiny: Tiny, capsys: pytest.CaptureFixture[str]) -> None:
    shipped = tiny.folder / "shipped"
    tiny.write(with_undefined_symbol())
    tiny.adapter(build_folders=(shipped,)).build()
    tiny.write(ADAPTER)
    tiny.package.write_text("no folder")
    tiny.import_()
    capsys.readouterr()

    adapter = tiny.adapter(package_folders=(shipped,))
    assert adapter.load().answer == 42
    reason = capsys.readouterr().err.splitlines()[0]
    assert reason == f"hardpoint: {shipped / LIBRARY} does not load (undefined symbol: gone): building it again"
    assert adapter.find() == tiny.cache / LIBRARY  # preferred from now on
    assert len(tiny.builds()) == 2


def test_new_library_that_does_not_load_is_not_built_again(tiny: Tiny) -> None:
    tiny.write(with_undefined_symbol())
    tiny.import_()
    messages = []
    for _ in range(2):
        with pytest.raises(PluginError, match=r"was just built, but does not load .* undefined symbol: gone") as error:
            tiny.adapter().load()
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert len(tiny.builds()) == 1


def test_library_that_does_not_load_before_its_framework_is_not_rebuilt(tiny: Tiny) -> None:
    tiny.write(with_undefined_symbol())
    path = tiny.adapter().build()
    with pytest.raises(PluginError, match=f"{path} does not load with this {tiny.name}"):
        tiny.adapter().load()
    assert len(tiny.builds()) == 1


def test_compile_error_is_shown_and_remembered(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.write("int main() { return missing; }\n")
    with pytest.raises(PluginError) as error:
        tiny.adapter().load()
    message = str(error.value)
    log = tiny.package / f"{LIBRARY}.log"
    assert f"could not be built: cmake ended with 1. The end of {log}:\n" in message
    assert "error: 'missing' was not declared" in message
    assert message.endswith(f"To try again, run: hardpoint build {tiny.name}")
    assert "error: 'missing' was not declared" in log.read_text()
    assert tiny.files() == sorted([f"{LIBRARY}.failed", f"{LIBRARY}.log"])

    with pytest.raises(PluginError) as error:
        tiny.adapter().load()
    assert str(error.value) == message
    assert len(tiny.builds()) == 1

    compiler = tiny.folder / "another-c++"
    compiler.symlink_to(str(shutil.which("c++")))
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(PluginError):
        tiny.adapter().load()
    assert len(tiny.builds()) == 2
    tiny.install("1.2.1")
    with pytest.raises(PluginError):
        tiny.adapter().load()
    assert len(tiny.builds()) == 3

    tiny.write(ADAPTER)
    tiny.adapter().build()
    assert tiny.files() == [LIBRARY]


def test_long_log_shows_the_first_error_and_the_end(tiny: Tiny) -> None:
    lines = ["x.cpp:1: error: the cause", *(f"note {i}" for i in range(100))]
    (tiny.sources / "compile.py").write_text(f"print({chr(10).join(lines)!r}); raise SystemExit(1)")
    with pytest.raises(PluginError) as error:
        tiny.adapter().build()
    shown = str(error.value).splitlines()
    assert shown[1:3] == ["    x.cpp:1: error: the cause", "    ..."]
    assert "    note 99" in shown
    assert "    note 50" not in shown


def test_damaged_record_of_a_failure_is_ignored(tiny: Tiny) -> None:
    tiny.package.mkdir()
    for content in ("", "[]", json.dumps({"message": "old"})):
        (tiny.package / f"{LIBRARY}.failed").write_text(content)
        assert _adapter_build.failure(tiny.adapter()) is None
    assert tiny.adapter().load().answer == 42


@pytest.mark.parametrize("backend", ["torch", "paddle"])
def test_failed_build_does_not_break_the_import_of_a_framework(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], backend: str
) -> None:
    import hardpoint.paddle
    import hardpoint.torch

    tiny.write("this is no C++")
    if backend == "torch":
        monkeypatch.setattr(hardpoint.torch, "mount", tiny.adapter().load)
        with pytest.warns(RuntimeWarning, match=f"no device was mounted: .*{tiny.name} 1.2 could not be built"):
            hardpoint_autoload.torch_backend()
    else:
        monkeypatch.setattr(hardpoint.paddle, "_on_import", lambda address: tiny.adapter().load())
        assert hardpoint_autoload.paddle_backend(0) is False
        assert f"{tiny.name} 1.2 could not be built" in capsys.readouterr().err


def test_missing_adapter_does_not_break_import_torch(run_python: Any) -> None:
    program = """
        import warnings
        from hardpoint._adapters import Adapter

        Adapter.libraries = lambda self: []
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            import torch
        (message,) = (str(w.message) for w in seen if "hardpoint" in str(w.message))
        assert "adapter is not built for torch 2." in message and "hardpoint build torch" in message, message
        assert torch._C._get_privateuse1_backend_name() == "privateuseone"
        assert (torch.ones(2) + 1).tolist() == [2, 2]
    """
    run_python(program, HARDPOINT_BUILD="0")


def test_upgrade_builds_another_adapter_and_keeps_the_first(tiny: Tiny) -> None:
    assert tiny.adapter().load().answer == 42
    tiny.install("1.3.0")
    assert tiny.adapter().find() is None
    assert tiny.adapter().load().answer == 42
    assert tiny.files() == [LIBRARY, f"_C_1_3{SUFFIX}"]


def test_framework_replaced_while_the_program_runs(tiny: Tiny) -> None:
    tiny.import_("1.2.0")
    adapter = tiny.adapter()
    loaded = adapter.load()
    tiny.install("1.3.0")
    assert adapter.load() is loaded  # still fits the framework that is loaded
    sys.modules.pop(f"hardpoint.{tiny.name}._C_1_2")
    for action in (adapter.load, adapter.build):
        with pytest.raises(PluginError) as error:
            action()
        assert str(error.value) == (
            f"{tiny.name} 1.2.0 is loaded, but 1.3.0 is installed now: it was replaced while this program runs; "
            "restart the program"
        )
    assert len(tiny.builds()) == 1


def test_local_part_of_a_version_may_differ(tiny: Tiny) -> None:
    tiny.import_("1.2.0+nv25.01")
    assert tiny.adapter(installed=lambda: "1.2.0+nv25.1").version() == "1.2.0+nv25.01"


def test_framework_without_metadata(tiny: Tiny) -> None:
    with pytest.raises(PluginError, match=f"{tiny.name} is not installed"):
        tiny.adapter(installed=lambda: None).load()
    tiny.import_("1.2.0")
    assert tiny.adapter(installed=lambda: None).label() == f"{tiny.name} 1.2"


def test_unsupported_version(tiny: Tiny) -> None:
    tiny.install("1.0.4")
    with pytest.raises(PluginError) as error:
        tiny.adapter().load()
    assert str(error.value) == (
        f"Hardpoint's adapter for {tiny.name} 1.0 cannot be built: {tiny.name} 1.0.4 is not supported; "
        "supported versions are 1.1 to 1.3: install one of them"
    )


def test_untested_version(tiny: Tiny, capsys: pytest.CaptureFixture[str]) -> None:
    tiny.install("1.10.0")
    assert tiny.adapter().load().answer == 42
    warning = capsys.readouterr().err.splitlines()[0]
    assert warning == f"hardpoint: {tiny.name} 1.10 is untested; the newest tested version is 1.3"


def with_free_space(monkeypatch: pytest.MonkeyPatch, space: dict[Path, float]) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=space[Path(path)]))


def test_not_enough_space(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny.package.mkdir()
    with_free_space(monkeypatch, {tiny.temporary: 0.3e9, tiny.package: 1.2e9})
    with pytest.raises(PluginError) as error:
        tiny.adapter().load()
    assert str(error.value) == (
        f"Hardpoint's adapter for {tiny.name} 1.2 cannot be built: there is not enough space: a build needs 1.5 GB "
        f"({tiny.temporary} has 0.3 GB free, {tiny.package} has 1.2 GB free): "
        "free some, or set TMPDIR to a folder on a larger disk"
    )
    assert tiny.files() == []  # not remembered
    with_free_space(monkeypatch, {tiny.temporary: 0.3e9, tiny.package: 2e9})
    assert tiny.adapter().load().answer == 42
    assert tiny.files() == [LIBRARY]


@pytest.mark.parametrize("case", ["no room for the library", "no room for a file"])
def test_full_disk_is_reported_before_the_build(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    def lock(path: Path, purpose: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    tiny.package.write_text("no folder")
    if case == "no room for the library":
        with_free_space(monkeypatch, {tiny.temporary: 2e9, tiny.cache: 1e6})
    else:
        monkeypatch.setattr(_build_process, "lock", lock)
    with pytest.raises(PluginError) as error:
        tiny.adapter().load()
    assert str(error.value) == (
        f"Hardpoint's adapter for {tiny.name} 1.2 cannot be built: there is no space to keep it in "
        f"(full: {tiny.cache}): free some, or set HARDPOINT_CACHE to a folder on a larger disk"
    )
    assert tiny.builds() == []
    assert tiny.files() == []


def test_disk_that_fills_up_during_the_build(tiny: Tiny) -> None:
    (tiny.sources / "compile.py").write_text(
        "raise SystemExit('fatal error: error writing to /tmp/x.s: No space left on device')"
    )
    with pytest.raises(PluginError) as error:
        tiny.adapter().load()
    assert str(error.value) == (
        f"Hardpoint's adapter for {tiny.name} 1.2 could not be built: there is not enough space: a build needs 1.5 GB "
        f"(the compiler ran out of it in {tiny.temporary}): free some, or set TMPDIR to a folder on a larger disk, "
        f"then run: hardpoint build {tiny.name}"
    )
    assert list(tiny.temporary.iterdir()) == []


def loaded_on_a_full_disk(tiny: Tiny, run_python: Any, function: str, limit: int) -> str:
    """What loading prints if no file can grow beyond ``limit`` bytes from a function of the build on."""
    program = f"""
        import resource, signal
        from pathlib import Path
        from hardpoint import PluginError, _adapter_build
        from hardpoint._adapters import Adapter

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        real = _adapter_build.{function}
        def limited(*arguments):
            resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
            return real(*arguments)
        _adapter_build.{function} = limited
        folder = Path({str(tiny.folder)!r})
        folders = (folder / "package", folder / "cache")
        adapter = Adapter({tiny.name!r}, lambda: "1.2.0", ("1.1", "1.3"), (), 1, folder / "sources", (), folders)
        try:
            adapter.load()
        except PluginError as error:
            print(error)
    """
    return str(run_python(textwrap.dedent(program)).stdout)


def test_library_that_does_not_fit(tiny: Tiny, run_python: Any) -> None:
    printed = loaded_on_a_full_disk(tiny, run_python, "_store", 4096)
    assert "could not be built: [Errno 27] File too large; to try again, run: hardpoint build" in printed
    assert tiny.files() == [f"{LIBRARY}.failed"]


def test_full_disk_keeps_no_part_of_a_log_or_record(tiny: Tiny, run_python: Any) -> None:
    (tiny.sources / "compile.py").write_text("raise SystemExit('error: the cause ' + 9000 * 'x')")
    printed = loaded_on_a_full_disk(tiny, run_python, "_failure_message", 2048)
    assert "could not be built: cmake ended with" in printed
    assert "error: the cause" in printed
    assert tiny.files() == []


def test_full_disk_keeps_no_part_of_a_probe_stamp(tmp_path: Path, run_python: Any) -> None:
    program = """
        import resource, signal
        from pathlib import Path
        from hardpoint import _discovery

        library = Path("library")
        library.write_text("")
        _discovery.load_in_child = lambda *arguments: None
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4, resource.RLIM_INFINITY))
        _discovery.probe(library)
        print([path.name for path in Path("cache").rglob("*")])
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        _discovery.probe(library)
        print(len([path for path in Path("cache").rglob("*") if path.is_file()]))
    """
    done = run_python(program, HARDPOINT_CACHE=str(tmp_path / "cache"))
    assert done.stdout.splitlines() == ["['probed']", "1"]


def test_compiler_killed_for_lack_of_memory(tiny: Tiny) -> None:
    message = "c++: fatal error: Killed signal terminated program cc1plus"
    (tiny.sources / "compile.py").write_text(f"raise SystemExit({message!r})")
    with pytest.raises(PluginError, match=f"hardpoint build {tiny.name} --jobs 1"):
        tiny.adapter().load()


def states(adapter: Adapter) -> list[tuple[bool, bool, str, str]]:
    found = doctor._adapter("tiny adapter", adapter)
    return [(finding.ok, finding.needed, finding.detail, finding.advice) for finding in found]


def test_doctor_reports_the_adapter_without_building_it(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter, command = tiny.adapter(), f"hardpoint build {tiny.name}"
    not_built = f"not built for {tiny.name} 1.2"
    assert states(adapter) == [
        (False, False, f"{not_built}; the first use builds it, once", f"to build it now: {command}")
    ]
    with monkeypatch.context() as patch:
        patch.setenv("HARDPOINT_BUILD", "0")
        ((ok, needed, _, advice),) = states(adapter)
        assert (ok, needed, advice) == (False, True, command)
    with monkeypatch.context() as patch:
        hide_tools(tiny, patch)
        with_free_space(patch, {tiny.temporary: 0, tiny.folder: 0})
        advices = [advice for *_, advice in states(adapter)]
        assert advices == [
            "apt-get install g++",
            'python -m pip install "hardpoint[build]"',
            "free some, or set TMPDIR to a folder on a larger disk",
        ]
    assert tiny.builds() == []
    tiny.write("this is no C++")
    with pytest.raises(PluginError) as error:
        adapter.load()
    assert states(adapter) == [(False, True, str(error.value), f"{command}, after a repair")]
    tiny.write(ADAPTER)
    path = adapter.build()
    assert states(adapter) == [(True, True, str(path), "")]
    os.truncate(path, 100)
    ((ok, _, detail, _),) = states(adapter)
    assert not ok
    assert detail.startswith(f"{path} is incomplete")


def test_built_adapters_belong_to_one_version_of_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import hardpoint
    from hardpoint.torch import _adapter

    monkeypatch.setenv("HARDPOINT_CACHE", str(tmp_path))
    version, _, checksum = package_id().rpartition("-")
    assert version == hardpoint.__version__
    assert len(checksum) == 8
    package, cache = _adapter.ADAPTER.folders_for_builds()
    assert package.parts[-4:] == ("hardpoint", "adapters", package_id(), "torch")
    assert cache == tmp_path / "adapters" / package_id() / "torch"
