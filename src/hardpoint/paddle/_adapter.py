"""The compiled adapter for the installed Paddle."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from hardpoint._adapters import Adapter
from hardpoint._runtime import PluginError


def paddle_minor() -> str:
    """The installed Paddle's version as the adapter's name has it, such as ``3_3``; no import of Paddle."""
    spec = importlib.util.find_spec("paddle")
    if spec is None or spec.origin is None:
        raise PluginError("Paddle is not installed: python -m pip install paddlepaddle")
    # Its distribution has one name for each kind of hardware; the package itself has one.
    text = (Path(spec.origin).parent / "version" / "__init__.py").read_text()
    found = re.search(r"full_version\s*=\s*['\"](\d+)\.(\d+)", text)
    if found is None:
        raise PluginError(f"{spec.origin}: no version of Paddle is found")
    return "_".join(found.groups())


ADAPTER = Adapter(
    "paddle",
    paddle_minor,
    (("pybind11", "the adapter needs pybind11 to be built: python -m pip install pybind11"),),
)
find, load, build = ADAPTER.find, ADAPTER.load, ADAPTER.build
