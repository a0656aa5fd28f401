"""``hardpoint run``: runs an unchanged program under the tools."""

from __future__ import annotations

import os
import sys

from hardpoint.debug._tool import environment
from hardpoint.debug._tool.reports import print_lines
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


def finish(show_summary: bool) -> bool:
    """Turn the tools off, which prints their summaries. Returns whether none of them found a defect."""
    tools = [variable.tool for variable in environment.TOOL_VARIABLES if variable.tool is not None]
    for name, apply in environment.VARIABLES.items():
        try:
            apply(None)
        except Exception as error:  # such as a fault of the device: the other tools have something to say, too
            print_lines(f"{name.removeprefix('HARDPOINT_').lower()}: {error}")
    if show_summary:
        print(summary(), file=sys.stderr)
    return not any(tool.failed() for tool in tools)
