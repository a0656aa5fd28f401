"""A device project in each language: generate, build in two ways, install, and run in both frameworks."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from virtual_environment import WITHOUT_FRAMEWORKS, Machine

pytestmark = pytest.mark.slow


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def symbols(library: bytes, folder: Path, *flags: str) -> str:
    file = folder / "library.so"
    file.write_bytes(library)
    return subprocess.run(["nm", "-D", *flags, str(file)], check=True, capture_output=True, text=True).stdout


def build_with_cmake(machine: Machine, project: Path) -> Path:
    cmake = shutil.which("cmake")
    assert cmake is not None
    where = machine.hardpoint("cmake-dir").stdout.strip()
    environment = {**machine.environment, **WITHOUT_FRAMEWORKS}
    configure = [cmake, "-S", project, "-B", project / "build" / "cmake", f"-DPython_EXECUTABLE={machine.python}"]
    subprocess.run([*configure, f"-DHardpoint_DIR={where}"], check=True, capture_output=True, env=environment)
    command = [cmake, "--build", project / "build" / "cmake", "--target", "wheel"]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return next((project / "build" / "cmake" / "dist").glob("*.whl"))


@pytest.mark.parametrize("lang", ["c", "cpp", "python"])
def test_device(lang: str, machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = machine.hardpoint("new", "device", "acme", "--lang", lang).stdout
    project = tmp_path / "acme"
    with capsys.disabled():
        print(f" {lang}:", re.search(r"\d+ lines of code", said)[0], end=" ")

    if lang == "c":  # before anything is installed
        tested = machine.hardpoint("test", "-q", "tests/test_torch.py", "-k", "test_add or matmul", cwd=project).stdout
        assert "7 passed" in tested
        assert (project / "src" / "acme" / "libacme.so").exists()

    # Building and checking need no framework, and HARDPOINT_DEVICE may name a device that is not installed yet.
    asked = {"HARDPOINT_DEVICE": "acme", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    machine.pip("wheel", ".", "-w", "dist", "--no-build-isolation", cwd=project, **WITHOUT_FRAMEWORKS, **asked)
    wheel = next((project / "dist").glob("*.whl"))
    checked = machine.hardpoint("wheel", "--check", wheel, **WITHOUT_FRAMEWORKS).stdout
    assert "hardpoint.plugins: acme = acme" in checked
    if lang == "python":
        assert wheel.name == "acme-0.1.0-py3-none-any.whl"
    else:
        assert re.fullmatch(r"acme-0\.1\.0-py3-none-linux_\w+\.whl", wheel.name)
        library = contents(wheel)["acme/libacme.so"]
        assert set(symbols(library, tmp_path, "--defined-only", "-j").split()) == {
            *("hp_plugin_init", "__tvm_ffi_add", "__tvm_ffi_matmul")
        }
        everything = symbols(library, tmp_path, "-C")
        assert not re.search(r"\b(torch|at|c10|paddle|phi|Py\w+)(::|_)", everything), everything

        other = build_with_cmake(machine, project)
        assert other.name == wheel.name
        ours, theirs = contents(wheel), contents(other)
        assert set(ours) == set(theirs)
        compiled = {"acme/libacme.so", "acme-0.1.0.dist-info/RECORD"}
        assert {n for n in ours if ours[n] != theirs[n]} <= compiled
        for flags in (["--defined-only", "-j"], ["--undefined-only", "-j"]):
            assert symbols(theirs["acme/libacme.so"], tmp_path, *flags) == symbols(library, tmp_path, *flags)
        wheel = other

    machine.pip("install", wheel)
    listed = machine.hardpoint("devices").stdout
    assert "package acme" in listed
    assert "My first chip" in listed
    # In separate processes: each framework must work without the other's adapter.
    for tests in ("tests/test_torch.py", "tests/test_paddle.py"):
        tested = machine.run("-m", "pytest", "-q", "-p", "no:cacheprovider", tests, cwd=project).stdout
        assert re.search(r"\d+ passed", tested)
        assert "skipped" not in tested


@pytest.mark.parametrize("lang", ["c", "python"])
def test_refused_plugin_stops_before_the_tests(lang: str, machine: Machine, tmp_path: Path) -> None:
    machine.hardpoint("new", "device", "acme", "--lang", lang)
    project = tmp_path / "acme"
    file, line, broken = {
        "c": ("csrc/runtime.c", ".free = release", ".free = 0"),
        "python": ("src/acme/device.py", "def free(self", "free = None\n\n    def other(self"),
    }[lang]
    source = project / file
    assert line in source.read_text()
    source.write_text(source.read_text().replace(line, broken))
    done = machine.hardpoint("test", cwd=project, check=False)
    assert done.returncode == 1
    (said,) = done.stdout.splitlines()
    assert said.startswith(f"refused: {project}/src/acme/")
    assert "HpPlugin lacks the required function(s) free: set them" in said
    assert "Traceback" not in done.stderr
