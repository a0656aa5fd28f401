"""The command line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fork_server import run_python


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "COLUMNS": "600", "TERM": "dumb", **environment}
    return run_python(["-m", "hardpoint.cli", *arguments], env=variables, text="torch")


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


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


def test_version_and_short_help() -> None:
    from importlib.metadata import version

    assert run("--version").stdout == f"hardpoint {version('hardpoint')}\n"
    assert run("check", "-h").stdout == run("check", "--help").stdout
    assert "Check the device against the plug-in contract" in run("check", "-h").stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("check", "abi", "--html", "/nonexistent/x.html"), "--html: cannot write /nonexistent/x.html: No such file"),
        (("check", "abi", "--json", "/"), "--json: cannot write /: Is a directory"),
        (("check", "abi", "--junit", "/nonexistent/x.xml"), "--junit: cannot write /nonexistent/x.xml: No such file"),
        (("check", "abi", "--resume", "/nonexistent/x"), "--resume: cannot write /nonexistent/x: No such file"),
        (("check", "ops", "--keep", "/dev/null/x"), "--keep: cannot create the folder /dev/null/x: Not a directory"),
        (("check", "ops", "--against", "/nonexistent"), "no folder /nonexistent; create it with"),
        (("check", "--ops", "("), "--ops: '(' is not a valid regular expression: missing )"),
        (("check", "nosuch"), "unknown mode nosuch; expected abi, runtime"),
        (("check", "--dtypes", "float33"), "unknown dtype float33; expected float32"),
        (("coverage", "("), "OPERATORS: '(' is not a valid regular expression"),
        (("coverage", "--tier", "gpu"), "--tier: expected adapter, vendor, portable"),
        (("coverage", "--from", "missing.json"), "--from: cannot read missing.json: No such file"),
        (("coverage", "--from", __file__), "is not a report of `hardpoint check --json`"),
        (("coverage", "--html", "/nonexistent/x"), "--html: cannot write /nonexistent/x: No such file"),
        (("run", "missing.py"), "there is no script 'missing.py'"),
        (("replay", "missing.call"), "missing.call cannot be read: No such file"),
    ],
)
def test_invalid_options_are_refused_on_one_line(arguments: tuple[str, ...], expected: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    (said,) = done.stdout.splitlines()
    assert expected in said


@pytest.mark.parametrize("command", ["check", "coverage", "run", "replay", "doctor"])
def test_unknown_device_is_named(command: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\n")
    done = run(command, *([str(script)] if command in ("run", "replay") else []), HARDPOINT_DEVICE="nosuch")
    assert done.returncode == (1 if command == "doctor" else 2)
    assert "Traceback" not in done.stderr
    assert "no plug-in provides a device named 'nosuch'; available: " in done.stdout
    assert "ok   HARDPOINT_DEVICE" not in done.stdout


def test_replay_on_an_unknown_device(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text('import torch\ntorch.ones(2, device="sim")\n')
    assert run("run", "--record", str(tmp_path / "calls"), str(script), HARDPOINT_DEVICE="sim").returncode == 0
    for device, expected in (("nosuch", "there is no device 'nosuch'; mounted: sim"), ("sim:9", "'sim' has")):
        done = run("replay", str(tmp_path / "calls"), "--device", device, HARDPOINT_DEVICE="sim")
        assert done.returncode == 2
        assert expected in last_line(done)


def test_fallback_rule_without_an_operator_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\n")
    done = run("run", "--fallback", "softmx", str(script), HARDPOINT_DEVICE="sim")
    assert "fallback rule 'softmx' matches no torch operator; did you mean 'softmax'?" in done.stderr


def test_file_without_results_is_not_resumed(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("my notes\n")
    done = run("check", "abi", "--resume", str(file), HARDPOINT_DEVICE="sim")
    assert done.returncode == 2
    assert last_line(done) == f"failed: {file} has no results of `hardpoint check --resume`; use a new file"
    assert file.read_text() == "my notes\n"


def test_interrupted_check_reports_and_resumes(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    # Programs that a shell starts in the background, such as the tests, ignore SIGINT, and so do their children.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "hardpoint.cli"]
    command += ["check", "abi", "perf", "--resume", str(file)]
    environment = {**os.environ, "HARDPOINT_DEVICE": "sim", "COLUMNS": "200"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    limit = time.monotonic() + 100
    while not (file.exists() and '"perf"' in file.read_text()) and time.monotonic() < limit:
        time.sleep(0.02)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)  # as `timeout` does, for the process and its group
    output, errors = process.communicate(timeout=60)
    assert time.monotonic() - start < 8  # well below 2 s on an idle machine
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert int(re.findall(r"(\d+) passed", output)[0]) >= 60  # the report of what was done
    left = re.search(
        r"stopped: (\d+) entries have not run; to run them: (hardpoint check abi perf --resume .*)", output
    )
    assert left is not None
    assert str(file) in left[2]
    done = sum('"entry"' in line for line in file.read_text().splitlines())
    resumed = run("check", "abi", "perf", "--resume", str(file), HARDPOINT_DEVICE="sim")
    assert resumed.returncode == 0, resumed.stdout
    assert sum('"entry"' in line for line in file.read_text().splitlines()) == done + int(left[1])


def test_piped_tables_are_not_cut() -> None:
    command = [sys.executable, "-m", "hardpoint.cli", "coverage", "native_group_norm_backward|max_pool3d_with_indices"]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(command, capture_output=True, text=True, env={**environment, "HARDPOINT_DEVICE": "sim"})
    assert done.returncode == 0, done.stderr
    for name in ("aten::native_group_norm_backward.out", "aten::max_pool3d_with_indices_backward.grad_input"):
        (row,) = (line for line in done.stdout.splitlines() if f"{name} " in line)
        assert "…" not in row
        assert row.endswith("│")


def test_project_folder_chooses_its_device(tmp_path: Path) -> None:
    environment = {**os.environ, "COLUMNS": "600", "HARDPOINT_DEVICE": "", "HARDPOINT_PLUGIN_PATH": ""}

    def inside(*arguments: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hardpoint.cli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**environment, **more})

    for lang in ("python", "c"):
        inside("new", "device", f"acme{lang}", "--lang", lang, folder=tmp_path)
    unbuilt = inside("check", "abi", folder=tmp_path / "acmec")
    assert unbuilt.returncode == 2
    assert last_line(unbuilt).endswith("libacmec.so is not built yet: run `hardpoint build`")
    project = tmp_path / "acmepython"
    conformance = inside("check", "abi", folder=project)
    assert f"device: acmepython, of the project in {project}" in conformance.stdout
    assert "acmepython: conformance" in conformance.stdout
    assert conformance.returncode == 0, conformance.stdout
    chosen = inside("check", "abi", "--ops", "^version$", folder=project, HARDPOINT_DEVICE="sim")
    assert f"device: HARDPOINT_DEVICE=sim, not acmepython of the project in {project}" in chosen.stdout
