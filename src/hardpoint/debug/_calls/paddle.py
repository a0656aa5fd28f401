"""Calls of Paddle's Phi kernels."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardpoint.debug._calls import paddle_tensor
from hardpoint.debug._calls.base import Call, Comparison, Report, SavedInputs, Storage
from hardpoint.debug._calls.location import paddle_location
from hardpoint.debug._calls.paddle_tensor import HostTensor, NativeCall, NativeTensor, Nested, map_tensors, tensors
from hardpoint.ops.phi import all_kernels


@functools.cache
def _standard_operators() -> dict[str, str]:
    return {kernel: op.name for op, kernel, _ in all_kernels()}


def _by_position(kind: str, values: Nested) -> dict[str, Any]:
    """Tensors as ``input 0``, and those in a list as ``input 0[0]``."""
    found: dict[str, Any] = {}
    for i, value in enumerate(values):
        if isinstance(value, list):
            found |= {f"{kind} {i}[{k}]": each for k, each in enumerate(value)}
        else:
            found[f"{kind} {i}"] = value
    return found


class PaddleCall(Call):
    """A call of a Phi kernel, such as ``phi::matmul``. Its arguments are identified by position."""

    def __init__(self, native: NativeCall) -> None:
        self.native = native
        self.dtype = native.dtype  # selects one of the kernels of this name
        self.inputs = native.inputs()
        self.attributes = native.attributes()
        super().__init__(native.name, [*self.inputs, *self.attributes], paddle_location())

    def is_captured(self) -> bool:
        return self.native.captured

    @property
    def kernel_name(self) -> str:
        """The name without its namespace."""
        return self.name.removeprefix("phi::")

    def describe_arguments(self, values: bool) -> Report:
        return {
            **{f"input {i}": paddle_tensor.describe(each, values) for i, each in enumerate(self.inputs)},
            **{f"attribute {i}": each for i, each in enumerate(self.attributes)},
        }

    def describe_results(self, values: bool) -> Report:
        return {f"output {i}": paddle_tensor.describe(each, values) for i, each in enumerate(self.results)}

    def kernel(self) -> str:
        return _standard_operators().get(self.kernel_name, "")

    def start_comparison(self, max_bytes: int) -> Comparison:
        from hardpoint.debug._comparison.paddle import PaddleComparison

        return PaddleComparison(self, max_bytes)

    def save_inputs(self, max_bytes: int, copy: bool) -> SavedInputs:
        return PaddleInputs(self, max_bytes, copy)

    def outputs(self) -> dict[str, Any]:
        return _by_position("output", self.results)

    def severity(self, values: list[Any]) -> int:
        from hardpoint.debug._ranges.paddle import severity

        return severity(values)

    def ranges(self, values: dict[str, Any]) -> Report:
        from hardpoint.debug._ranges.paddle import ranges

        return ranges(values)

    def storages(self) -> Iterator[Storage]:
        """Storages of device outputs that do not alias an input."""
        inputs = {tensor.data_ptr for tensor in tensors(self.inputs)}
        for tensor in tensors(self.results):
            if tensor.has_memory and tensor.device != "cpu" and tensor.data_ptr not in inputs:
                holder = tensor.holder()
                key, sizes = ("phi", holder.address), tuple(tensor.sizes)
                yield Storage(key, holder.address, holder.expired, holder.bytes, tensor.dtype, sizes)


class PaddleInputs:
    """The inputs of a call, saved before it. Without ``copy``, only those that an output overwrites are copied."""

    def __init__(self, call: PaddleCall, max_bytes: int, copy: bool) -> None:
        self.call = call
        self.reason = ""
        self.complete = True
        self._outputs = call.native.outputs()
        self._bytes = paddle_tensor.total_bytes(call.inputs)
        if self._bytes > max_bytes:
            self.reason, self.complete = "beyond max_bytes", False
        written = {tensor.data_ptr for tensor in tensors(self._outputs) if tensor.has_memory}

        def saved(tensor: NativeTensor) -> NativeTensor | HostTensor:
            wanted = not self.reason and (copy or tensor.data_ptr in written)
            return HostTensor.copy(tensor) if wanted else tensor

        self._inputs = map_tensors(saved, call.inputs)

    def bytes(self) -> int:
        return self._bytes

    def named(self) -> dict[str, Any]:
        """Inputs and float attributes by position."""
        numbers = {f"attribute {i}": a for i, a in enumerate(self.call.attributes) if isinstance(a, float)}
        return {**_by_position("input", self._inputs), **numbers}

    def save(self, path: Path, report: Report) -> Path:
        from hardpoint.debug._saved.paddle import save

        return save(path, self.call, paddle_tensor.copy_inputs(self._inputs), self._outputs, report)
