"""Runs a program as ``python`` would: with its own ``__main__``, to the end of its threads, with its exit status."""

from __future__ import annotations

import atexit
import importlib.util
import io
import os
import signal
import sys
import threading
import traceback
import types
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NoReturn

#: Status of a program that ended by Ctrl-C, as in `subprocess`.
INTERRUPTED = -signal.SIGINT


class Program:
    """``python SCRIPT ARGUMENT...``, or ``python -m MODULE ARGUMENT...``.

    Attributes:
        name: The script or module, as the user gave it.
        path: Absolute path of the script; None for a module.
    """

    def __init__(self, name: str, arguments: list[str], *, module: bool = False) -> None:
        """Raises ``ValueError`` if there is no such script or module."""
        self.name = name
        self.path = None if module else Path(os.path.abspath(name))
        self._arguments = arguments
        if self.path is not None:
            if not self.path.is_file():
                raise ValueError(f"there is no script '{name}'")
        else:
            # Only the outermost package: finding the module would import it.
            package = name.partition(".")[0]
            sys.path.insert(0, os.getcwd())
            try:
                found = importlib.util.find_spec(package)
            except (ImportError, ValueError):
                found = None
            finally:
                del sys.path[0]
            if found is None:
                raise ValueError(f"there is no module '{name}'")

    def set_arguments(self) -> None:
        """Set ``sys.argv``. :meth:`run` does so, too."""
        sys.argv = [self.name, *self._arguments]

    def run(self) -> int:
        """Run the program and wait for its threads. Prints an exception that ends it, and returns its exit status."""
        self.set_arguments()
        sys.excepthook = sys.__excepthook__  # the command line has one of its own
        main = types.ModuleType("__main__")
        vars(main)["__annotations__"] = {}
        vars(main)["__builtins__"] = sys.modules["builtins"]
        sys.modules["__main__"] = main
        code: types.CodeType | None = None
        status = 0
        try:
            code = self._prepare_script(main, self.path) if self.path is not None else self._prepare_module(main)
            exec(code, vars(main))
        except SystemExit as end:
            status = _exit_status(end.code)
        except BaseException as error:
            status = INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
            _print_exception(error, code)
        _wait_for_threads()
        return status

    def _prepare_script(self, main: types.ModuleType, path: Path) -> types.CodeType:
        file = str(path)
        sys.path[0] = os.path.dirname(os.path.realpath(file))
        main.__file__ = file
        main.__loader__ = SourceFileLoader("__main__", file)
        vars(main)["__cached__"] = None
        with io.open_code(file) as source:
            return compile(source.read(), file, "exec", dont_inherit=True)

    def _prepare_module(self, main: types.ModuleType) -> types.CodeType:
        sys.path[0] = os.getcwd()
        name = self.name
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name += ".__main__"
            spec = importlib.util.find_spec(name)
        loader: Any = spec.loader if spec is not None else None
        code: types.CodeType | None = loader.get_code(name) if hasattr(loader, "get_code") else None
        if spec is None or code is None:
            raise ImportError(f"No module named {name}", name=name)
        main.__file__ = spec.origin
        main.__loader__ = loader
        main.__package__ = spec.parent
        main.__spec__ = spec
        vars(main)["__cached__"] = spec.cached
        sys.argv[0] = str(spec.origin)
        return code


def _exit_status(code: object) -> int:
    """The status of ``sys.exit(code)``. Prints a message as Python does."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stdout.flush()
    print(code, file=sys.stderr)
    return 1


def _print_exception(error: BaseException, code: types.CodeType | None) -> None:
    """Call the program's ``sys.excepthook`` with the traceback from the program's own frame on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is not code:
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    try:
        sys.excepthook(type(error), error, trace)
    except Exception:
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exc()
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, trace)


def _wait_for_threads() -> None:
    """Wait for threads that outlive the main one. The interpreter calls this function before exit handlers.

    Joining them would block: the threads of an executor end in it.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]
    except KeyboardInterrupt:
        traceback.print_exc()


def end(status: int) -> NoReturn:
    """End this process as the program did: with its status, or by the signal of Ctrl-C."""
    if status == INTERRUPTED:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    sys.exit(status)
