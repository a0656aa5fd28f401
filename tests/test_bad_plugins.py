"""Invalid plug-ins: each is rejected with one actionable message, and `import torch` succeeds."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fork_server import run_python
from plugin_tools import ROOT, ask_python, compile_c, environment

from hardpoint._runtime import ABI

# Most tests start a process that imports torch: too slow for make quick.
pytestmark = pytest.mark.slow

DATA = ROOT / "tests" / "fixtures"
#: Each case builds a file in a folder and returns the plug-in's path.
Build = Callable[[Path], Path]


def c(init: str = "", *flags: str) -> Build:
    """Compile tests/fixtures/plugin.c with a line of C that breaks it."""

    def build(folder: Path) -> Path:
        output = folder / "libtest.so"
        return compile_c(DATA / "plugin.c", output, "-Wno-unused", "-shared", "-fPIC", f"-DINIT={init}", *flags)

    return build


def cpp(init: str = "", loaded: str = "") -> Build:
    """Compile tests/fixtures/throwing.cpp with a line for its entry point, and one for its static constructor."""

    def build(folder: Path) -> Path:
        flags = ["-shared", "-fPIC", f"-DINIT={init}", f"-DLOADED={loaded}"]
        return compile_c(DATA / "throwing.cpp", folder / "libtest.so", *flags)

    return build


def python(code: str) -> Build:
    """Write a Python plug-in file."""

    def build(folder: Path) -> Path:
        path = folder / "test.py"
        path.write_text(textwrap.dedent(code))
        return path

    return build


def missing(folder: Path) -> Path:
    return folder / "libtest.so"


def other_processor(folder: Path) -> Path:
    path = c()(folder)
    data = bytearray(path.read_bytes())
    data[18:20] = (0xF3 if data[18] != 0xF3 else 0xB7).to_bytes(2, "little")  # e_machine: RISC-V, or AArch64
    path.write_bytes(data)
    return path


def truncated(folder: Path) -> Path:
    path = c()(folder)
    path.write_bytes(path.read_bytes()[:3000])
    return path


def missing_driver(folder: Path) -> Path:
    """A library that links to one that is not installed."""
    source, driver = folder / "driver.c", folder / "libchipdriver.so.3"
    source.write_text(
        "int driver_function_that_nobody_defines(void);\nint driver_function_that_nobody_defines(void) { return 0; }\n"
    )
    compile_c(source, driver, "-shared", "-fPIC", "-Wl,-soname,libchipdriver.so.3")
    path = c("driver_function_that_nobody_defines()", "-Wl,--no-as-needed", str(driver))(folder)
    driver.unlink()
    return path


def pipe(folder: Path) -> Path:
    path = folder / "libtest.so"
    os.mkfifo(path)
    return path


def text_file(folder: Path) -> Path:
    path = folder / "libtest.so"
    path.write_text("this is no library\n" * 9)
    return path


NEWER = "memset(&newer, 0xAB, sizeof newer); newer.known = plugin; newer.known.struct_size = sizeof newer;"
SLOTS = ("device_count", "allocate", "free", "copy_to_device", "copy_to_host", "copy_on_device")
#: A minimal Python plug-in.
CLASS = """
import ctypes
from hardpoint.plugin import Plugin
class Test(Plugin):
    name = "test"
    def device_count(self): return 1
    def allocate(self, device, size): return ctypes.create_string_buffer(size)
    def free(self, device, address): pass
    def copy_to_device(self, device, dst, src, size, stream): ctypes.memmove(dst, src, size)
    copy_to_host = copy_on_device = copy_to_device
"""

#: A compiler in it, but for the fingerprint.
COMPILER = """
    def compile(self, device, source, options): return b"code"
    def load(self, device, binary): return 1
    def unload(self, device, program): pass
    def find(self, device, program, name): return 1
    def launch(self, *arguments): pass
