"""``hardpoint run``: runs an unchanged program under the tools."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path

from hardpoint.debug._tool import environment
from hardpoint.debug.summary import summary


def enable(**tools: str) -> None:
    """Turn tools on by name; child processes inherit them. Raises ``ValueError`` for an invalid option."""
    for name, text in tools.items():
        if text:
            os.environ[f"HARDPOINT_{name.upper()}"] = text  # the audit hook applies it


def check_device() -> None:
    """Raise PluginError if ``HARDPOINT_DEVICE`` names no device: the program itself would only warn, and fail later."""
    if os.environ.get("HARDPOINT_DEVICE"):
        from hardpoint import _discovery

        _discovery.choose()


def find_script(script: str) -> Path:
    """The path of a script. Raises ``ValueError`` if it does not exist."""
    path = Path(script)
    if not path.is_file():
        raise ValueError(f"there is no script '{script}'")
    return path


#: The program's variables, or the error that ended it. Kept until the tools are off, for leaks to see them.
_program_state: object = None


def run_script(script: Path, arguments: list[str]) -> bool:
    """Run a script like ``python script arguments``. Returns whether it ended without an exception."""
    global _program_state
    sys.argv = [str(script), *arguments]
    sys.path[0] = str(script.resolve().parent)
    try:
        _program_state = runpy.run_path(str(script), run_name="__main__")
    except Exception as error:
        _program_state = error
        # Print the traceback from the script's own frame on, as Python does.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != str(script):
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace)
        return False
    return True


def finish(show_summary: bool) -> bool:
    """Turn the tools off, which prints their summaries. Returns whether none of them found a defect."""
    global _program_state
    ok = not any(variable.tool.failed() for variable in environment.TOOL_VARIABLES if variable.tool is not None)
    for apply in environment.VARIABLES.values():
        apply(None)
    _program_state = None
    if show_summary:
        print(summary(), file=sys.stderr)
    return ok
