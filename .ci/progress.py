"""Run a long command of the Makefile and show what it is doing: ``progress.py TITLE [NOTE] [-- COMMAND...]``.

The command's output goes to ``build/logs/TITLE.log``; the progress is taken from pip's and ninja's lines in it. A
terminal gets one line, updated in place; anything else gets a line every 15 seconds. Times count from the start of
``make``. Without a command, prints TITLE and NOTE once.

Runs before ``.venv`` exists: standard library only.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

#: When ``make`` started, in seconds since the epoch.
START = "PROGRESS_START"
#: Process id of ``make``. Its end ends the command: shells between the two do not pass on signals.
MAKE = "PROGRESS_MAKE"
#: Seconds between two lines: 1 on a terminal, else 15.
INTERVAL = "PROGRESS_INTERVAL"
#: Lines of the log that a failure shows, and the characters of each.
EXCERPT, WIDTH = 40, 240
#: Seconds that an interrupted command has to clean up before it is killed.
GRACE = 5.0

#: A compiler's, CMake's, pip's or Python's error, but neither ``-Werror`` nor ``error.cpp``.
ERROR = re.compile(r"(?<![-\w/.])(?:error|ERROR|\w*Error)(?:[: ]|$)|\bFAILED\b")
#: Where pip's report on a failed build starts. It follows the build's own errors and says less.
PIP_REPORT = "error: subprocess-exited-with-error"


def short_name(path: str) -> str:
    """Return the name and version of a wheel, or the base name of another file or address."""
    name = path.rstrip("/").rpartition("/")[2]
    return "-".join(name.split("-")[:2]) if ".whl" in name else name


def _ninja(match: re.Match[str]) -> str:
    done, total, what = match.groups()
    if what.startswith(("Building", "Linking")):
        what = what.rpartition("/")[2].split()[-1].removesuffix(".o")
    else:
        what = what[0].lower() + what[1:]
    return f"{done} of {total} ({what})"


def _download(match: re.Match[str]) -> str:
    address, size, unit = match.groups()
    if unit == "MB":
        for part in Path(tempfile.gettempdir()).glob("pip-unpack-*/*"):
            if part.name == address.rpartition("/")[2]:
                with contextlib.suppress(OSError):
                    size = f"{part.stat().st_size / 1e6:.0f} of {size}"
    return f"downloading {short_name(address)} ({size} {unit})"


def _install(match: re.Match[str]) -> str:
    names = match[1].split(", ")
    return f"installing {names[0]}" if len(names) == 1 else f"installing {len(names)} packages"


def _collect(match: re.Match[str]) -> str:
    return f"collecting {short_name(match[1])}"


#: How an output line starts -> what it says.
RULES: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    (re.compile(r"\[(\d+)/(\d+)\] (.+)"), _ninja),
    (re.compile(r"(?:Collecting|Processing|Obtaining|Using cached) ([^\s;]+)"), _collect),
    (re.compile(r"Downloading (\S+) \(([\d.]+) (\w+)\)"), _download),
    (re.compile(r"Building (?:wheel|editable) for (\S+) .*: started"), lambda m: f"building {m[1]}"),
    (re.compile(r"Installing collected packages: (.+)"), _install),
    (re.compile(r"WARNING: Retrying "), lambda m: "the connection broke; pip tries again"),
    # scikit-build-core's stages: "*** Configuring CMake..."
    (re.compile(r"\*\*\* (\w)(.+)\.\.\.$"), lambda m: m[1].lower() + m[2]),
]


class Activity:
    """What a command is doing, according to its output."""

    def __init__(self, note: str) -> None:
        self._note = note
        self._rest = b""
        self._latest: tuple[Callable[[re.Match[str]], str], re.Match[str]] | None = None

    def feed(self, output: bytes) -> None:
        """Take the next piece of output."""
        *lines, self._rest = (self._rest + output).replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            text = line.decode(errors="replace").strip()
            for pattern, describe in RULES:
                if match := pattern.match(text):
                    self._latest = describe, match
                    break

    def __str__(self) -> str:
        # Described anew each time: a download grows.
        return self._latest[0](self._latest[1]) if self._latest else self._note


class Display:
    """Lines with the time since the start of ``make``."""

    def __init__(self, title: str) -> None:
        self.terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self.interval = float(os.environ.get(INTERVAL, "1" if self.terminal else "15"))
        self._title = title
        self._origin = float(os.environ.get(START, time.time()))
        self._begin = self._shown = time.monotonic()

    def _line(self, text: str) -> str:
        colon = ": " if text else ""
        return f"[{max(0.0, time.time() - self._origin):3.0f} s] {self._title}{colon}{text}"

    def begin(self, text: str) -> None:
        """Show the step's first line."""
        if self.terminal:
            self._in_place(text)
        else:
            print(self._line(text), flush=True)

    def update(self, activity: Activity) -> None:
        """Show what is going on, if the last line is old enough."""
        if time.monotonic() - self._shown < self.interval:
            return
        self._shown = time.monotonic()
        if self.terminal:
            self._in_place(str(activity))
        else:
            print(self._line(str(activity) or "running"), flush=True)

    def end(self, text: str) -> None:
        """Show the step's last line, with its duration: ``done in 12 s``."""
        clear = "\r\x1b[K" if self.terminal else ""
        print(f"{clear}{self._line(text)} {time.monotonic() - self._begin:.0f} s", flush=True)

    def _in_place(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{self._line(text)[:width]}\x1b[K", end="", flush=True)


def session_of(pid: int | str) -> int | None:
    """Return the session of a process, or None if it has ended."""
    try:
        state, _, _, session = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[:4]
    except OSError:
        return None
    return None if state == "Z" else int(session)


def session_processes(session: int) -> list[int]:
    """Return the processes of a session. It includes ninja's compilers, which have process groups of their own."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [pid for pid in pids if session_of(pid) == session]


def make_ended() -> bool:
    """Whether ``make`` started this program and has ended since."""
    return MAKE in os.environ and session_of(os.environ[MAKE]) is None


def stop(process: subprocess.Popen[bytes], signum: int) -> None:
    """Send a signal to the command and everything it started, and kill what outlives it."""
    for number in (signum, signal.SIGKILL):
        for pid in session_processes(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline = time.monotonic() + GRACE
        while session_processes(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
    process.wait()


def run(command: list[str], log: io.BufferedIOBase, activity: Activity, display: Display) -> tuple[int, bool]:
    """Run the command; returns its exit status and whether a signal to this program ended it."""
    # Signals arrive as bytes of a pipe, so that they wake up select(). Ignored ones (nohup) stay ignored.
    wake, wake_end = os.pipe()
    os.set_blocking(wake_end, False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(wake_end)

    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    assert process.stdout is not None
    output = process.stdout.fileno()
    sources = [wake, output]
    try:
        while True:
            # An open pipe says when the command ends; a closed one leaves polling.
            timeout = min(1.0, display.interval) if output in sources else 0.05
            ready = select.select(sources, [], [], timeout)[0]
            if wake in ready or make_ended():
                signum = os.read(wake, 1)[0] if wake in ready else signal.SIGTERM
                stop(process, signum)
                return 128 + signum, True
            if output in ready:
                if data := os.read(output, 1 << 16):
                    log.write(data)
                    log.flush()
                    activity.feed(data)
                else:
                    sources.remove(output)
            elif (status := process.poll()) is not None:
                return status if status >= 0 else 128 - status, False
            display.update(activity)
    except BaseException:  # such as a closed standard output
        stop(process, signal.SIGTERM)
        raise


def excerpt(lines: list[str]) -> list[str]:
    """Return the lines of a log that explain a failure: from the first error on, else the last ones."""
    errors = [i for i, line in enumerate(lines) if ERROR.search(line)]
    reports = [i for i in errors if lines[i].strip() == PIP_REPORT]
    if reports and reports[0] > errors[0]:
        lines = lines[: reports[0]]
    lines = lines[errors[0] :][:EXCERPT] if errors else lines[-EXCERPT:]
    return [line if len(line) <= WIDTH else f"{line[:WIDTH]} ..." for line in lines]


def main() -> int:
    """Run the command line; returns the command's exit status."""
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    names, command = arguments[:split], arguments[split + 1 :]
    if not 1 <= len(names) <= 2:
        print(f"usage: {Path(sys.argv[0]).name} TITLE [NOTE] [-- COMMAND...]", file=sys.stderr)
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    title, note = names[0], names[1] if len(names) == 2 else ""
    display, activity = Display(title), Activity(note)
    if not command:
        display.terminal = False
        display.begin(note)
        return 0

    path = Path("build", "logs", f"{re.sub(r'[^A-Za-z0-9]+', '_', title)}.log")
    path.parent.mkdir(parents=True, exist_ok=True)
    display.begin(note)
    with path.open("wb") as log:
        try:
            status, interrupted = run(command, log, activity, display)
        except (FileNotFoundError, PermissionError) as error:
            log.write(f"error: {error}\n".encode())
            status, interrupted = 127, False
    if interrupted:
        display.end("interrupted after")
    elif status == 0:
        display.end("done in")
    else:
        display.end(f"failed with status {status} after")
        print(*excerpt(path.read_text(errors="replace").splitlines()), sep="\n")
        print(f"The complete log: {path}", flush=True)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # as in `make demo | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