"""

ACCEPTED: dict[str, Build] = {
    "right": c(),
    "newer minor": c("plugin.abi_minor = 99"),
    "newer header": c(f"{NEWER} newer.known.abi_minor = 99; *result = &newer.known"),
    "no optional fields": c("plugin.struct_size = offsetof(HpPlugin, streams)"),
    "starts a daemon": c("if (fork() == 0) { sleep(9); _exit(0); }"),
    "forks, and the child returns": c("(void)!fork()"),
    "chatty": c('fprintf(stderr, "driver: warming up\\n"); printf("driver: ready\\n")'),
}

#: Defect -> how to build it, and what the message contains besides the file's path.
REFUSED: dict[str, tuple[Build, tuple[str, ...]]] = {
    "wrong major": (
        c("plugin.abi_major = 2"),
        ("built for plug-in ABI 2.", "speaks ABI 1.x", "install a Hardpoint that speaks ABI 2.x"),
    ),
    "struct too small": (
        c("plugin.struct_size = offsetof(HpPlugin, copy_on_device)"),
        ("struct_size of HpPlugin is 64, at least 72 is needed", "set it to sizeof(HpPlugin)"),
    ),
    "struct_size not set": (c("plugin.struct_size = 0"), ("struct_size of HpPlugin is 0", "sizeof(HpPlugin)")),
    **{
        f"no {slot}": (c(f"plugin.{slot} = NULL"), (f"HpPlugin lacks the required function(s) {slot}:", "abi.md"))
        for slot in SLOTS
    },
    "two slots missing": (
        c("plugin.allocate = NULL; plugin.free = NULL"),
        ("HpPlugin lacks the required function(s) allocate, free:",),
    ),
    "half an extension": (
        c("plugin.streams = &half_of_streams"),
        ("HpStreams lacks the required function(s) destroy, synchronize:", "or leave the whole table out"),
    ),
    "function beyond struct_size": (
        c("plugin.peer = &short_peer"),
        ("HpPeer.struct_size is 8, which is the size of no such table: set it to sizeof(HpPeer)",),
    ),
    "half a function": (
        c("half_of_streams.struct_size = offsetof(HpStreams, destroy) + 4; plugin.streams = &half_of_streams"),
        ("HpStreams.struct_size is 20, which is the size of no such table",),
    ),
    "size of an optional table not set": (
        c("info.struct_size = 0; plugin.info = &info"),
        ("HpInfo.struct_size is 0,", "set it to sizeof(HpInfo)"),
    ),
    "size of a table is garbage": (
        c("plugin.struct_size = (size_t)-1"),
        ("HpPlugin.struct_size is 18446744073709551615, which is the size of no such table",),
    ),
    "pointer to a table is garbage": (
        c("plugin.events = (const HpEvents*)(uintptr_t)0x41414141"),
        (
            "crashed with signal 11 in the",
            "SIGSEGV while HpEvents was read (is the pointer to it right?)",
            "gdb --args",
        ),
    ),
    "num_kernels is too large": (
        c("plugin.num_kernels = (size_t)1 << 40"),
        ("HpPlugin.kernels",),
    ),
    "no entry": (
        c("", "-Dhp_plugin_init=another_name"),
        ("does not export hp_plugin_init", "source file", "HP_EXPORT"),
    ),
    "not a library": (text_file, ("cannot be loaded as a plug-in", "invalid ELF header", "rebuild or reinstall it")),
    "no file": (missing, ("no such file", "HARDPOINT_PLUGIN_PATH")),
    "undefined symbol": (
        c("driver_function_that_nobody_defines()"),
        ("cannot be loaded as a plug-in", "undefined symbol: driver_function_that_nobody_defines"),
    ),
    "other processor": (
        other_processor,
        ("cannot be loaded as a plug-in", "it is built for another kind of processor: install the build for"),
    ),
    "truncated": (truncated, (": ",)),
    "missing driver": (
        missing_driver,
        (
            "libchipdriver.so.3: cannot open shared object file",
            "the plug-in needs that library: install it (often with the driver), or add its folder to LD_LIBRARY_PATH",
        ),
    ),
    "pipe": (pipe, ("is not a file; name the plug-in's library or Python file",)),
    "name too long for a file": (
        lambda folder: folder / ("a" * 300 + ".so"),
        ("cannot be read: File name too long; check HARDPOINT_PLUGIN_PATH",),
    ),
    "init throws": (
        cpp('throw std::runtime_error("no firmware")'),
        (
            "hp_plugin_init failed (error): the plug-in threw a C++ exception: no firmware; it must catch it",
            "host->fail(...)",
        ),
    ),
    "init throws a number": (
        cpp("throw 42"),
        ("hp_plugin_init failed (error): the plug-in threw a C++ exception: of an unknown type; it must catch it",),
    ),
    "device_count throws": (
        cpp('plugin.device_count = [](int*) -> HpStatus { throw std::runtime_error("no bus"); }'),
        ("device_count failed (error): the plug-in threw a C++ exception: no bus",),
    ),
    "static constructor crashes": (
        cpp(loaded="std::abort()"),
        ("crashed with signal 6", "SIGABRT while the library was loaded (look at its static constructors", "gdb"),
    ),
    "static constructor hangs": (
        cpp(loaded="pause()"),
        ("loading it did not return within 2 s", "while the library was loaded (look at its static constructors"),
    ),
    "static constructor exits": (
        cpp(loaded="_exit(0)"),
        ("ended the probe process with exit status 0; loading it must not end the process",),
    ),
    "device_count hangs": (
        cpp("plugin.device_count = [](int*) -> HpStatus { pause(); return HP_OK; }"),
        ("device_count did not return within 2 s",),
    ),
    "exits like a refusal": (c("_exit(91)"), ("ended the probe process with exit status 91; hp_plugin_init must",)),
    "exits like a success": (c("_exit(90)"), ("ended the probe process with exit status 90; hp_plugin_init must",)),
    "name of several lines": (c('plugin.name = "te\\nst"'), ("device name 'te?st' is invalid",)),
    "stderr is closed": (
        c('close(2); return host->fail(HP_ERROR, "no firmware")'),
        ("hp_plugin_init failed (error): no firmware",),
    ),
    "init fails": (
        c('return host->fail(HP_DEVICE_LOST, "firmware %d is not running", 3)'),
        ("hp_plugin_init failed (device lost): firmware 3 is not running",),
    ),
    "init fails in two lines": (
        c('fputs("noise\\n", stderr); return host->fail(HP_ERROR, "no firmware:\\nrun chip-setup")'),
        ("hp_plugin_init failed (error): no firmware:\nrun chip-setup",),
    ),
    "init fails silently": (c("return HP_ERROR"), ("hp_plugin_init failed (error)",)),
    "init fails in another encoding": (
        c(r'return host->fail(HP_ERROR, "\xc7\xfd\xb6\xaf")'),
        ("hp_plugin_init failed (error): ????",),
    ),
    "unknown dialect": (
        c('plugin.compiler = &compiler; compiler.dialect = "metal"'),
        ("HpCompiler.dialect 'metal' is unknown", '"opencl", "cuda" or "c"'),
    ),
    "no group size": (
        c("plugin.compiler = &compiler; compiler.group_size = 0"),
        ("HpCompiler.group_size is 0: set it to",),
    ),
    "no kernels": (c("plugin.kernels = NULL"), ("HpPlugin.kernels is NULL, but num_kernels is 1",)),
    "kernel without a name": (c("kernels[0].name = NULL"), ("HpPlugin.kernels[0] has no name",)),
    "kernel without a function": (c("kernels[0].function = NULL"), ("HpPlugin.kernels[0] has no function",)),
    "no table": (c("*result = NULL"), ("hp_plugin_init returned HP_OK but set no plug-in table",)),
    "init crashes": (c("raise(SIGSEGV)"), ("crashed with signal 11", "gdb --args", "trial=False")),
    "init aborts": (c("abort()"), ("crashed with signal 6", "gdb --args")),
    "init hangs": (c("pause()"), ("hp_plugin_init did not return within 2 s", "look for a wait")),
    "init exits": (c("exit(0)"), ("ended the probe process with exit status 0", "hp_plugin_init must return")),
    "no devices": (c("devices = 0"), ("'test' found no device", "device_count gave 0", "check the driver")),
    "device_count fails": (
        c("plugin.device_count = failing_count"),
        ("device_count failed (error): driver 4.2 is too old",),
    ),
    "capital letters": (c('plugin.name = "Test"'), ("device name 'Test' is invalid", "a-z, 0-9 and _")),
    "long name": (c('plugin.name = "a_name_of_more_than_thirty_two_letters"'), ("is invalid: use at most 32",)),
    "empty name": (c('plugin.name = ""'), ("device name '' is invalid",)),
    "no name": (c("plugin.name = NULL"), ("device name (NULL) is invalid", "starting with a letter")),
    "Python: no class": (python("x = 1"), ("expected one class derived from hardpoint.plugin.Plugin, found 0 (none)",)),
    "Python: two classes": (
        python(CLASS + "class Other(Test): pass"),
        ("expected one class derived from hardpoint.plugin.Plugin, found 2 (Test, Other)",),
    ),
    "Python: no name": (python(CLASS + "    name = ''"), ("class Test has no name", 'set `name = "mychip"`')),
    "Python: syntax": (python("def"), ("SyntaxError: invalid syntax",)),
    "Python: ends the process": (
        python("import os\nos._exit(0)"),
        ("ended the probe process with exit status 0; the Python file must return",),
    ),
    "Python: aborts": (
        python(CLASS + "    def device_count(self): import os; os.abort()"),
        ("crashed with signal 6 in the probe process: SIGABRT in the Python file", "gdb --args"),
    ),
    "Python: hangs": (python("import time\ntime.sleep(99)"), ("the Python file did not return within",)),
    "Python: exits": (python("raise SystemExit('no license')"), ("SystemExit: no license",)),
    "Python: constructor raises": (
        python(CLASS + "    def __init__(self): raise OSError('no driver')"),
        ("OSError: no driver",),
    ),
    "Python: method raises": (
        python(CLASS + "    def device_count(self): return 1 // 0"),
        ("device_count failed (error): ZeroDivisionError",),
    ),
    "Python: method missing": (
        python(CLASS + "    free = None"),
        ("HpPlugin lacks the required function(s) free:", "docs/reference/abi.md"),
    ),
    "Python: number of devices is a text": (
        python(CLASS + "    def device_count(self): return 'two'"),
        ("device_count failed (error): TypeError: device_count returned 'two', which is no number",),
    ),
    "Python: no number of devices": (
        python(CLASS + "    def device_count(self): pass"),
        ("device_count returned None, which is no number",),
    ),
    "Python: number of devices is too large": (
        python(CLASS + "    def device_count(self): return (1 << 32) + 1"),
        ("device_count returned 4294967297, which is out of range",),
    ),
    "Python: name is a number": (python(CLASS + "    name = 5"), ("class Test has the name 5: set `name = ",)),
    "Python: name with a zero": (python(CLASS + "    name = 'te\\0st'"), ("device name 'te\\0st' is invalid",)),
    "Python: name raises": (
        python(CLASS + "    name = property(lambda self: 1 // 0)"),
        ("name of class Test: ZeroDivisionError",),
    ),
    "Python: message that UTF-8 lacks": (
        python(CLASS + "    def device_count(self): raise OSError('\\ud800 is lost')"),
        ("device_count failed (error): OSError: \\ud800 is lost",),
    ),
    "Python: message that cannot be read": (
        python(CLASS + "    def device_count(self): raise type('Odd', (Exception,), {'__str__': lambda e: 1 // 0})"),
        ("device_count failed (error): Odd: (its text cannot be read)",),
    ),
    "Python: error with the status OK": (
        python(
            "from hardpoint.plugin import DeviceError\n"
            + CLASS
            + "    def device_count(self): raise DeviceError(0, 'odd')"
        ),
        ("device_count failed (error): odd",),
    ),
    "Python: not an Exception": (
        python(CLASS + "    def __init__(self): raise type('Odd', (BaseException,), {})('no driver')"),
        ("Odd: no driver",),
    ),
    "Python: fingerprint raises": (
        python(CLASS + COMPILER + "    def fingerprint(self, device): raise OSError('no gcc')"),
        ("fingerprint failed: OSError: no gcc",),
    ),
    "Python: no fingerprint": (
        python(CLASS + COMPILER + "    def fingerprint(self, device): pass"),
        ("fingerprint is None, not a text",),
    ),
    "Python: negative group size": (
        python(CLASS + COMPILER + "    group_size = -1\n    def fingerprint(self, device): return 'test'"),
        ("group_size is -1, not a number of at least 0",),
    ),
    "Python: half an extension": (
        python(CLASS + "    def create_stream(self, device, priority): return 1"),
        ("HpStreams lacks the required function(s) destroy, synchronize:",),
    ),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Case -> its path and the result of loading it, all in one process."""
    root = tmp_path_factory.mktemp("plugins")
    paths = {}
    for number, (name, build) in enumerate({**ACCEPTED, **{n: b for n, (b, _) in REFUSED.items()}}.items()):
        folder = root / str(number)
        folder.mkdir()
        paths[name] = str(build(folder))
    code = f"""
import os
import hardpoint._discovery
hardpoint._discovery.PROBE_SECONDS = 2
answer = {{}}
for name, path in {paths!r}.items():
    try:
        plugin = hardpoint._discovery.load_path(path)
        answer[name] = dict(path=path, name=plugin.name, minor=plugin.abi_minor, devices=plugin.device_count)
    except hardpoint.PluginError as error:
        answer[name] = dict(path=path, error=str(error))
assert hardpoint.mounted() == []
os.chdir(os.path.dirname(answer["right"]["path"]))
answer["relative"] = hardpoint._discovery.load_path("libtest.so").origin
"""
    answer: dict[str, Any] = ask_python(code, root / "cache")
    return answer


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case: str, outcomes: dict[str, Any]) -> None:
    outcome = outcomes[case]
    assert "error" not in outcome, outcome["error"]
    assert (outcome["name"], outcome["devices"]) == ("test", 1)
    assert outcome["minor"] == (99 if "newer" in case else ABI[1])


