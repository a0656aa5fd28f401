"""Plug-in of the device mychip. Hardpoint finds it through the entry point in pyproject.toml."""

from pathlib import Path


def library() -> str:
    """Path of the shared library."""
    return str(Path(__file__).with_name("libmychip.so"))
