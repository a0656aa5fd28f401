"""Files of saved calls, of either framework."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

REPEATS = 20


def files(given: Iterable[Path]) -> list[Path]:
    """Files of calls, and those in folders. Raises ``ValueError`` for a folder without any."""
    found: list[Path] = []
    for path in given:
        inside = sorted(path.glob("*.call")) if path.is_dir() else [path]
        if not inside:
            raise ValueError(f"{path} has no saved call")
        found += inside
    return found


def first_line(message: str) -> str:
    """An error without what differs from run to run: the stack of C++, and the line of the program."""
    return re.sub(r"( \(at [^()]*\))+$", "", message.splitlines()[0]) if message else ""


def failure(name: str, content: dict[str, Any], message: str, native: str) -> dict[str, Any]:
    """The report of a call that raises; ``native`` says what the CPU makes of it."""
    said, saved = first_line(message), content.get("error", "")
    same = bool(saved) and (said in saved or saved in said)  # either may have the kind of error in front of it
    reason = f"as when it was saved: {said}" if same else said
    if saved and not same:
        reason += f"; when it was saved: {saved}"
    return {
        "operator": name,
        "tier": content["tier"],
        "place": content["place"],
        "verdict": "fails",
        "reason": f"{reason}; {native}",
    }


def note_mended(content: dict[str, Any], reports: list[dict[str, Any]]) -> None:
    """Say so where a call failed when it was saved, and does not any more."""
    if content.get("error") and reports:
        reports[-1]["reason"] = f"it does not fail any more; when it was saved: {content['error']}"


def microseconds(function: Callable[[], object]) -> float:
    """The median of some runs."""
    times = []
    for _ in range(REPEATS + 1):  # the first may compile
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:]) * 1e6


def tool_for(path: Path, device: str) -> tuple[ModuleType, str]:
    """What replays a file, and the device to do it on: the given one, or that which is chosen."""
    from hardpoint.toolbox import phi_replaying

    if phi_replaying.is_call(path):
        import hardpoint.paddle

        return phi_replaying, device or hardpoint.paddle.mount()
    import hardpoint.torch
    from hardpoint.toolbox import replaying

    return replaying, device or hardpoint.torch.mount()