def test_bare_file_name_is_relative_to_the_working_directory(outcomes: dict[str, Any]) -> None:
    assert outcomes["relative"] == outcomes["right"]["path"]


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, outcomes: dict[str, Any]) -> None:
    outcome = outcomes[case]
    assert "error" in outcome, "was accepted"
    assert outcome["error"].startswith(outcome["path"] + ": ")
    for part in REFUSED[case][1]:
        assert part in outcome["error"]
    assert "noise" not in outcome["error"]


# ---- import torch with a plug-in that is refused

IMPORT_TORCH = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
answer = dict(
    warnings=[(w.category.__name__, str(w.message)) for w in caught],
    sum=(torch.ones(2) + 1).tolist(),
    backend=torch._C._get_privateuse1_backend_name(),
    available=torch.accelerator.is_available(),
    left=[n for n in ("test", "other", "chip") if hasattr(torch, n)],
)
"""


def refused_by_torch(cache: Path, **variables: str) -> str:
    """Import torch in a separate process, check that nothing was registered, and return the only warning."""
    answer = ask_python(IMPORT_TORCH, cache, **variables)
    assert answer["sum"] == [2, 2]
    assert answer["backend"] == "privateuseone"
    assert answer["available"] is False
    assert answer["left"] == []
    assert len(answer["warnings"]) == 1, answer["warnings"]
    category, message = answer["warnings"][0]
    assert category == "RuntimeWarning"
    assert message.startswith("hardpoint: no device was mounted: ")
    assert message.endswith("\n`hardpoint doctor` lists all problems")
    return str(message)


@pytest.mark.parametrize(
    "case",
    ["wrong major", "no free", "no file", "not a library", "init crashes", "no devices", "Python: method raises"],
)
def test_import_torch_succeeds(case: str, outcomes: dict[str, Any], tmp_path: Path) -> None:
    path = outcomes[case]["path"]
    message = refused_by_torch(tmp_path, HARDPOINT_PLUGIN_PATH=path, HARDPOINT_DEVICE="test")
    assert outcomes[case]["error"] in message


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cuda", "is a built-in device type of torch"),
        ("nn", "would hide torch.nn"),
        ("numpy", "would hide Tensor.numpy"),
    ],
)
def test_names_reserved_by_torch(name: str, reason: str, tmp_path: Path) -> None:
    path = c(f'plugin.name = "{name}"')(tmp_path)
    message = refused_by_torch(tmp_path, HARDPOINT_PLUGIN_PATH=str(path), HARDPOINT_DEVICE=name)
    assert f"device name '{name}'" in message
    assert reason in message


def test_two_plugins_and_no_choice(outcomes: dict[str, Any], tmp_path: Path) -> None:
    """Usable plug-ins are listed with their devices' names, refused ones with their reasons."""
    other = c('plugin.name = "chip"')(tmp_path)
    paths = [outcomes["right"]["path"], outcomes["wrong major"]["path"], str(other)]
    message = refused_by_torch(tmp_path, HARDPOINT_PLUGIN_PATH=":".join(paths))
    assert f"more than one plug-in was found: test ({paths[0]}), chip ({other}); set HARDPOINT_DEVICE to one" in message
    assert message.count("refused: ") == 1
    assert f"\n  refused: {outcomes['wrong major']['error']}\n" in message


