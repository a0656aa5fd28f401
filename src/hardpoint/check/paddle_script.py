"""Runs a program that one of Paddle's test files starts, such as a rank, like the file itself: on the mounted device.

``python -m hardpoint.check.paddle_script DEVICE PROGRAM ARGUMENT...``
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

from hardpoint.check.paddle_names import FOREIGN


def rename(environment: MutableMapping[str, str], device: str) -> None:
    """Let variables of Paddle's launcher that name a foreign device name this one."""
    for name in FOREIGN:
        selected = environment.pop(f"FLAGS_selected_{name}s", None)
        if selected is not None:
            environment[f"FLAGS_selected_{device}s"] = selected
    for variable in ("PADDLE_XCCL_BACKEND", "PADDLE_DEVICE_TYPE"):
        if environment.get(variable) in FOREIGN:
            environment[variable] = device


def command_for(command: Any, device: str) -> Any:
    """The command that runs the same program here, if it is a Python program; else the command itself."""
    if not isinstance(command, Sequence) or isinstance(command, (str, bytes)) or len(command) < 2:
        return command
    interpreter, *arguments = map(os.fspath, command)
    options = 0
    while options < len(arguments) and arguments[options] in ("-u", "-B", "-s"):
        options += 1
    python = interpreter == sys.executable or interpreter in ("python", "python3")
    if not python or options == len(arguments) or not arguments[options].endswith(".py"):
        return command
    return [sys.executable, *arguments[:options], "-m", __name__, device, *arguments[options:]]


def redirect(device: str) -> None:
    """From now on, start Python programs with this module."""

    class Popen(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, args: Any, *more: Any, **options: Any) -> None:
            super().__init__(command_for(args, device), *more, **options)

    subprocess.Popen = Popen  # type: ignore[misc]


def main(device: str, program: str, *arguments: str) -> None:
    """Run the program."""
    rename(os.environ, device)
    os.environ["HARDPOINT_DEVICE"] = device
    file = Path(program).resolve()
    import paddle  # noqa: F401

    from hardpoint.check import paddle_worker

    sys.path[0] = str(file.parent)
    sys.argv = [program, *arguments]
    paddle_worker.restore_names()
    paddle_worker.install(device, replace_cpu=False)
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
