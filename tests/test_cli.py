"""The command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hardpoint.cli", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "600", "TERM": "dumb", **environment}
    )


def test_devices_shows_plugins_and_devices() -> None:
    done = run("devices", HARDPOINT_SIM_DEVICES="3", HARDPOINT_SIM_MEMORY="2G")
    assert done.returncode == 0, done.stderr
    assert "3 devices" in done.stdout
    for expected in ("sim:0", "sim:1", "sim:2", "2.0 GiB", "streams, events", "package hardpoint"):
        assert expected in done.stdout
    assert "Default device: sim" in done.stdout


def test_devices_says_why_a_plugin_was_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.so"
    bad.write_text("this is no library")
    done = run("devices", HARDPOINT_PLUGIN_PATH=str(bad), HARDPOINT_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0
    assert "refused" in done.stdout
    assert "bad.so" in done.stdout
    assert "sim:0" in done.stdout  # the other plug-in still works


def test_refused_plugins_are_listed_in_full_on_a_narrow_console(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    bad = folder / "bad.so"
    bad.write_text("this is no library")
    missing = {"OCL_ICD_VENDORS": "/nowhere", "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "80"}
    done = run("devices", HARDPOINT_PLUGIN_PATH=str(bad), HARDPOINT_CACHE=str(tmp_path / "cache"), **missing)
    lines = done.stdout.splitlines()
    (refused,) = (number for number, line in enumerate(lines) if line.startswith(f"refused: {bad}: cannot be loaded"))
    assert [line[: line.rindex(":")] for line in lines[refused + 1 : refused + 3]] == [
        "not available: nv",
        "not available: ocl",
    ]


def test_coverage_of_a_refused_plugin(tmp_path: Path) -> None:
    done = run("coverage", HARDPOINT_DEVICE="", HARDPOINT_PLUGIN_PATH=str(tmp_path / "missing.so"))
    assert done.returncode == 2
    assert done.stdout == (
        f"failed: {tmp_path}/missing.so: no such file; check HARDPOINT_PLUGIN_PATH or reinstall the plug-in's package\n"
    )
    assert "Traceback" not in done.stderr


def test_devices_of_a_misconfigured_sim() -> None:
    done = run("devices", HARDPOINT_SIM_DEVICES="many", OCL_ICD_VENDORS="/nowhere", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1, "sim must be the only device here"
    assert "HARDPOINT_SIM_DEVICES is 'many'" in " ".join(done.stdout.split())


def test_doctor_passes() -> None:
    done = run("doctor")
    assert done.returncode == 0, done.stdout
    for subject in ("hardpoint", "apache-tvm-ffi", "C++ compiler", "torch adapter", "plug-in sim", "HARDPOINT_DEVICE"):
        assert f"{subject}:" in done.stdout
    assert "fix" not in done.stdout.split("hardpoint:")[0]


def test_help_names_the_commands() -> None:
    done = run("--help")
    assert done.returncode == 0
    for command in ("devices", "doctor", "check", "coverage", "mount-paddle-plugin", "build", "new", "test", "wheel"):
        assert command in done.stdout