def test_only_refused_plugins(outcomes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    paths = [outcomes["no free"]["path"], outcomes["init crashes"]["path"], str(tmp_path / "empty")]
    message = refused_by_torch(tmp_path, HARDPOINT_PLUGIN_PATH=":".join(paths))
    assert "all 3 plug-ins were refused:" in message
    for reason in (outcomes["no free"]["error"], outcomes["init crashes"]["error"], "the folder has no *.so or *.py"):
        assert reason in message


def test_folder_without_a_plugin(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    message = refused_by_torch(tmp_path, HARDPOINT_PLUGIN_PATH=str(tmp_path / "empty"))
    assert f"{tmp_path / 'empty'}: the folder has no *.so or *.py file; check HARDPOINT_PLUGIN_PATH" in message


def test_only_usable_plugin_is_chosen(outcomes: dict[str, Any], tmp_path: Path) -> None:
    """Refused plug-ins are named in a warning. A crash stays in the probe process."""
    bad = ("wrong major", "init crashes", "Python: method raises")
    paths = [outcomes[case]["path"] for case in (*bad[:2], "right", bad[2])]
    answer = ask_python(IMPORT_TORCH, tmp_path, HARDPOINT_PLUGIN_PATH=":".join(paths))
    assert answer["backend"] == "test"
    ((category, message),) = answer["warnings"]
    assert category == "RuntimeWarning"
    assert message.startswith("hardpoint: chose 'test', the only usable plug-in of 4:")
    for case in bad:
        assert f"\n  refused: {outcomes[case]['error']}" in message


def test_no_plugin_with_that_name(outcomes: dict[str, Any], tmp_path: Path) -> None:
    """The message lists devices by name. Plug-ins of Hardpoint without their hardware are left out."""
    paths = [outcomes["right"]["path"], outcomes["wrong major"]["path"]]
    variables = {"HARDPOINT_PLUGIN_PATH": ":".join(paths), "OCL_ICD_VENDORS": "/nowhere", "CUDA_VISIBLE_DEVICES": ""}
    message = refused_by_torch(tmp_path, HARDPOINT_DEVICE="other", **variables)
    assert f"no plug-in provides a device named 'other'; available: test ({paths[0]}), sim\n" in message
    assert message.count("refused: ") == 1
    assert f"\n  refused: {outcomes['wrong major']['error']}\n" in message


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise OSError('no driver')", "(vendor_chip:plugin): OSError: no driver"),
        ("return 3", "expected the path of a shared library or a hardpoint.plugin.Plugin, got int"),
    ],
)
def test_entry_points_of_a_package(body: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "vendor_chip.py").write_text(f"def plugin():\n    {body}\n")
    info = tmp_path / "vendor_chip-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vendor-chip\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hardpoint.plugins]\nchip = vendor_chip:plugin\n")
    message = refused_by_torch(tmp_path / "cache", PYTHONPATH=str(tmp_path))
    assert reason in message
    assert "chip" in message


