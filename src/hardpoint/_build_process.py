"""Runs a build that many processes may ask for at once: lock, work folder, progress line, clean-up."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import BinaryIO

#: Start of the name of a work folder or temporary file; the owner's host, process and a random part follow.
PREFIX = "hardpoint-build-"


def print_message(text: str, end: str = "\n") -> None:
    """Print a line on stderr. Never fails: a program may have closed stderr."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"hardpoint: {text}{end}")
        sys.stderr.flush()


class Progress:
    """A line that announces a long step. A terminal shows the elapsed time in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.start = time.monotonic()
        self.is_terminal = False
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self.is_terminal = sys.stderr.isatty()
        print_message(text, end="" if self.is_terminal else "\n")

    def seconds(self) -> int:
        """Return the elapsed time."""
        return round(time.monotonic() - self.start)

    def update(self) -> None:
        """Show the elapsed time."""
        if self.is_terminal:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write("\r")
            print_message(f"{self.text} {self.seconds()} s", end="")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self.is_terminal:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write("\n")


class _Signal(BaseException):
    def __init__(self, number: int) -> None:
        self.number = number


@contextlib.contextmanager
def unwind_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack, so that everything is cleaned up, before they end the process."""
    replaced: list[int] = []

    def unwind(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one must not interrupt the clean-up
        raise _Signal(number)

    def restore() -> None:
        while replaced:
            signal.signal(replaced.pop(), signal.SIG_DFL)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:  # else the program handles it
                signal.signal(number, unwind)
                replaced.append(number)
    try:
        yield
    except _Signal as received:
        restore()
        os.kill(os.getpid(), received.number)
        raise
    finally:
        restore()


@contextlib.contextmanager
def lock(path: Path, purpose: str) -> Iterator[None]:
    """Hold a lock between processes. It ends with its process. ``purpose`` completes "process 1234, which ..."."""
    announced = False
    for _ in range(1000):  # not forever: a file system may have no stable inodes
        file = path.open("a+")
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not announced:
                    print_message(f"waiting for {_holder(path)}, which {purpose}")
                    announced = True
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError:
                pass  # a file system without locks: at worst, two processes do the same work
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    break
        except BaseException:
            file.close()
            raise
        file.close()  # the previous holder has removed this file
    try:
        with contextlib.suppress(OSError, ValueError):  # for _holder only
            file.truncate(0)
            file.write(f"{os.getpid()} {socket.gethostname()}")
            file.flush()
        yield
    finally:
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError, ValueError):
            fcntl.flock(file, fcntl.LOCK_UN)  # a forked process may have the file open, too
        file.close()


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        pid, host = path.read_text().split()
        return f"process {pid}" + ("" if host == socket.gethostname() else f" on {host}")
    return "another process"


def _host() -> str:
    """Return a name for the set of processes that share process ids with this one: a host, or a container on it."""
    with contextlib.suppress(OSError):
        return f"{socket.gethostname()}-{os.stat('/proc/self/ns/pid').st_ino}"
    return socket.gethostname()


def write_or_remove(path: Path, content: bytes) -> None:
    """Write a file that is nice to have. On a full or read-only disk there is none, rather than a part of it."""
    try:
        path.write_bytes(content)
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def temporary_prefix() -> str:
    """Return the start of this process's names for temporary files and work folders."""
    return f"{PREFIX}{_host()}-{os.getpid()}-"


def remove_stale_files(root: Path) -> None:
    """Remove the temporary files and work folders of builds on this host that were killed."""
    pattern = re.compile(rf"{re.escape(f'{PREFIX}{_host()}')}-(\d+)-")
    with contextlib.suppress(OSError):
        for path in root.iterdir():
            found = pattern.match(path.name)
            if found is None or _is_alive(int(found[1])):
                continue
            if path.is_dir():
                kill_processes(path)
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        pass
    with contextlib.suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(errors="replace")  # a zombie
    return True


@contextlib.contextmanager
def work_folder(root: Path) -> Iterator[Path]:
    """Create a folder for a build. It is removed at the end, after all of the build's processes."""
    path = Path(tempfile.mkdtemp(prefix=temporary_prefix(), dir=root))
    try:
        (path / "tmp").mkdir()
        yield path
    except BaseException:
        kill_processes(path)
        raise
    finally:
        shutil.rmtree(path, ignore_errors=True)


def run(command: list[str], environment: dict[str, str], work: Path, log: BinaryIO, progress: Progress) -> int:
    """Run a command of a build and return its exit status. Its output goes to ``log``.

    The output passes through a pipe, so the build cannot outlive this process by much: writing to it becomes an error.
    """
    process = subprocess.Popen(
        command,
        env={**environment, "TMPDIR": str(work / "tmp"), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C reaches this process only, which then ends the build
    )
    assert process.stdout is not None
    with process.stdout as pipe:
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        try:
            while True:
                if poll.poll(1000):
                    output = os.read(pipe.fileno(), 1 << 16)
                    if not output:
                        break
                    log.write(output)
                elif process.poll() is not None:
                    break  # a server that the compiler started, such as sccache, keeps the pipe open
                progress.update()
        except BaseException:
            kill_processes(work)
            process.kill()
            process.wait()
            raise
    return process.wait()


def kill_processes(work: Path) -> None:
    """Kill the processes of a build: those whose temporary folder is in its work folder.

    Killing the process group is not enough: ninja starts each compiler in a group of its own.
    """
    end = f"/{work.name}/tmp".encode()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        found = False
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                variables = entry.read_bytes().split(b"\0")
                if any(v.startswith(b"TMPDIR=") and v.endswith(end) for v in variables):
                    os.kill(int(entry.parent.name), signal.SIGKILL)
                    found = True
        if not found:
            return
        time.sleep(0.01)
