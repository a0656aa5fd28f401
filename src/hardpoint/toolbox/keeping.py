"""Inputs of a call as they were before it, at little cost: only what it writes is copied, and stays on its device."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch

from hardpoint.toolbox import describing, snapshots
from hardpoint.toolbox.watching import Call


class Kept:
    """Make it before the call. A wrong kernel that writes what it must not is compare's to find."""

    def __init__(self, call: Call, max_bytes: int) -> None:
        self._arguments = call.arguments
        self._copies: dict[int, torch.Tensor] = {}
        #: Whether everything is as it was; if not, what the call wrote was too large to be kept.
        self.complete = True
        written = describing.written(call.name)
        if not written:
            return
        names = describing.argument_names(call.name)
        found = snapshots.tensors(call.arguments)
        changed = {
            tensor.untyped_storage()._cdata
            for name, argument in zip(names, call.arguments, strict=True)
            if name in written
            for tensor in snapshots.tensors(argument)
            if tensor.layout is torch.strided
        }
        touched = [t for t in found if t.layout is torch.strided and t.untyped_storage()._cdata in changed]
        if snapshots.bytes_of(touched) > max_bytes:
            self.complete = False
            return
        by_device: dict[torch.device, list[torch.Tensor]] = defaultdict(list)
        for tensor in touched:
            by_device[tensor.device].append(tensor)
        try:
            for device, tensors in by_device.items():
                self._copies |= snapshots.copy(tensors, device)
        except torch.OutOfMemoryError:
            self._copies, self.complete = {}, False

    def inputs(self) -> list[Any]:
        """The arguments before the call."""
        return list(snapshots.replace(self._arguments, self._copies))

    def on_cpu(self) -> list[Any]:
        """The same, copied to the CPU."""
        inputs = self.inputs()
        return list(snapshots.replace(inputs, snapshots.copy(inputs, "cpu")))
