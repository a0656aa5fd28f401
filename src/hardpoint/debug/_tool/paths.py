"""Paths that stay the same when the program changes its working folder, and their short forms in messages."""

from __future__ import annotations

import os
from pathlib import Path


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # deleted
        return os.sep


#: The folder that the program was started in. Messages name files as seen from here.
START = _working_folder()


def absolute(path: str | Path) -> Path:
    """The path as it is now."""
    return Path(os.path.abspath(path))


def shown(path: str | Path) -> str:
    """A path as the user would write it in the folder where the program was started."""
    text = str(path)
    if not os.path.isabs(text):
        return text
    relative = os.path.relpath(text, START)
    return text if relative.startswith(os.pardir + os.sep) else relative
