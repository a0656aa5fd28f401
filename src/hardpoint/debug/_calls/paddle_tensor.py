"""Paddle tensors and calls as the adapter exposes them, and copies of tensors on the host."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hardpoint.check.numerics import Values
from hardpoint.debug._calls.base import Report

#: Dtypes that numpy lacks -> the numpy dtype of their bits.
_BITS = {"bfloat16": "uint16", "pstring": "uint8"}


class NativeHolder(Protocol):
    """A weak reference to a tensor's memory."""

    address: int
    bytes: int

    def expired(self) -> bool: ...


class NativeTensor(Protocol):
    """A tensor of the adapter. Shares ownership of the memory."""

    dtype: str
    sizes: list[int]
    strides: list[int]
    view: bool
    device: str
    data_ptr: int
    has_memory: bool

    def holder(self) -> NativeHolder: ...

    def bytes(self) -> builtins.bytes:
        """The bytes from the first to the last element, gaps included."""


#: Inputs and outputs are tensors, absent, or lists of these.
Nested = list[Any]


class NativeReference(Protocol):
    """The inputs of a call on the host, copied before it."""

    def run(self, wide: bool) -> list[NativeTensor] | None:
        """The outputs of the CPU kernel, in double precision if ``wide``; None if there is no such kernel."""


class NativeCall(Protocol):
    """A kernel call of the adapter; valid until the call ends."""

    name: str
    dtype: str
    #: Whether a device graph captures the call.
    captured: bool

    def inputs(self) -> Nested: ...

    def attributes(self) -> list[Any]: ...

    def outputs(self) -> Nested: ...

    def reference(self) -> NativeReference:
        """Copy the inputs to the host for the CPU kernel."""


def _numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(_BITS.get(name, name))


class HostTensor(NamedTuple):
    """A copy of a tensor on the host, with its strides and the gaps between elements."""

    dtype: str
    sizes: list[int]
    strides: list[int]
    data: bytes

    @classmethod
    def copy(cls, tensor: NativeTensor) -> HostTensor:
        """Copy a tensor to the host."""
        return cls(tensor.dtype, tensor.sizes, tensor.strides, tensor.bytes())

    def bits(self) -> NDArray[Any]:
        """A strided view of the elements in numpy's dtype for their bits."""
        dtype = _numpy_dtype(self.dtype)
        flat = np.frombuffer(self.data, dtype)
        if flat.size == 0:
            return flat.reshape(self.sizes)
        return np.lib.stride_tricks.as_strided(flat, self.sizes, [s * dtype.itemsize for s in self.strides])

    def values(self) -> Values:
        """The elements for comparisons; 16-bit floats become float32."""
        bits = np.ascontiguousarray(self.bits()).reshape(self.sizes)
        if self.dtype == "bfloat16":
            return Values((bits.astype(np.uint32) << 16).view(np.float32).reshape(self.sizes), self.dtype)
        return Values(bits.astype(np.float32) if self.dtype == "float16" else bits, self.dtype)


def tensors(values: Nested) -> Iterator[Any]:
    """All tensors in inputs or outputs, in order."""
    for value in values:
        if isinstance(value, list):
            yield from (item for item in value if item is not None)
        elif value is not None:
            yield value


def total_bytes(values: Nested) -> int:
    """Bytes of the elements of all tensors."""
    found = (tensor for tensor in tensors(values) if tensor.has_memory)
    return sum(int(np.prod(tensor.sizes)) * _numpy_dtype(tensor.dtype).itemsize for tensor in found)


def map_tensors(function: Callable[[Any], Any], value: Any) -> Any:
    """The same nested value with a function applied to every tensor."""
    if isinstance(value, list):
        return [map_tensors(function, each) for each in value]
    return None if value is None else function(value)


def copy_inputs(inputs: Nested) -> Any:
    """The inputs with every native tensor copied to the host."""
    return map_tensors(lambda tensor: tensor if isinstance(tensor, HostTensor) else HostTensor.copy(tensor), inputs)


def describe(value: Any, values: bool = False) -> Any:
    """A native tensor, or a list of them, for JSON; with elements if ``values``."""
    return map_tensors(lambda tensor: _describe_tensor(tensor, values), value)


def _describe_tensor(tensor: NativeTensor, values: bool) -> Report:
    report: Report = {
        "numel": int(np.prod(tensor.sizes)),
        "sizes": tensor.sizes,
        "strides": tensor.strides,
        "view": tensor.view,
        "dtype": tensor.dtype,
        "device": tensor.device,
        "data_ptr": hex(tensor.data_ptr),
    }
    if values and tensor.has_memory:
        array = HostTensor.copy(tensor).values().array
        report["values"] = str(array.tolist()) if array.dtype.kind == "c" else array.tolist()
    return report
