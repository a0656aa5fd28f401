"""The progress display of the Makefile's long steps."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import runpy
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / ".ci" / "progress.py"

#: Output of pip, scikit-build-core and ninja -> what is shown for it.
OUTPUT = {
    "Collecting typer>=0.12 (from hardpoint)": "collecting typer>=0.12",
    "Processing /opt/wheels/torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl": "collecting torch-2.13.0+cpu",
    "  Downloading nowhere-1.0-py3-none-any.whl (532.5 MB)": "downloading nowhere-1.0 (532.5 MB)",
    "Installing collected packages: mdurl, rich, typer": "installing 3 packages",
    "Installing collected packages: mdurl": "installing mdurl",
    "  *** Configuring CMake...": "configuring CMake",
    "  [61/212] Building CXX object csrc/torch/CMakeFiles/x.dir/wrappers_2.cpp.o": "61 of 212 (wrappers_2.cpp)",
    "  [62/212] Linking CXX shared module libcore.so": "62 of 212 (libcore.so)",
    "  [62/212] Compiling sim's kernels": "62 of 212 (compiling sim's kernels)",
}
#: Prints a line, then waits for a file of the line's number.
PRODUCER = """
import os, sys, time
for number, line in enumerate(sys.argv[1:]):
    print(line, flush=True)
    while not os.path.exists(str(number)):
        time.sleep(0.01)
"""


def environment(**variables: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PROGRESS_", "COLUMNS"))}
    return {**inherited, "TERM": "xterm", **variables}


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(SCRIPT), *arguments]


def python(code: str, *arguments: str) -> list[str]:
    return ["--", sys.executable, "-c", code, *arguments]


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=folder, env=environment(**variables), capture_output=True, text=True, timeout=60
    )


def follow(read: Callable[[], str], folder: Path) -> str:
    """Let the producer continue once its line is shown; returns all that was shown until its end."""
    shown = ""
    for number, expected in enumerate(OUTPUT.values()):
        while expected not in shown:
            piece = read()
            assert piece, f"{expected!r} is missing in:\n{shown}"
            shown += piece
        (folder / str(number)).touch()
    while piece := read():
        shown += piece
    return shown


def test_lines_without_a_terminal(tmp_path: Path) -> None:
    with subprocess.Popen(
        command("building", "all of it", *python(PRODUCER, *OUTPUT)),
        cwd=tmp_path,
        env=environment(PROGRESS_INTERVAL="0.02"),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = follow(process.stdout.readline, tmp_path).splitlines()
    assert process.returncode == 0
    assert all(re.fullmatch(r"\[ *\d+ s\] building: [^\r\x1b]+", line) for line in lines)
    assert lines[0].endswith("building: all of it")
    assert re.search(r"building: done in \d+ s$", lines[-1])
    assert (tmp_path / "build" / "logs" / "building.log").read_text().splitlines() == list(OUTPUT)


def test_one_line_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    process = subprocess.Popen(
        command("building", "N" * 100, *python(PRODUCER, *OUTPUT)),
        cwd=tmp_path,
        env=environment(PROGRESS_INTERVAL="0.02"),
        stdout=theirs,
    )
    os.close(theirs)

    def read() -> str:
        try:
            return os.read(ours, 4096).decode()
        except OSError:  # how a terminal reports its end
            return ""

    shown = follow(read, tmp_path)
    os.close(ours)
    assert process.wait() == 0
    assert shown.count("\n") == 1
    *updates, last = shown.removesuffix("\r\n").split("\r")[1:]
    assert all(re.fullmatch(r"(?:\[ *\d+ s\] building: .+)?\x1b\[K", update) for update in updates)
    assert max(len(update.removesuffix("\x1b[K")) for update in updates) == 59
    assert re.fullmatch(r"\x1b\[K\[ *\d+ s\] building: done in \d+ s", last)


def test_times_count_from_the_start_of_make(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", "1 of 2", PROGRESS_START=str(time.time() - 1000))
    match = re.fullmatch(r"\[(\d+) s\] demo: 1 of 2\n", done.stdout)
    assert match
    assert int(match[1]) >= 1000
    assert not (tmp_path / "build").exists()


def test_a_quiet_command_is_shown_as_running(tmp_path: Path) -> None:
    done = run(tmp_path, "virtual environment", "--", "sleep", "0.3", PROGRESS_INTERVAL="0.01")
    assert "s] virtual environment: running\n" in done.stdout
    assert (tmp_path / "build" / "logs" / "virtual_environment.log").read_text() == ""


def test_growing_download(tmp_path: Path) -> None:
    part = tmp_path / "pip-unpack-1" / "torch-2.13.0-cp311-cp311-linux_x86_64.whl"
    part.parent.mkdir()
    with part.open("wb") as file:
        file.truncate(122_000_000)
    line = f"  Downloading https://host/{part.name} (532.5 MB)"
    code = f"import time; print({line!r}, flush=True); time.sleep(0.3)"
    done = run(tmp_path, "torch", *python(code), PROGRESS_INTERVAL="0.01", TMPDIR=str(tmp_path))
    assert "torch: downloading torch-2.13.0 (122 of 532.5 MB)\n" in done.stdout


def test_failed_build(tmp_path: Path) -> None:
    before = ["[1/3] Building CXX object error.cpp.o", "g++ -Werror -Wno-error x.cpp", "-- HAVE_ERROR - Failed"]
    matters = ["FAILED: [code=1] b.cpp.o", "g++ " + "x" * 1000, "b.cpp:1:16: error: ‘x’ was not declared"]
    pip = ["  error: subprocess-exited-with-error", "  × Building editable for tiny did not run successfully."]
    (tmp_path / "output").write_text("\n".join([*before, *matters, *pip, ""]))
    done = run(tmp_path, "building", "--", "sh", "-c", "cat output >&2; exit 3")
    assert done.returncode == 3
    _, failed, first, long, last, log = done.stdout.splitlines()
    assert re.search(r"building: failed with status 3 after \d+ s$", failed)
    assert (first, last) == (matters[0], matters[2])
    assert long == f"{matters[1][:240]} ..."
    assert log == "The complete log: build/logs/building.log"
    assert (tmp_path / "build/logs/building.log").read_text() == (tmp_path / "output").read_text()


@pytest.mark.parametrize(
    ("start", "shown"), [("ERROR: no matching distribution", range(-1, 39)), ("started", range(60, 100))]
)
def test_failure_shows_40_lines(tmp_path: Path, start: str, shown: range) -> None:
    done = run(tmp_path, "packages", *python(f"print({start!r}, *range(100), sep='\\n'); raise SystemExit(1)"))
    assert done.stdout.splitlines()[2:-1] == [start if number < 0 else str(number) for number in shown]


def test_missing_and_killed_commands(tmp_path: Path) -> None:
    done = run(tmp_path, "packages", "--", "no-such-program")
    assert done.returncode == 127
    assert "error: [Errno 2] No such file or directory: 'no-such-program'\n" in done.stdout
    assert run(tmp_path, "packages", "--", "sh", "-c", "kill -KILL $$").returncode == 128 + signal.SIGKILL


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("reason", "status"), [("SIGTERM", 143), ("SIGINT", 130), ("make ended", 143), ("closed pipe", 141)]
)
def test_nothing_keeps_running(tmp_path: Path, reason: str, status: int) -> None:
    make = subprocess.Popen(["sleep", "100"])
    # Like ninja, the command gives its child a process group of its own.
    code = """
