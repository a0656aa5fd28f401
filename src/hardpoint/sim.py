"""The simulated accelerator ``sim``: where its plug-in is, and faults on demand for tests."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from hardpoint._runtime import package_file


def library() -> str:
    """Path of the plug-in (entry point ``hardpoint.plugins``)."""
    return str(package_file("lib/libhardpoint_sim.so"))


def set_fault(spec: str) -> None:
    """Make coming actions of the simulated device fail; an empty string clears all faults.

    ``spec`` is a comma-separated list of ``kind[:after=N][:count=M][:operator=TEXT]`` with kind one of ``allocate``,
    ``copy``, ``kernel`` and ``hang``.
    """
    if ctypes.CDLL(library()).hp_sim_set_fault(spec.encode()) != 0:
        raise ValueError(
            f"not a fault specification: {spec!r} (expected kind[:after=N][:count=M][:operator=TEXT], ...)"
        )


@contextmanager
def fault(spec: str) -> Iterator[None]:
    """Inject faults for the duration of a ``with`` block."""
    set_fault(spec)
    try:
        yield
    finally:
        set_fault("")
