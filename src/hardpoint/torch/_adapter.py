"""The compiled adapter for the installed torch."""

from __future__ import annotations

from hardpoint._adapters import Adapter


def torch_minor() -> str:
    """The installed torch's version as the adapter's name has it, such as ``2_13``; no import of torch."""
    from importlib.metadata import version

    return "_".join(version("torch").split(".")[:2])


ADAPTER = Adapter(
    "torch",
    torch_minor,
    (("yaml", "torch's operator tables need PyYAML to be read: python -m pip install pyyaml"),),
)
find, load, build = ADAPTER.find, ADAPTER.load, ADAPTER.build
