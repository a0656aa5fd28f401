"""The plug-in of the device mychip. Hardpoint finds it by the entry point in pyproject.toml."""

from pathlib import Path


def library() -> str:
    """Where the shared library is."""
    return str(Path(__file__).with_name("libmychip.so"))
