"""The console of the command line, and one-line errors."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

#: Width of output that goes to a file or another program: enough for every table, so that no name is cut.
PIPE_WIDTH = 100_000


def _console() -> Console:
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=PIPE_WIDTH if piped else None)


console = _console()


def table(*columns: str, **options: object) -> Table:
    """A table that folds long words on a narrow console instead of cutting them."""
    return Table(*(Column(name, overflow="fold") for name in columns), **options)  # type: ignore[arg-type]


def line(label: str, color: str, text: str) -> None:
    """Print ``label: text`` without wrapping."""
    console.print(f"[{color}]{label}[/]: {escape(text)}", highlight=False, soft_wrap=True)


def refuse(problem: object, label: str = "refused") -> NoReturn:
    """Print why a command cannot start, on one line, and exit with status 2."""
    line(label, "red", str(problem))
    raise typer.Exit(2)


# ---- Callbacks of options: they check values before the command starts.


def _option(param: typer.CallbackParam) -> str:
    return max(param.opts, key=len) if param.param_type_name == "option" else (param.name or "").upper()


def output_file(param: typer.CallbackParam, path: Path | None) -> Path | None:
    """Refuse a file that cannot be written."""
    if path is None:
        return None
    existed = path.exists()
    try:
        if not existed or path.is_file() or path.is_dir():  # opening a pipe could block
            path.open("a").close()
        if not existed:
            path.unlink()
    except OSError as error:
        refuse(f"{_option(param)}: cannot write {path}: {error.strerror}")
    return path


def output_folder(param: typer.CallbackParam, path: Path | None) -> Path | None:
    """Refuse a folder that cannot be created or written."""
    if path is None:
        return None
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(f"{_option(param)}: cannot create the folder {path}: {error.strerror}")
    if not os.access(path, os.W_OK | os.X_OK):
        refuse(f"{_option(param)}: cannot write to {path}: Permission denied")
    return path


def regular_expression(param: typer.CallbackParam, pattern: str) -> str:
    """Refuse an invalid regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        refuse(f"{_option(param)}: '{pattern}' is not a valid regular expression: {error}")
    return pattern
