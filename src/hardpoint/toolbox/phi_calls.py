"""Calls of Paddle's kernels, and their tensors."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardpoint.check.closeness import Values
from hardpoint.ops.phi import all_kernels
from hardpoint.toolbox import places, watching
from hardpoint.toolbox.ranges import FINITE, measured, of_number

#: What numpy has no dtype for, by the bits that it has.
_BITS = {"bfloat16": "uint16", "pstring": "uint8"}


def bytes_of(seen: Any) -> int:
    """Bytes that its elements take."""
    return int(np.prod(seen.sizes)) * _numpy_dtype(seen.dtype).itemsize


def _numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(_BITS.get(name, name))


class Saved(NamedTuple):
    """A tensor on the host, with its strides and what lies between its elements."""

    dtype: str
    sizes: list[int]
    strides: list[int]
    data: bytes

    @classmethod
    def of(cls, seen: Any) -> Saved:
        """A copy of a tensor that the adapter shows."""
        return cls(seen.dtype, seen.sizes, seen.strides, seen.bytes())

    def bits(self) -> NDArray[Any]:
        """The elements in their places, as numpy sees them."""
        dtype = _numpy_dtype(self.dtype)
        flat = np.frombuffer(self.data, dtype)
        if flat.size == 0:
            return flat.reshape(self.sizes)
        return np.lib.stride_tricks.as_strided(flat, self.sizes, [s * dtype.itemsize for s in self.strides])

    def values(self) -> Values:
        """For comparisons: 16-bit floats in single precision."""
        bits = np.ascontiguousarray(self.bits()).reshape(self.sizes)
        if self.dtype == "bfloat16":
            return Values((bits.astype(np.uint32) << 16).view(np.float32).reshape(self.sizes), self.dtype)
        return Values(bits.astype(np.float32) if self.dtype == "float16" else bits, self.dtype)


def tensors(values: list[Any]) -> Iterator[Any]:
    """All tensors among inputs or outputs, in order."""
    for value in values:
        if isinstance(value, list):
            yield from (item for item in value if item is not None)
        elif value is not None:
            yield value


def described(seen: Any, values: bool = False) -> Any:
    """A tensor of the adapter for JSON, or a list of them."""
    if isinstance(seen, list):
        return [described(item, values) for item in seen]
    if seen is None:
        return None
    facts = {
        "numel": int(np.prod(seen.sizes)),
        "sizes": seen.sizes,
        "strides": seen.strides,
        "view": seen.view,
        "dtype": seen.dtype,
        "device": seen.device,
        "data_ptr": hex(seen.data_ptr),
    }
    if values and seen.has_memory:
        array = Saved.of(seen).values().array
        facts["values"] = str(array.tolist()) if array.dtype.kind == "c" else array.tolist()
    return facts


@functools.cache
def _standard_operators() -> dict[str, str]:
    return {kernel: op.name for op, kernel, _ in all_kernels()}


class PhiCall(watching.Call):
    """A call of a kernel of Paddle's, such as ``phi::matmul``. Its arguments have no names, but positions."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown
        self.dtype: str = shown.dtype  # which of the kernels of that name it is
        self.inputs: list[Any] = shown.inputs()
        self.attributes: list[Any] = shown.attributes()
        super().__init__(shown.name, [*self.inputs, *self.attributes], _place())

    @property
    def bare_name(self) -> str:
        """Without the namespace."""
        return self.name.removeprefix("phi::")

    def describe(self, values: bool) -> dict[str, Any]:
        """Inputs, then attributes."""
        return {
            **{f"input {i}": described(each, values) for i, each in enumerate(self.inputs)},
            **{f"attribute {i}": each for i, each in enumerate(self.attributes)},
        }

    def describe_results(self, values: bool) -> dict[str, Any]:
        """Outputs."""
        return {f"output {i}": described(each, values) for i, each in enumerate(self.results)}

    def kernel(self) -> str:
        """By the operator tables."""
        return _standard_operators().get(self.bare_name, "")

    def trial(self, max_bytes: int) -> watching.Trial:
        """Save the inputs."""
        from hardpoint.toolbox.phi_trials import PhiTrial

        return PhiTrial(self, max_bytes)

    def keep(self, max_bytes: int, copy: bool) -> watching.Kept:
        """Keep the inputs."""
        from hardpoint.toolbox.phi_keeping import PhiKept

        return PhiKept(self, max_bytes, copy)

    def outputs(self) -> dict[str, Any]:
        """What came out of it."""
        return named("output", self.results)

    def worst(self, values: list[Any]) -> int:
        """On the host."""
        found = FINITE
        for value in values:
            if isinstance(value, (float, complex)):
                found = max(found, of_number(abs(value)))
            elif (array := elements(value)) is not None and array.dtype.kind in "fc" and array.size:
                found = max(found, of_number(float(np.abs(array).max())))
        return found

    def ranges(self, named: dict[str, Any]) -> dict[str, Any]:
        """Of tensors, and numbers as they are."""
        found: dict[str, Any] = {}
        for name, value in named.items():
            if (array := elements(value)) is not None:
                found[name] = {"dtype": value.dtype, "sizes": value.sizes, **measured(array)}
            elif isinstance(value, float):
                found[name] = value
        return found

    def storages(self) -> Iterator[watching.Storage]:
        """Of outputs that do not lie in an input."""
        known = {seen.data_ptr for seen in tensors(self.inputs)}
        for seen in tensors(self.results):
            if seen.has_memory and seen.device != "cpu" and seen.data_ptr not in known:
                held = seen.holder()
                yield watching.Storage(
                    ("phi", held.address), held.address, held.gone, held.bytes, seen.dtype, tuple(seen.sizes)
                )


def named(kind: str, values: list[Any]) -> dict[str, Any]:
    """Tensors by their positions; those of a list by two."""
    found: dict[str, Any] = {}
    for i, value in enumerate(values):
        if isinstance(value, list):
            found |= {f"{kind} {i}[{k}]": each for k, each in enumerate(value)}
        else:
            found[f"{kind} {i}"] = value
    return found


def elements(value: Any) -> NDArray[Any] | None:
    """Of a tensor that was saved, or that the adapter shows; None for what is none, or has no memory."""
    if isinstance(value, Saved):
        return value.values().array
    return Saved.of(value).values().array if getattr(value, "has_memory", False) else None


def _place() -> places.Place:
    return places.Place(places.line(), _layer())


def _layer() -> str:
    """The layer of Paddle that this thread is in, ``LeNet.features.0``: Paddle has no hook for all layers."""
    layer = sys.modules["paddle"].nn.Layer
    found: list[Any] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "forward" and isinstance(owner := frame.f_locals.get("self"), layer):
            found.append(owner)
        frame = frame.f_back
    if not found:
        return ""
    inner, root = found[0], found[-1]
    name = next((name for name, each in root.named_sublayers() if each is inner), "")
    return f"{type(root).__name__}.{name}" if name else type(root).__name__
