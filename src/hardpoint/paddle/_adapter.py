"""Compiled adapter for the installed Paddle."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from hardpoint._adapters import Adapter
from hardpoint._runtime import PluginError


def paddle_version() -> str | None:
    """Version of the installed Paddle, or None, without importing Paddle."""
    spec = importlib.util.find_spec("paddle")
    if spec is None or spec.origin is None:
        return None
    # Not from the distribution's metadata: its name depends on the hardware.
    text = (Path(spec.origin).parent / "version" / "__init__.py").read_text()
    found = re.search(r"full_version\s*=\s*['\"](\d+\.\d+[^'\"]*)", text)
    if found is None:
        raise PluginError(f"{spec.origin}: cannot find the version of Paddle")
    return found[1]


ADAPTER = Adapter("paddle", paddle_version, supported=("3.0", "3.3"), needs=(("pybind11", "pybind11"),))
find, load, build = ADAPTER.find, ADAPTER.load, ADAPTER.build
