"""What a newcomer does with a device's project, in each language: new, both builds, install, run in both frameworks."""

from __future__ import annotations

import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from newcomer import WITHOUT_FRAMEWORKS, Machine

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

    if lang == "c":  # the inner loop, before anything is installed
        tested = machine.hardpoint("test", "-q", "tests/test_torch.py", "-k", "test_add or matmul", cwd=project).stdout
        assert "6 passed" in tested
        assert (project / "src" / "acme" / "libacme.so").exists()

    # No framework is needed to build, and none to check. A device that is asked for need not be there yet.
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
    # One framework at a time: what one adapter brings along must not be missing without it.
    for tests in ("tests/test_torch.py", "tests/test_paddle.py"):
        tested = machine.run("-m", "pytest", "-q", "-p", "no:cacheprovider", tests, cwd=project).stdout
        assert re.search(r"\d+ passed", tested)
        assert "skipped" not in tested
