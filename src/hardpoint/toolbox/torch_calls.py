"""Calls of torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from hardpoint.toolbox import describing, snapshots, watching


class TorchCall(watching.Call):
    """A call of an ATen overload."""

    def describe(self, values: bool) -> dict[str, Any]:
        """Arguments by the names of the schema."""
        return _described(describing.argument_names(self.name), self.arguments, values)

    def describe_results(self, values: bool) -> dict[str, Any]:
        """Results by the names of the schema."""
        return _described(describing.result_names(self.name), self.results, values)

    def kernel(self) -> str:
        """By the operator tables."""
        return describing.kernel(self.name)

    def trial(self, max_bytes: int) -> watching.Trial:
        """Save the inputs."""
        from hardpoint.toolbox.trials import Trial

        return Trial.begin(self, max_bytes)

    def keep(self, max_bytes: int, copy: bool) -> watching.Kept:
        """Keep the inputs."""
        from hardpoint.toolbox.keeping import TorchKept

        return TorchKept(self.name, self.arguments, max_bytes, copy)

    def outputs(self) -> dict[str, Any]:
        """Results, and arguments that are written and not among them."""
        found = dict(zip(describing.result_names(self.name), self.results, strict=False))
        for name, value in zip(describing.argument_names(self.name), self.arguments, strict=True):
            if name in describing.written(self.name) and not any(value is result for result in self.results):
                found[name] = value
        return found

    def worst(self, values: list[Any]) -> int:
        """By a reduction on the device."""
        from hardpoint.toolbox import torch_ranges

        return torch_ranges.worst(values)

    def ranges(self, named: dict[str, Any]) -> dict[str, Any]:
        """Of tensors, and numbers as they are."""
        from hardpoint.toolbox import torch_ranges

        found: dict[str, Any] = {}
        for name, value in named.items():
            several = isinstance(value, (list, tuple))
            for position, tensor in enumerate(snapshots.tensors(value)):
                found[f"{name}[{position}]" if several else name] = torch_ranges.describe(tensor)
            if isinstance(value, float):
                found[name] = value
        return found

    def storages(self) -> Iterator[watching.Storage]:
        """Of results and written arguments that are dense and on a device."""
        names, written = describing.argument_names(self.name), describing.written(self.name)
        arguments = [a for name, a in zip(names, self.arguments, strict=True) if name in written] if written else []
        for tensor in snapshots.tensors([*self.results, *arguments]):
            if tensor.device.type in ("cpu", "meta") or tensor.layout is not torch.strided:
                continue
            storage = tensor.untyped_storage()
            yield watching.Storage(
                (tensor.device.index, storage.data_ptr()),
                storage.data_ptr(),
                StorageWeakRef(storage).expired,
                storage.nbytes(),
                str(tensor.dtype).removeprefix("torch."),
                tuple(tensor.shape),
            )


def _described(names: list[str], given: list[Any], values: bool) -> dict[str, Any]:
    return {name: describing.value(each, values) for name, each in zip(names, given, strict=False)}
