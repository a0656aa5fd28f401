"""Builds the C++ tests of the core and of sim with sanitizers, and runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tvm_ffi import libinfo

ROOT = Path(__file__).parent.parent
#: Persistent build folders, so that a second run compiles nothing.
BUILD = ROOT / "build" / "native"
SANITIZERS = ("address", "thread")
PROGRAMS = sorted(path.stem for path in (Path(__file__).parent / "native").glob("test_*.cpp"))


def _tool(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    assert found, f"{name} is needed to build the C++ tests: pip install {name}"
    return found


@pytest.fixture(scope="module", params=SANITIZERS)
def built(request: pytest.FixtureRequest) -> tuple[str, Path]:
    folder = BUILD / request.param
    configure = [
        *(_tool("cmake"), "-G", "Ninja", "-S", str(ROOT), "-B", str(folder), f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}"),
        *("-DHARDPOINT_STRICT=ON", "-DHARDPOINT_NATIVE_TESTS=ON", f"-DPython_EXECUTABLE={sys.executable}"),
        # Debug enables assertions; -O1 halves the compile time.
        *("-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1"),
        f"-DHARDPOINT_SANITIZE={request.param}",
    ]
    for command in (configure, [_tool("cmake"), "--build", str(folder), "-j", "2"]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return request.param, folder


@pytest.mark.slow
def test_any_files_can_share_a_translation_unit(tmp_path: Path) -> None:
    """A new file in csrc/core or csrc/ops changes which files CMake compiles together."""
    sources = sorted(path for folder in ("core", "ops") for path in (ROOT / "csrc" / folder).rglob("*.cpp"))
    assert len(sources) > 50
    every = tmp_path / "every.cpp"
    every.write_text("".join(f'#include "{path}"\n' for path in sources))
    folders = (ROOT / "csrc", ROOT / "include", libinfo.find_include_path(), libinfo.find_dlpack_include_path())
    command = [_tool("g++"), "-std=c++17", "-fsyntax-only", "-Wno-subobject-linkage", *(f"-I{f}" for f in folders)]
    done = subprocess.run([*command, str(every)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", PROGRAMS)
def test_native(built: tuple[str, Path], program: str) -> None:
    _, folder = built
    environment = {
        **os.environ,
        "HP_SIM_LIBRARY": str(folder / "plugins" / "sim" / "libhardpoint_sim.so"),
        # ASan's guess of the size of a thread's TLS blocks is wrong for this glibc, and LSan crashes reading them.
        "ASAN_OPTIONS": "intercept_tls_get_addr=0",
        # TSan's default is to sleep for a second at exit.
        "TSAN_OPTIONS": "atexit_sleep_ms=0",
    }
    done = subprocess.run(
        [str(folder / "tests" / "native" / program)], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    last = done.stdout.strip().splitlines()[-1]
    passed, failed = (int(part.split()[0]) for part in last.split(", "))
    source = ROOT / "tests" / "native" / f"{program}.cpp"
    assert passed == source.read_text().count("\nTEST(")
    assert failed == 0
    assert "ERROR: AddressSanitizer" not in done.stderr
    assert "WARNING: ThreadSanitizer" not in done.stderr
