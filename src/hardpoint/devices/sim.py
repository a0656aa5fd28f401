"""The simulated accelerator, device ``sim``: its library, and fault injection for tests."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from hardpoint._runtime import package_file
from hardpoint.devices import private_function


def library() -> str:
    """Return the path of the plug-in's library (entry point ``hardpoint.plugins``)."""
    return str(package_file("lib/libhardpoint_sim.so"))


def set_fault(spec: str) -> None:
    """Make later actions of the simulated device fail. An empty string clears all faults.

    Args:
        spec: A comma-separated list of ``kind[:after=N][:count=M][:operator=TEXT]``, where ``kind`` is ``allocate``,
            ``copy``, ``kernel`` or ``hang``.

    Raises:
        ValueError: ``spec`` is malformed.
    """
    if private_function(library(), "set_fault", ctypes.c_int, ctypes.c_char_p)(spec.encode()) != 0:
        raise ValueError(
            f"not a fault specification: {spec!r} (expected kind[:after=N][:count=M][:operator=TEXT], ...)"
        )


@contextmanager
def fault(spec: str) -> Iterator[None]:
    """Inject faults inside a ``with`` block. See :func:`set_fault` for the format of ``spec``."""
    set_fault(spec)
    try:
        yield
    finally:
        set_fault("")
