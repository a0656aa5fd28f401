"""Inputs of a call of torch's as they were before it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from hardpoint.ops.torch_overloads import OVERWRITES
from hardpoint.toolbox import describing, snapshots


class TorchKept:
    """Make it before the call. Without ``copy``, only what the call writes is copied, and stays on its device: a wrong
    kernel that writes what it must not is compare's to find.
    """

    def __init__(self, name: str, arguments: list[Any], max_bytes: int, copy: bool) -> None:
        self.name = name
        self.reason = ""
        self.complete = True
        self._arguments = arguments
        self._copies: dict[int, torch.Tensor] = {}
        if any(t.layout is not torch.strided for t in snapshots.tensors(arguments)):
            self.reason = "not dense"
        elif snapshots.bytes_of(arguments) > max_bytes:
            self.reason = "beyond max_bytes"
        elif copy:
            self._copies = snapshots.copy(arguments, "cpu")
        if not copy:
            self._keep_written(max_bytes)

    def _keep_written(self, max_bytes: int) -> None:
        written = describing.written(self.name)
        names = describing.argument_names(self.name)
        changed = {
            tensor.untyped_storage()._cdata
            for name, argument in zip(names, self._arguments, strict=True)
            if name in written
            for tensor in snapshots.tensors(argument)
            if tensor.layout is torch.strided
        }
        found = snapshots.tensors(self._arguments) if changed else []
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

    def bytes(self) -> int:
        """What a file of them takes."""
        return snapshots.bytes_of(self._arguments)

    def _inputs(self) -> list[Any]:
        return list(snapshots.replace(self._arguments, self._copies))

    def named(self) -> dict[str, Any]:
        """By name; those that are only written are none, nor are those that were not kept."""
        function = describing.overload(self.name)
        bare = self.name.removeprefix("aten::").split(".")[0]
        overwrites = bare in OVERWRITES or torch.Tag.nondeterministic_seeded in function.tags
        found = {}
        for formal, value in zip(function._schema.arguments, self._inputs(), strict=True):
            is_written = formal.name in describing.written(self.name)
            if not (is_written and (formal.kwarg_only or overwrites or not self.complete)):
                found[formal.name] = value
        return found

    def save(self, path: Path, report: dict[str, Any]) -> Path:
        """Write the call with them to a file."""
        from hardpoint.toolbox import replaying

        devices = [t.device.type for t in snapshots.tensors(self._arguments)]
        inputs = self._inputs()
        on_cpu = list(snapshots.replace(inputs, snapshots.copy(inputs, "cpu")))
        return replaying.save(path, self.name, on_cpu, devices, report)
