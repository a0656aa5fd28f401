"""Guard zones around allocations, to find kernels that write outside their memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hardpoint._runtime import core

#: Describes writes to guard zones since the last call; empty if there were none.
Damage = Callable[[], str]


def describe(found: list[tuple[str, str, int, int, int, int]]) -> str:
    """Describe the first damaged guard zone; empty if there is none."""
    if not found:
        return ""
    device, operator, _, size, first, last = found[0]
    where = (
        f"{-last} to {-first} bytes before the start"
        if last < 0
        else f"{first - size} to {last - size} bytes past the end"
    )
    if first < 0 <= last:
        where = "on both sides"
    during = f", found during {operator}" if operator else ""
    return f"a kernel wrote outside its memory: {where} of a block of {size} bytes on {device}{during}"


@contextmanager
def zones(on: bool) -> Iterator[Damage]:
    """Put guard zones around allocations inside the context."""
    if not on:
        yield lambda: ""
        return
    core.check_guard_zones([])  # forget what was found before
    core.set_guard_zones(True)
    try:
        yield lambda: describe(core.check_guard_zones(None))
    finally:
        core.set_guard_zones(False)
