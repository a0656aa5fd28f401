"""Fills in the generated parts of reference pages, which are marked with ``<!-- generated: ... -->``."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import plugin_header

HOOKS = Path(__file__).parent
ROOT = HOOKS.parents[1]


@cache
def _command_line() -> str:
    # In another process, since it puts a bare package in place of hardpoint.
    command = [sys.executable, str(HOOKS / "command_line.py")]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def _plugin_header() -> str:
    return plugin_header.markdown((ROOT / "include" / "hardpoint" / "plugin.h").read_text())


GENERATORS = {"plugin.h": _plugin_header, "command line": _command_line}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace each mark by the text that it names."""
    for name, generate in GENERATORS.items():
        mark = f"<!-- generated: {name} -->"
        if mark in markdown:
            markdown = markdown.replace(mark, generate())
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Drop the Sphinx roles in docstrings, such as ``:class:``."""
    return re.sub(r":(?:attr|class|data|exc|func|meth|mod):(?=<code>)", "", html)
