"""Memory history, with the functions and formats of ``torch.cuda.memory``, for PyTorch's memory viewer."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import torch

from hardpoint._runtime import core
from hardpoint.debug.trace import capture_lines


class MemoryHistory:
    """The functions of ``torch.<device>.memory`` that record allocations and show their origin."""

    def __init__(self, name: str, adapter: Any) -> None:
        self._name = name
        self._adapter = adapter

    def record(
        self,
        enabled: str | bool | None = "all",
        context: str | None = "all",
        stacks: str = "all",
        max_entries: int = sys.maxsize,
        device: Any = None,
        clear_history: bool = False,
        compile_context: bool = False,
        global_record_annotations: bool = False,
        skip_actions: list[str] | None = None,
    ) -> None:
        """Record allocations and frees with their stacks, as ``torch.cuda.memory._record_memory_history`` does.

        ``enabled``: None turns it off, ``"state"`` keeps the stacks of live memory, ``"all"`` also the last
        ``max_entries`` events. ``context``: None keeps no stacks, ``"alloc"`` those of allocations, ``"all"`` also
        those of frees. ``stacks``: ``"python"``, or ``"all"`` with the frames of C++ first. Applies to all devices.
        """
        if clear_history:
            core.clear_memory_history()
        if not enabled:
            core.stop_memory_history()
            return
        if enabled not in (True, "state", "all") or context not in (None, "state", "alloc", "all"):
            raise ValueError(f"expected None, 'state' or 'all' and a context, not {enabled!r} and {context!r}")
        if stacks not in ("python", "all"):
            raise ValueError(f"stacks must be 'python' or 'all', not {stacks!r}")
        capture_lines()
        kept = {None: "none", "state": "alloc", "alloc": "alloc", "all": "all"}[context]
        core.start_memory_history(0 if enabled == "state" else max_entries, kept, stacks == "all")

    def snapshot(self, device: Any = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
        """Segments, blocks and, while history is on, the events of every device; as ``torch.cuda.memory._snapshot``."""
        segments = []
        traces = []
        for index in range(self._adapter.device_count()):
            for segment in self._adapter.snapshot(index):
                segment |= {"segment_pool_id": (0, 0), "is_expandable": False, "frames": []}
                segment["requested_size"] = sum(
                    block["requested_size"] for block in segment["blocks"] if block["state"] == "active_allocated"
                )
                for block in segment["blocks"]:
                    used = block["state"] == "active_allocated"
                    block["frames"] = core.allocation_frames(self._name, index, block["address"]) if used else []
                    if block["state"] == "active_pending_free":
                        block["state"] = "active_awaiting_free"
                segments.append(segment)
            traces.append(core.memory_events(self._name, index))
        return {
            "segments": segments,
            "device_traces": traces,
            "allocator_settings": {"expandable_segments": False, "garbage_collection_threshold": 0.0},
            "external_annotations": [],
        }

    def dump(self, filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
        """Save :meth:`snapshot` to a file, for ``torch/cuda/_memory_viz.py`` and pytorch.org/memory_viz."""
        with open(filename, "wb") as file:
            pickle.dump(self.snapshot(), file)


def replace_accelerator_snapshot(name: str, history: MemoryHistory) -> None:
    """Make ``torch.accelerator.memory._snapshot`` work on this device: torch knows CUDA and XPU only."""
    module = getattr(torch.accelerator, "memory", None)
    original = getattr(module, "_snapshot", None)
    if original is None or getattr(original, "of_hardpoint", False):
        return

    def _snapshot(device: Any = None, augment_with_fx_traces: bool = False) -> Any:
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is not None and accelerator.type == name:
            return history.snapshot(device, augment_with_fx_traces)
        return original(device, augment_with_fx_traces=augment_with_fx_traces)

    _snapshot.of_hardpoint = True  # type: ignore[attr-defined]
    _snapshot.__doc__ = original.__doc__
    module._snapshot = _snapshot  # type: ignore[union-attr]