# ---- Plug-ins that fail at run time


def test_run_time_failures(outcomes: dict[str, Any], tmp_path: Path) -> None:
    """A plug-in whose functions fail on demand. The program continues after each failure."""
    path = outcomes["right"]["path"]
    code = f"""
import ctypes, torch, hardpoint
mode = ctypes.c_int.in_dll(ctypes.CDLL({path!r}), "mode")
NORMAL, NULL_POINTER, ODD_POINTER, FAILING_ALLOCATE, FAILING_COPY, RAISING_KERNEL, DECLINING_KERNEL = range(7)
KERNEL_WITHOUT_KIND, UNKNOWN_STATUS = 7, 8
one, two = torch.ones(2).to("test"), torch.full((2,), 2.0).to("test")
big = lambda: torch.empty(64 << 20, dtype=torch.uint8, device="test")
answer = {{}}
def failing(which, action):
    mode.value = which
    try:
        action()
        answer[which] = "no error"
    except Exception as error:
        answer[which] = [type(error).__name__, str(error)]
    mode.value = NORMAL
    assert (one + two).tolist() == [3, 3], which
    assert big().numel() == 64 << 20
    torch.test.empty_cache()
failing(NULL_POINTER, big)
failing(ODD_POINTER, big)
failing(FAILING_ALLOCATE, big)
failing(FAILING_COPY, lambda: one.cpu())
failing(RAISING_KERNEL, lambda: one + two)
failing(KERNEL_WITHOUT_KIND, lambda: one + two)
failing(UNKNOWN_STATUS, lambda: one.cpu())
hardpoint.reset_counters()
failing(DECLINING_KERNEL, lambda: one + two)
answer["calls"] = hardpoint.counters()["aten::add.Tensor"]
"""
    answer = ask_python(code, tmp_path, HARDPOINT_PLUGIN_PATH=path, HARDPOINT_DEVICE="test")
    null, odd, lost, copy, raising, declining, without_kind, unknown = (answer[str(which)] for which in range(1, 9))
    assert null[0] == "RuntimeError"
    assert "test:0: allocate of plug-in 'test' returned HP_OK" in null[1]
    assert "the pointer is NULL: it must return HP_OUT_OF_MEMORY when the device is full" in null[1]
    assert odd[0] == "RuntimeError"
    assert "it must be a multiple of HP_ALIGNMENT (64)" in odd[1]
    assert lost == ["RuntimeError", "test:0: allocate failed (device lost): device 0 fell off the bus"]
    assert copy == ["RuntimeError", "test:0: copy to the host failed (error): parity error on link 0"]
    assert raising == [
        "RuntimeError",
        "test:0: kernel 'add' failed in aten::add.Tensor: ValueError: tile 7 is out of range",
    ]
    assert without_kind == ["RuntimeError", "test:0: kernel 'add' failed in aten::add.Tensor: RuntimeError: broken ??"]
    assert unknown == ["RuntimeError", "test:0: copy to the host failed (unknown status 99)"]
    assert declining == "no error"
    assert answer["calls"] == {"cpu": 1, "vendor": 1}


