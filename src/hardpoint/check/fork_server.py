"""Processes that start with a framework in memory: importing Paddle takes seconds, forking milliseconds.

A server process imports the framework without mounting a device and forks a child for each job. The device is mounted
in the child, since few drivers survive a fork.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from typing import Any


class ForkServer:
    """Runs jobs one at a time in children of ``python -m module``, a module that calls :func:`serve`."""

    def __init__(self, module: str, env: Mapping[str, str]) -> None:
        self._module = module
        self._env = dict(env)
        self._server: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def run(self, argument: str, expired: Callable[[], str]) -> str:
        """Run a job; returns how it ended, empty if well. ``expired`` says why to end it now."""
        with tempfile.NamedTemporaryFile() as output:
            server = self._start()
            assert server.stdin is not None
            server.stdin.write(json.dumps({"argument": argument, "output": output.name}).encode() + b"\n")
            server.stdin.flush()
            pid = 0
            while True:
                answer = self._answer(server, 0.5)
                if answer is None:
                    if reason := expired():
                        self._end(pid)
                        return reason
                elif "pid" in answer:
                    pid = answer["pid"]
                else:
                    break
            status = answer["status"]
            if status == 0:
                return ""
            output.seek(0)
            return describe_end(status, output.read())

    def stop(self) -> None:
        """End the server."""
        server, self._server, self._buffer = self._server, None, b""
        if server is not None:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._server is None:
            pipe = subprocess.PIPE
            command = [sys.executable, "-m", self._module]
            self._server = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=self._env, start_new_session=True)
        return self._server

    def _answer(self, server: subprocess.Popen[bytes], seconds: float) -> dict[str, Any] | None:
        """The server's next message, or None if there is none within this time."""
        assert server.stdout is not None
        while b"\n" not in self._buffer:
            with selectors.DefaultSelector() as selector:
                selector.register(server.stdout, selectors.EVENT_READ)
                if not selector.select(seconds):
                    return None
            data = os.read(server.stdout.fileno(), 1 << 12)
            if not data:
                status = server.wait()
                self._server = None
                return {"status": status or 1}
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self, pid: int) -> None:
        """End the job, or the server if the job has not started."""
        if not pid:
            return self.stop()
        os.killpg(pid, signal.SIGKILL)
        while self._server is not None and "status" not in (self._answer(self._server, 60) or {"status": 0}):
            pass
        return None


def describe_end(status: int, output: bytes) -> str:
    """How a process ended, with the last lines of its output."""
    last = [line for line in output.decode(errors="replace").splitlines() if line.strip()][-6:]
    name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return "\n".join([f"the process ended with {name}", *last])


def serve(run: Callable[[str], None]) -> None:
    """Fork a child for each job that :class:`ForkServer` sends, which calls ``run``."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else may write to the pipe
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _run_child(run, job)
        # The child does the same: whoever is first, its group exists before the server is asked to end it.
        os.setpgid(pid, pid)
        print(json.dumps({"pid": pid}), file=answers, flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), file=answers, flush=True)


def _run_child(run: Callable[[str], None], job: dict[str, str]) -> None:
    """Run a job and exit without cleanup: some leave threads behind."""
    os.setpgid(0, 0)
    status = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for target in (1, 2):
            os.dup2(os.open(job["output"], os.O_WRONLY | os.O_APPEND), target)
        run(job["argument"])
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
