"""Python processes that start with torch in memory: importing it takes about two seconds, forking 0.1.

A server process, one for each test worker, imports torch and Dynamo without mounting a device. For each program it
forks a child with the given environment and working directory. In the child ``torch`` is not in ``sys.modules`` until
the program imports it, and that import mounts a device as usual.

Run as a program, this file is the server.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import importlib
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

Completed = subprocess.CompletedProcess[str]

#: Variables that may differ between the server and a program: nothing reads them before the program starts.
OWN_VARIABLES = ("HARDPOINT_", "PYTEST_", "PYTHONPATH", "SEED", "COLUMNS", "TERM")


def foreign(environment: dict[str, str]) -> dict[str, str]:
    """Variables that libraries may have read while the server imported them."""
    return {k: v for k, v in environment.items() if not k.startswith(OWN_VARIABLES)}


class ForkServer:
    """Starts the server on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._environment: dict[str, str] = {}
        self._ready = False

    def _address(self) -> str:
        with self._lock:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="fork-server-"))
                atexit.register(self.stop)
            address = str(self._folder / "socket")
            if self._server is None:
                self._environment = foreign(dict(os.environ))
                # The server ends with this process, which holds the other end of its standard input.
                self._server = subprocess.Popen(
                    [sys.executable, __file__, address],
                    env={**self._environment, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    cwd="/",
                )
                assert self._server.stdout is not None
                self._ready = self._server.stdout.readline() == b"ready\n"
            return address

    def stop(self) -> None:
        """End the server and remove its socket."""
        if self._server is not None and self._server.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._server.stdin.close()
            self._server.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def run(
        self, arguments: list[str], cwd: str, environment: dict[str, str], timeout: float | None
    ) -> Completed | None:
        """Run ``python ARGUMENTS``. Returns None if its environment requires a new process."""
        address = self._address()
        if not self._ready or foreign(environment) != self._environment:
            return None
        command = [sys.executable, *arguments]
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as connection:
            outputs = [Path(folder) / name for name in ("stdout", "stderr")]
            connection.connect(address)
            request = {"command": command, "cwd": cwd, "environment": environment, "outputs": [*map(str, outputs)]}
            connection.sendall(json.dumps(request).encode() + b"\n")
            answers = connection.makefile()
            pid = int(answers.readline())
            connection.settimeout(timeout)
            try:
                status = answers.readline()
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(command, timeout or 0, *(read(path) for path in outputs)) from None
            code = os.waitstatus_to_exitcode(int(status))
            return subprocess.CompletedProcess(command, code, *(read(path) for path in outputs))


def read(path: Path) -> str:
    """A program's output, decoded as ``text=True`` does."""
    return path.read_text() if path.exists() else ""


SERVER = ForkServer()


def run_python(
    arguments: Sequence[object],
    *,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    timeout: float | None = None,
    text: str = "",
    fresh: bool = False,
) -> Completed:
    """Run ``python ARGUMENTS``: FILE, -c CODE or -m MODULE, and what follows.

    Unless `fresh`, forks it from the server if it uses torch and not Paddle: `text`, if given, is searched for them
    instead of the program.
    """
    words = [*map(str, arguments)]
    environment = dict(os.environ) if env is None else env
    text = text or (words[1] if words[0].startswith("-") else Path(words[0]).read_text())
    if not fresh and "torch" in text and "paddle" not in text:
        done = SERVER.run(words, str(cwd or Path.cwd()), environment, timeout)
        if done is not None:
            return done
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


# --- the server ------------------------------------------------------------------------------------------------------


class DelayedTorch:
    """Import finder that hands over the module of torch, and mounts the device, when the program imports torch."""

    def __init__(self) -> None:
        self.module = sys.modules.pop("torch")
        self.spec = self.module.__spec__
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        spec = copy.copy(self.spec)
        spec.loader = self
        return spec

    def create_module(self, spec):
        return self.module

    def exec_module(self, module) -> None:
        sys.meta_path.remove(self)
        module.__spec__ = self.spec
        if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
            module._import_device_backends()


def serve(address: str) -> dict:
    """Answer requests. Returns in a child only, with its request; the server itself exits when its parent does."""
    import gc
    import selectors

    for name in ("torch", "torch._dynamo"):  # Dynamo is what optimizers import first
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(0, selectors.EVENT_READ)
    os.write(1, b"ready\n")
    children: dict[int, tuple[int, socket.socket]] = {}  # by pidfd
    while True:
        for key, _ in selector.select():
            if key.fd == 0:
                os._exit(0)
            if key.fileobj is listener:
                connection, _address = listener.accept()
                request = json.loads(connection.makefile().readline())
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    for file in (listener, connection, *(other for _, other in children.values())):
                        file.close()
                    for pidfd in children:
                        os.close(pidfd)
                    gc.unfreeze()
                    return request
                connection.sendall(f"{pid}\n".encode())
                pidfd = os.pidfd_open(pid)
                children[pidfd] = pid, connection
                selector.register(pidfd, selectors.EVENT_READ)
            else:
                selector.unregister(key.fd)
                pid, connection = children.pop(key.fd)
                os.close(key.fd)
                connection.sendall(f"{os.waitpid(pid, 0)[1]}\n".encode())
                connection.close()


def become(request: dict) -> list[str]:
    """Take over the request's environment; returns the arguments of Python."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for number, path in enumerate(request["outputs"], 1):
        output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.dup2(output, number)
        os.close(output)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    sys.orig_argv[:] = request["command"]
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[1:1] = [path for path in paths if path not in sys.path]
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    DelayedTorch()
    return request["command"][1:]


def run_as_main(arguments: list[str]) -> None:
    """Do what ``python ARGUMENTS`` does, except that this function is in the program's stack."""
    main = vars(sys.modules["__main__"])
    names = ("__name__", "__builtins__", "__doc__", "__package__", "__spec__", "__loader__")
    kept = {name: main[name] for name in names}
    main.clear()
    main.update(kept)
    first, *rest = arguments
    try:
        if first == "-m":
            sys.path[0] = os.getcwd()
            sys.argv[:] = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif first == "-c":
            sys.path[0] = ""
            sys.argv[:] = ["-c", *rest[1:]]
            exec(compile(rest[0], "<string>", "exec"), main)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(first))
            sys.argv[:] = arguments
            main["__file__"] = first
            exec(compile(Path(first).read_bytes(), first, "exec"), main)
    except SystemExit:
        raise
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__ and error.__traceback__.tb_next)
        raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else 1) from None


if __name__ == "__main__":
    import fork_server  # again: the program gets a __main__ without these definitions

    fork_server.run_as_main(fork_server.become(fork_server.serve(sys.argv[1])))