def test_wrong_answers_of_a_compiler(tmp_path: Path) -> None:
    """Each is logged with its cause, and the CPU computes the result."""
    path = c("plugin.compiler = &compiler; plugin.info = &info")(tmp_path)
    code = f"""
import ctypes, torch
mode = ctypes.c_int.in_dll(ctypes.CDLL({str(path)!r}), "mode")
NORMAL, NO_FINGERPRINT, EMPTY_BINARY, UNREADABLE_ERROR, NULL_FUNCTION = 0, 9, 10, 11, 12
x = torch.full((2,), 4.0).to("test")
answer = [torch.test.get_device_name()]
for which, compute in (
    (NO_FINGERPRINT, lambda: x * 2),
    (EMPTY_BINARY, lambda: x.sqrt()),
    (UNREADABLE_ERROR, lambda: x.neg()),
    (NULL_FUNCTION, lambda: (x * 0).sin()),
):
    mode.value = which
    result = compute()
    mode.value = NORMAL
    answer.append(result.tolist())
print(answer)
"""
    done = run_python(["-c", code], env=environment(tmp_path, HARDPOINT_PLUGIN_PATH=str(path), HARDPOINT_DEVICE="test"))
    assert done.stdout.strip() == str(["?" * 127, [8.0, 8.0], [2.0, 2.0], [-4.0, -4.0], [0.0, 0.0]]), done.stderr
    logged = dict(
        line.removeprefix("[hardpoint] no portable kernel for ").split(" ", 1)
        for line in done.stderr.splitlines()
        if line.startswith("[hardpoint] no portable kernel")
    )
    assert "test:0: HpCompiler.fingerprint returned no text" in logged["mul"]
    assert "compile of plug-in 'test' returned HP_OK, but the binary is empty" in logged["sqrt"]
    assert logged["neg"].endswith("test:0: compilation failed (error): ??: unknown word \u4f60??")
    assert "find of plug-in 'test' returned HP_OK" in logged["sin"]
    assert "but the function is NULL" in logged["sin"]
    assert "specializer.py" not in done.stderr