import os, subprocess, time
child = subprocess.Popen(["sleep", "100"], preexec_fn=os.setpgrp)
print(os.getpid(), child.pid, flush=True)
time.sleep(100)
"""
    process = subprocess.Popen(
        command("building", *python(code)),
        cwd=tmp_path,
        env=environment(PROGRESS_MAKE=str(make.pid), PROGRESS_INTERVAL="0.1"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    log = tmp_path / "build" / "logs" / "building.log"
    while not (log.exists() and log.read_text().endswith("\n")):
        assert process.poll() is None
        time.sleep(0.01)
    pids = [int(pid) for pid in log.read_text().split()]
    assert len(pids) == 2
    assert all(map(is_running, pids))
    if reason == "make ended":
        make.kill()
    elif reason == "closed pipe":
        process.stdout.close()
    else:
        process.send_signal(signal.Signals[reason])
    assert process.wait(60) == status
    if reason != "closed pipe":
        assert re.search(r"building: interrupted after \d+ s\n$", process.stdout.read())
        process.stdout.close()
    assert not any(map(is_running, pids))
    make.kill()
    make.wait()


def test_deaf_commands_are_killed() -> None:
    stop = runpy.run_path(str(SCRIPT))["stop"]
    stop.__globals__["GRACE"] = 0.1
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(100)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        stop(process, signal.SIGTERM)
    assert process.returncode == -signal.SIGKILL
