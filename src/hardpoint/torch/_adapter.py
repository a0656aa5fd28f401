"""Compiled adapter for the installed torch."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from hardpoint._adapters import Adapter


def torch_version() -> str | None:
    """Version of the installed torch, or None, without importing torch."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


# torch brings its own pybind11; its code generator reads operator tables in YAML.
ADAPTER = Adapter("torch", torch_version, supported=("2.11", "2.15"), needs=(("yaml", "PyYAML"),))
find, load, build = ADAPTER.find, ADAPTER.load, ADAPTER.build
