"""Calls of ATen overloads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from hardpoint.debug._calls import schema
from hardpoint.debug._calls.base import Call, Comparison, Report, SavedInputs, Storage
from hardpoint.debug._calls.torch_copy import copied_bytes, copy, dtype_name, replace, tensors
from hardpoint.ops.torch_overloads import OVERWRITES
from hardpoint.torch import _adapter


def describe_tensor(tensor: torch.Tensor) -> Report:
    """Everything about a tensor but its elements."""
    return {
        "numel": tensor.numel(),
        "sizes": list(tensor.shape),
        "strides": list(tensor.stride()),
        "view": bool(tensor._is_view()) or tensor.storage_offset() != 0,
        "dtype": dtype_name(tensor),
        "device": str(tensor.device),
        "data_ptr": hex(tensor.data_ptr()),
    }


def _describe(value: Any, values: bool) -> Any:
    if isinstance(value, torch.Tensor):
        report = describe_tensor(value)
        if values:
            host = value.detach().cpu().resolve_conj().resolve_neg()
            report["values"] = str(host.tolist()) if host.is_complex() else host.tolist()
        return report
    if isinstance(value, (list, tuple)):
        return [_describe(item, values) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


class TorchCall(Call):
    """A call of an ATen overload."""

    def is_captured(self) -> bool:
        return bool(_adapter.load().is_current_stream_capturing())

    def describe_arguments(self, values: bool) -> Report:
        return {name: _describe(value, values) for name, value in schema.by_name(self.name, self.arguments).items()}

    def describe_results(self, values: bool) -> Report:
        names = schema.result_names(self.name)
        return {name: _describe(value, values) for name, value in zip(names, self.results, strict=False)}

    def kernel(self) -> str:
        return schema.kernel(self.name)

    def start_comparison(self, max_bytes: int) -> Comparison:
        from hardpoint.debug._comparison.torch import TorchComparison

        return TorchComparison(self, max_bytes)

    def save_inputs(self, max_bytes: int, copy: bool) -> SavedInputs:
        return TorchInputs(self.name, self.arguments, max_bytes, copy)

    def outputs(self) -> dict[str, Any]:
        found = dict(zip(schema.result_names(self.name), self.results, strict=False))
        written = schema.written(self.name)
        for name, value in schema.by_name(self.name, self.arguments).items():
            if name in written and not any(value is result for result in self.results):
                found[name] = value
        return found

    def severity(self, values: list[Any]) -> int:
        from hardpoint.debug._ranges.torch import severity

        return severity(values)

    def ranges(self, values: dict[str, Any]) -> Report:
        from hardpoint.debug._ranges.torch import ranges

        return ranges(values)

    def storages(self) -> Iterator[Storage]:
        written = schema.written(self.name)
        named = schema.by_name(self.name, self.arguments).items() if written else ()
        arguments = [value for name, value in named if name in written]
        for tensor in tensors([*self.results, *arguments]):
            if tensor.device.type in ("cpu", "meta") or tensor.layout is not torch.strided:
                continue
            storage = tensor.untyped_storage()
            address, expired = storage.data_ptr(), StorageWeakRef(storage).expired
            key = (tensor.device.index, address)
            yield Storage(key, address, expired, storage.nbytes(), dtype_name(tensor), tuple(tensor.shape))


class TorchInputs:
    """The inputs of a call, saved before it.

    Without ``copy``, only the arguments that the schema declares as written are copied, on their device; an undeclared
    write is for compare to find.
    """

    def __init__(self, name: str, arguments: list[Any], max_bytes: int, copy_all: bool) -> None:
        self.name = name
        self.reason = ""
        self.complete = True
        self._arguments = arguments
        self._copies: dict[int, torch.Tensor] = {}
        if any(t.layout is not torch.strided for t in tensors(arguments)):
            self.reason = "not dense"
        elif copied_bytes(arguments) > max_bytes:
            self.reason = "beyond max_bytes"
        elif copy_all:
            self._copies = copy(arguments, "cpu")
        if not copy_all:
            self._copy_written(max_bytes)

    def _copy_written(self, max_bytes: int) -> None:
        written = schema.written(self.name)
        storages = {
            tensor.untyped_storage()._cdata
            for name, argument in schema.by_name(self.name, self._arguments).items()
            if name in written
            for tensor in tensors(argument)
            if tensor.layout is torch.strided
        }
        found = tensors(self._arguments) if storages else []
        overwritten = [t for t in found if t.layout is torch.strided and t.untyped_storage()._cdata in storages]
        if copied_bytes(overwritten) > max_bytes:
            self.complete = False
            return
        by_device: dict[torch.device, list[torch.Tensor]] = defaultdict(list)
        for tensor in overwritten:
            by_device[tensor.device].append(tensor)
        try:
            for device, group in by_device.items():
                self._copies |= copy(group, device)
        except torch.OutOfMemoryError:
            self._copies, self.complete = {}, False

    def bytes(self) -> int:
        return copied_bytes(self._arguments)

    def _inputs(self) -> list[Any]:
        return list(replace(self._arguments, self._copies))

    def named(self) -> dict[str, Any]:
        """The inputs by name, without arguments that are only written or could not be copied."""
        function = schema.overload(self.name)
        overwrites = schema.base_name(self.name) in OVERWRITES or torch.Tag.nondeterministic_seeded in function.tags
        found = {}
        for formal, value in zip(function._schema.arguments, self._inputs(), strict=True):
            is_written = formal.name in schema.written(self.name)
            if not (is_written and (formal.kwarg_only or overwrites or not self.complete)):
                found[formal.name] = value
        return found

    def save(self, path: Path, report: Report) -> Path:
        from hardpoint.debug._saved.torch import save

        devices = [t.device.type for t in tensors(self._arguments)]
        inputs = self._inputs()
        return save(path, self.name, list(replace(inputs, copy(inputs, "cpu"))), devices, report)
