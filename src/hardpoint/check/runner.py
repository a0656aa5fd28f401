"""Run entries in a worker process; restart it when it dies or hangs."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from hardpoint.check.report import Result

#: Seconds without a response after which a worker is killed.
TIMEOUT = 120.0
#: The same while a worker starts, mounts the device or loads PyTorch's databases.
LOADING = 900.0
#: GiB that a worker may map after mounting the device.
MEMORY = 12.0
COMMAND = (sys.executable, "-m", "hardpoint.check.worker")


class WorkerDied(Exception):
    """The worker exited or timed out."""


class WorkerProcess:
    """A worker process and its protocol."""

    def __init__(self, timeout: float, memory: float, command: Sequence[str] = COMMAND) -> None:
        self.command = command
        self.timeout = timeout
        self.memory = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._buffer = b""
        self._loading = False

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._buffer = b""
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the worker)
            pipe = subprocess.PIPE
            # In its own session, so that Ctrl-C reaches only this process, which then ends the worker.
            self._process = subprocess.Popen(
                self.command, stdin=pipe, stdout=pipe, stderr=self._errors, start_new_session=True
            )
            self._loading = True
        return self._process

    def _lines(self, process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                while b"\n" in self._buffer:
                    line, self._buffer = self._buffer.split(b"\n", 1)
                    response = json.loads(line)
                    self._loading = "loading" in response
                    yield response
                limit = LOADING if self._loading else self.timeout
                if not selector.select(limit):
                    raise WorkerDied(self._end(f"no response for {limit:g} s"))
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    raise WorkerDied(self._end(""))
                self._buffer += data

    def _end(self, reason: str) -> str:
        """End the process; returns the reason and the last lines of its stderr."""
        process, self._process = self._process, None
        assert process is not None
        if reason:
            process.kill()
        status = process.wait()
        if not reason:
            name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            reason = f"the process ended with {name}"
        self._errors.seek(0)
        lines = [x for x in self._errors.read().decode(errors="replace").splitlines() if x.strip()]
        self._errors.close()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        return "\n".join([reason, *lines[-12:]])

    def request(self, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Send a request and yield the responses to it."""
        process = self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps({**message, "memory": self.memory}).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise WorkerDied(self._end("")) from None
        for response in self._lines(process):
            if "error" in response:
                raise WorkerDied(response["error"])
            if "loading" in response:
                continue
            yield response
            if "at" not in response:
                return

    def entries(self, mode: str, pattern: str) -> list[str]:
        """Names of the entries of a mode that match."""
        for response in self.request({"list": mode, "pattern": pattern}):
            if "entries" in response:
                found: list[str] = response["entries"]
                return found
        raise WorkerDied("no response")

    def run(self, mode: str, entry: str, options: dict[str, Any]) -> Result:
        """Run one entry; if the worker dies, the result is ``crashed``."""
        at = "the start"
        try:
            for response in self.request({"mode": mode, "entry": entry, "options": options}):
                if "result" in response:
                    return Result.from_json(response["result"])
                at = response["at"]
        except WorkerDied as death:
            return Result(mode, entry, "crashed", failure=f"at {at}: {death}"[:1500])
        raise AssertionError("the worker sent no result")

    def kill(self) -> None:
        """End the worker at once."""
        if self._process is not None:
            self._end("killed")

    def close(self) -> None:
        """Close stdin and wait for the worker; kill it if it does not exit."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()
        self._process = None