def test_exceptions_of_functions(tmp_path: Path) -> None:
    """Each becomes an error that names the function. The device works afterwards."""
    path = cpp()(tmp_path)
    code = f"""
import ctypes, torch
mode = ctypes.c_int.in_dll(ctypes.CDLL({str(path)!r}), "mode")
ALLOCATE, COPY, SYNCHRONIZE, RECORD, KERNEL, NUMBER, NO_EVENT, NO_STREAM = range(1, 9)
x = torch.tensor([-1.0, 2.0]).to("test")
answer = {{}}
def failing(which, action):
    mode.value = which
    try:
        action()
        answer[which] = "no error"
    except RuntimeError as error:
        answer[which] = str(error)
    mode.value = 0
    assert x.relu().tolist() == [0, 2], which
failing(ALLOCATE, lambda: torch.empty(64 << 20, dtype=torch.uint8, device="test"))
failing(COPY, x.cpu)
failing(SYNCHRONIZE, torch.test.synchronize)
failing(RECORD, lambda: torch.Event("test").record())
failing(KERNEL, x.relu)
failing(NUMBER, x.cpu)
failing(NO_EVENT, lambda: torch.Event("test", enable_timing=True).record())
failing(NO_STREAM, lambda: torch.test.Stream(priority=-1))
"""
    answer = ask_python(code, tmp_path / "cache", HARDPOINT_PLUGIN_PATH=str(path), HARDPOINT_DEVICE="test")
    thrown = "the plug-in threw a C++ exception: the driver lost its mind; it must catch it and return host->fail(...)"
    allocate, copy, synchronize, record, kernel, number, event, stream = answer.values()
    assert allocate == f"test:0: allocate failed (error): {thrown}"
    assert copy == f"test:0: copy to the host failed (error): {thrown}"
    assert f"failed (error): {thrown}" in synchronize
    assert record == f"test:0: record of an event failed (error): {thrown}"
    assert kernel == f"test:0: kernel 'relu' failed in aten::relu: RuntimeError: {thrown}"
    assert "threw a C++ exception: of an unknown type" in number
    assert "HpEvents.create of plug-in 'test' returned HP_OK, but the event is NULL" in event
    assert "HpStreams.create of plug-in 'test' returned HP_OK, but the stream is NULL" in stream


