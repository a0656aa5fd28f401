"""Tensors that stay: device memory made while the watch was on and still in use at its end, and where it was made."""

from __future__ import annotations

import gc
import sys
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import Any, NamedTuple

from hardpoint.toolbox import options, switches, watching, writing

#: Places that a summary shows.
LIMIT = 20

#: A device's index and an address on it.
Where = tuple[int, int]


class _Made(NamedTuple):
    """What is known of memory; no reference that would keep it alive."""

    storage: watching.Storage
    call: int
    operator: str
    tier: str
    place: str

    @property
    def is_paddles(self) -> bool:
        return self.operator.startswith("phi::")

    def described(self, size: int) -> dict[str, Any]:
        return {"dtype": self.storage.dtype, "sizes": list(self.storage.sizes), "bytes": size}


def _blocks() -> dict[Where, tuple[int, int]]:
    """Memory that torch uses: the number of its allocation, which tells it from others at that address, and bytes."""
    adapter = sys.modules.get("hardpoint.torch")
    name = adapter.device_name() if adapter is not None else None
    if name is None:
        return {}
    return {
        (segment["device"], block["address"]): (block["number"], block["requested_size"])
        for segment in getattr(sys.modules["torch"], name).memory_snapshot()
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }


class Alive(watching.Tool):
    """Find the device memory that is made from the next operator on, and still in use at the end.

    ``summary()`` of what it gives shows the first ``limit`` places; ``groups`` has all, and ``now()`` those of the
    moment. With ``file``, they are written to it as JSON lines at the end.
    """

    def __init__(self, *, limit: int = LIMIT, file: str | Path | None = None) -> None:
        super().__init__()
        self.limit = limit
        #: What was alive at the end, by the place where it was made; the most bytes first.
        self.groups: list[dict[str, Any]] = []
        self._ended = False
        self._made: dict[Hashable, _Made] = {}
        self._lock = threading.Lock()
        self._reports = writing.Reports("alive", file, text)
        self._before = {where: number for where, (number, _) in _blocks().items()}
        self.start()

    def end(self, call: watching.Call, state: Any) -> None:
        """Note the storages that the call made, or was the first to write."""
        for storage in call.storages():
            with self._lock:
                known = self._made.get(storage.key)
                # A part of this call may have been noted for it.
                if known is None or known.storage.gone() or known.call > call.number:
                    self._made[storage.key] = _Made(storage, call.number, call.name, call.tier, str(call.place))

    def now(self) -> list[dict[str, Any]]:
        """What is alive at this moment, by the place where it was made; the most bytes first."""
        gc.collect()  # what only cycles hold is not alive
        with self._lock:
            made = {key: each for key, each in self._made.items() if not each.storage.gone()}
            paddles = sorted(each.storage.address for each in self._made.values() if each.is_paddles)
        groups: dict[tuple[str, str, str], dict[str, Any]] = {}

        def count(size: int, each: _Made | None) -> None:
            key = (each.operator, each.tier, each.place) if each is not None else ("", "", "")
            group = groups.setdefault(
                key, {"operator": key[0], "tier": key[1], "place": key[2], "bytes": 0, "storages": 0, "tensors": []}
            )
            group["bytes"] += size
            group["storages"] += 1
            if each is not None:
                group["tensors"].append(each.described(size))

        for where, (number, size) in _blocks().items():
            # Paddle has memory of the same allocator: in chunks, of which it makes tensors itself.
            chunk = bisect_left(paddles, where[1]) < bisect_left(paddles, where[1] + size)
            if self._before.get(where) != number and not chunk:
                count(size, made.get(where))
        for each in made.values():
            if each.is_paddles:
                count(each.storage.bytes, each)
        for group in groups.values():
            group["tensors"].sort(key=lambda each: -each["bytes"])
        return sorted(groups.values(), key=lambda group: (-group["bytes"], group["place"], group["operator"]))

    def stop(self) -> None:
        """End it, and look at what is alive."""
        super().stop()
        if self._ended:
            return
        self._ended = True
        self.groups = self.now()
        self._made.clear()
        if self._reports.to_file:
            for group in self.groups:
                self._reports.write(group)
        self._reports.close()

    def summary(self) -> str:
        """What was alive at the end, in a line for each place."""
        total = sum(group["bytes"] for group in self.groups)
        count = sum(group["storages"] for group in self.groups)
        lines = [f"alive: {count} storages of {total:,} bytes were made since the watch began, and are in use"]
        lines += [f"  {text(group)}" for group in self.groups[: self.limit]]
        if len(self.groups) > self.limit:
            lines.append(f"  ... and {len(self.groups) - self.limit} more places")
        return "\n".join(lines)


def text(group: dict[str, Any]) -> str:
    """One place in one line."""
    amount = f"{group['bytes']:,} bytes in {group['storages']}"
    if not group["operator"]:
        return f"{amount}: made by no operator that tools see"
    kinds = Counter(f"{each['dtype']} {each['sizes']}" for each in group["tensors"])
    shown = [f"{count} x {kind}" for kind, count in list(kinds.items())[:3]]
    if len(kinds) > len(shown):
        shown.append("...")
    where = f"{group['tier']}, {group['place']}" if group["place"] else group["tier"]
    return f"{amount}: {group['operator']} ({where}): {', '.join(shown)}"


alive = Alive


def _from_environment(first: str, given: dict[str, str]) -> Alive:
    if first not in ("", "1"):
        raise ValueError(f"HARDPOINT_ALIVE is 0 or 1, not '{first}'")
    return Alive(limit=options.number(given, "limit", LIMIT, "HARDPOINT_ALIVE"), file=given.get("file"))


#: ``1``, or ``1; limit=5; file=alive.jsonl``.
environment = switches.Switch("HARDPOINT_ALIVE", ("limit", "file"), _from_environment)
