"""Leaks: device memory that was allocated under the tool and is still in use at its end."""

from __future__ import annotations

import gc
import sys
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import Any, NamedTuple

from hardpoint.debug._calls.base import Call, Report, Storage
from hardpoint.debug._tool.base import Tool
from hardpoint.debug._tool.options import EnvironmentVariable
from hardpoint.debug._tool.reports import ReportWriter, format_origin

#: Locations shown in a summary.
LIMIT = 20

#: A device index and an address on that device.
DeviceAddress = tuple[int, int]


class _Allocation(NamedTuple):
    """The call that first wrote a storage. Holds no reference to the memory."""

    storage: Storage
    call: int
    operator: str
    tier: str
    location: str

    @property
    def is_paddle(self) -> bool:
        return self.operator.startswith("phi::")


def _torch_blocks() -> dict[DeviceAddress, tuple[int, int]]:
    """The blocks that torch has in use: allocation number, which distinguishes reuses of an address, and bytes."""
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


class Leaks(Tool[None]):
    """Find device memory that is allocated from now on and still in use at the end.

    ``groups`` has the result, grouped by the location of the allocation, and ``now()`` the current state. ``summary()``
    shows the first ``limit`` groups. With ``file``, all groups are written to it as JSON lines at the end.
    """

    def __init__(self, *, limit: int = LIMIT, file: str | Path | None = None) -> None:
        super().__init__()
        self.limit = limit
        #: Memory in use at the end, grouped by location; largest first.
        self.groups: list[Report] = []
        self._stopped = False
        self._allocations: dict[Hashable, _Allocation] = {}
        self._lock = threading.Lock()
        self._reports = ReportWriter("leaks", file, _format)
        self._blocks_before = {address: number for address, (number, _) in _torch_blocks().items()}
        self.start()

    def end(self, call: Call, state: None) -> None:
        """Note the storages that the call allocated or was the first to write."""
        for storage in call.storages():
            with self._lock:
                known = self._allocations.get(storage.key)
                # An operator inside this call may have been noted before it.
                if known is None or known.storage.expired() or known.call > call.number:
                    self._allocations[storage.key] = _Allocation(
                        storage, call.number, call.name, call.tier, str(call.location)
                    )

    def now(self) -> list[Report]:
        """Memory in use at this moment, grouped by location; largest first."""
        gc.collect()  # garbage in reference cycles is not a leak
        with self._lock:
            allocations = {key: each for key, each in self._allocations.items() if not each.storage.expired()}
            paddle_addresses = sorted(each.storage.address for each in self._allocations.values() if each.is_paddle)
        groups: dict[tuple[str, str, str], Report] = {}

        def add(size: int, each: _Allocation | None) -> None:
            key = (each.operator, each.tier, each.location) if each is not None else ("", "", "")
            group = groups.setdefault(
                key, {"operator": key[0], "tier": key[1], "location": key[2], "bytes": 0, "storages": 0, "tensors": []}
            )
            group["bytes"] += size
            group["storages"] += 1
            if each is not None:
                tensor = {"dtype": each.storage.dtype, "sizes": list(each.storage.sizes), "bytes": size}
                group["tensors"].append(tensor)

        for address, (number, size) in _torch_blocks().items():
            # Paddle takes chunks from the same allocator and places its tensors in them.
            holds_paddle_tensors = bisect_left(paddle_addresses, address[1]) < bisect_left(
                paddle_addresses, address[1] + size
            )
            if self._blocks_before.get(address) != number and not holds_paddle_tensors:
                add(size, allocations.get(address))
        for each in allocations.values():
            if each.is_paddle:
                add(each.storage.bytes, each)
        for group in groups.values():
            group["tensors"].sort(key=lambda tensor: -tensor["bytes"])
        return sorted(groups.values(), key=lambda group: (-group["bytes"], group["location"], group["operator"]))

    def stop(self) -> None:
        """Stop, and collect the memory in use."""
        super().stop()
        if self._stopped:
            return
        self._stopped = True
        self.groups = self.now()
        self._allocations.clear()
        if self._reports.to_file:
            for group in self.groups:
                self._reports.write(group)
        self._reports.close()

    def summary(self) -> str:
        """The totals, and one line for each location."""
        total = sum(group["bytes"] for group in self.groups)
        count = sum(group["storages"] for group in self.groups)
        lines = [f"leaks: {_storages(count)} ({total:,} bytes) allocated under the tool and still in use"]
        lines += [f"  {_format(group)}" for group in self.groups[: self.limit]]
        if len(self.groups) > self.limit:
            lines.append(f"  ... and {len(self.groups) - self.limit} more locations")
        return "\n".join(lines)


def _storages(count: int) -> str:
    return "1 storage" if count == 1 else f"{count} storages"


def _format(group: Report) -> str:
    size = f"{group['bytes']:,} bytes in {_storages(group['storages'])}"
    if not group["operator"]:
        return f"{size}: not written by any traced operator"
    kinds = Counter(f"{tensor['dtype']} {tensor['sizes']}" for tensor in group["tensors"])
    shown = [f"{count} x {kind}" for kind, count in list(kinds.items())[:3]]
    if len(kinds) > len(shown):
        shown.append("...")
    return f"{size}: {group['operator']} ({format_origin(group)}): {', '.join(shown)}"


leaks = Leaks
"""Create and start :class:`Leaks`; takes the same arguments."""


def _from_environment(leading: str, options: dict[str, Any]) -> Leaks:
    if leading not in ("", "1"):
        raise ValueError(f"HARDPOINT_LEAKS must be 0 or 1, not '{leading}'")
    return Leaks(**options)


#: ``1``, or ``1; limit=5; file=leaks.jsonl``.
environment = EnvironmentVariable("HARDPOINT_LEAKS", {"limit": int, "file": str}, _from_environment)