def test_settings_of_the_process(tmp_path: Path) -> None:
    """A plug-in changes the working directory, the handler of Ctrl-C, rounding and the locale; each is restored."""
    init = '(void)!chdir("/"); std::signal(SIGINT, SIG_IGN); std::fesetround(FE_UPWARD);'
    path = cpp(init + ' std::setlocale(LC_ALL, "C"); close(1)')(tmp_path)
    code = """
import locale, os, signal
locale.setlocale(locale.LC_ALL, "C.UTF-8")
before = os.getcwd(), signal.getsignal(signal.SIGINT) is signal.default_int_handler, locale.setlocale(locale.LC_ALL)
import torch
after = os.getcwd(), signal.getsignal(signal.SIGINT) is signal.default_int_handler, locale.setlocale(locale.LC_ALL)
try:
    os.kill(os.getpid(), signal.SIGINT)
    interrupted = False
except KeyboardInterrupt:
    interrupted = True
answer = [before == after, interrupted, 0.1 + 0.2, torch.ones(2, device="test").tolist()]
"""
    environ = environment(tmp_path / "cache", HARDPOINT_PLUGIN_PATH=str(path), HARDPOINT_DEVICE="test")
    done = run_python(["-c", f"{code}\nprint(answer)"], env=environ)
    assert done.stdout.strip() == str([True, True, 0.1 + 0.2, [1.0, 1.0]]), done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("[hardpoint warning]"))
    changed = "the working directory, the locale, the standard streams"
    assert f"{path}: loading it changed settings of the process, which were restored: {changed}" in line


def test_same_file_twice(tmp_path: Path) -> None:
    """A file that is listed twice, by other names, is one plug-in. Two with one device name are an error."""
    path = c()(tmp_path)
    (tmp_path / "link.so").symlink_to(path)
    answer = ask_python(IMPORT_TORCH, tmp_path / "cache", HARDPOINT_PLUGIN_PATH=f"{path}:{tmp_path}:{path}")
    assert (answer["backend"], answer["warnings"]) == ("test", [])
    (tmp_path / "other").mkdir()
    other = c()(tmp_path / "other")
    message = refused_by_torch(tmp_path / "cache", HARDPOINT_PLUGIN_PATH=f"{path}:{other}")
    assert f"several plug-ins have a device of the same name: test ({path}), test ({other}); remove all but" in message


def test_bad_timeout(tmp_path: Path, outcomes: dict[str, Any]) -> None:
    path = outcomes["right"]["path"]
    message = refused_by_torch(tmp_path, HARDPOINT_PLUGIN_PATH=path, HARDPOINT_DEVICE="test", HARDPOINT_TIMEOUT="soon")
    assert "HARDPOINT_TIMEOUT is 'soon': set it to a number of seconds, 0 for no limit" in message
