"""Runs an unchanged program under tools."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from hardpoint.toolbox import settings
from hardpoint.toolbox.summary import summary


def prepare(**tools: str) -> None:
    """Switch tools on, by name; children of the program inherit them. Raises ``ValueError`` for a mistake."""
    for name, text in tools.items():
        if text:
            os.environ[f"HARDPOINT_{name.upper()}"] = text  # the tools listen


def find(program: str) -> Path:
    """The program's file. Raises ``ValueError`` if there is none."""
    path = Path(program)
    if not path.is_file():
        raise ValueError(f"there is no script '{program}'")
    return path


#: What the program left: its variables, or the error that ended it, which are in use until the tools have ended.
_left: Any = None


def run(program: Path, arguments: list[str]) -> bool:
    """Run a script, as ``python program arguments`` does; whether it ended well."""
    global _left
    sys.argv = [str(program), *arguments]
    sys.path[0] = str(program.resolve().parent)
    try:
        _left = runpy.run_path(str(program), run_name="__main__")
    except Exception as error:
        _left = error
        # As Python would: without the frames that lead to the program.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != str(program):
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace)
        return False
    return True


def finish(show_summary: bool) -> bool:
    """What tools have to say after the program; whether none of them found what ought not to be."""
    global _left
    right = not any(switch.current.failed() for switch in settings.SWITCHES if switch.current is not None)
    for switch_to in settings.VARIABLES.values():
        switch_to(None)
    _left = None
    if show_summary:
        print(summary(), file=sys.stderr)
    return right
