"""Compares one Paddle call with the CPU."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpoint.check import numerics
from hardpoint.check.numerics import Tolerance, Values
from hardpoint.debug._calls.base import Report
from hardpoint.debug._calls.paddle import PaddleCall
from hardpoint.debug._calls.paddle_tensor import (
    HostTensor,
    NativeTensor,
    Nested,
    copy_inputs,
    describe,
    tensors,
    total_bytes,
)
from hardpoint.debug._comparison.difference import difference, input_difference, not_compared, verdict
from hardpoint.debug._comparison.tolerances import find_tolerance
from hardpoint.ops.phi import all_kernels
from hardpoint.ops.phi._semantics import (
    NOT_UNIQUE,
    OWN_FORMAT,
    PRIVATE_OUTPUTS,
    RANDOM,
    SINGLE_PRECISION,
    TIE_BREAKING,
    UNDEFINED,
)


@functools.cache
def _table_tolerances() -> dict[tuple[str, str], Tolerance]:
    return {(kernel, d): tolerance for op, kernel, _ in all_kernels() for d, tolerance in op.tolerance.items()}


class PaddleComparison:
    """Copies the inputs of a call when created, and compares the call with the CPU when finished."""

    def __init__(self, call: PaddleCall, max_bytes: int) -> None:
        self.call = call
        self._reason = ""  # why the call cannot be compared
        self._inputs: Nested = []  # before the call, on the host
        self._outputs = call.native.outputs()
        if (size := total_bytes(call.inputs)) > max_bytes:
            self._reason = f"its inputs have {size} bytes, more than max_bytes={max_bytes}"
            return
        if call.kernel_name in OWN_FORMAT:
            self._reason = "it exchanges data with its gradient in a format of the device's own"
            return
        self._inputs = copy_inputs(call.inputs)
        self._reference = call.native.reference()

    def finish(self, tolerances: Mapping[str, Tolerance], wide: bool) -> Report:
        self._tolerances, self._use_wide = tolerances, wide
        report = self.call.header()
        if self._reason:
            return not_compared(report, self._reason)
        try:
            outputs = self._reference.run(False)
        except Exception as error:
            return not_compared(report, f"the CPU has no result: {str(error).strip().splitlines()[-1]}")
        if outputs is None:
            return not_compared(report, "the CPU has no kernel for it")
        # A later run in double precision reuses this memory.
        expected = [HostTensor.copy(tensor).values() if tensor.has_memory else None for tensor in outputs]
        return verdict(report, self._compare_inputs() + self._compare_outputs(expected))

    def save(self, path: Path, report: Report) -> Path:
        from hardpoint.debug._saved.paddle import save

        return save(path, self.call, self._inputs, self._outputs, report)

    def _compare_inputs(self) -> list[Report]:
        written = {tensor.data_ptr for tensor in tensors(self.call.results) if tensor.has_memory}
        reports = []
        pairs = zip(tensors(self._inputs), tensors(self.call.inputs), strict=True)
        for position, (before, tensor) in enumerate(pairs):
            if tensor.has_memory and tensor.data_ptr not in written:
                wrong = input_difference(HostTensor.copy(tensor).values(), before.values())
                reports.append({"name": f"input {position}", **describe(tensor), "wrong": wrong})
        return reports

    def _compare_outputs(self, expected_outputs: list[Values | None]) -> list[Report]:
        reports = []
        pairs = zip(tensors(self.call.results), expected_outputs, strict=True)
        private = PRIVATE_OUTPUTS.get(self.call.kernel_name, ())
        for position, (tensor, expected) in enumerate(pairs):
            if expected is not None and tensor.has_memory and position not in private:
                wrong = self._output_difference(tensor, expected, position)
                reports.append({"name": f"output {position}", **describe(tensor), "wrong": wrong})
        return reports

    def _output_difference(self, tensor: NativeTensor, expected: Values, position: int) -> Report:
        name = self.call.kernel_name
        actual = HostTensor.copy(tensor).values()
        if name in UNDEFINED or (name in NOT_UNIQUE and actual.array.shape == expected.array.shape):
            return {}
        if name in RANDOM and not numerics.close(actual, expected):
            problem = numerics.distribution(actual.array, expected.array)
            return {"problem": problem} if problem else {}
        dtype = expected.dtype
        tolerance = find_tolerance(self._tolerances, self.call.name, dtype) or _table_tolerances().get((name, dtype))
        if tolerance is None and (name, dtype) in SINGLE_PRECISION:
            tolerance = numerics.TOLERANCES["float32"]
        if self._use_wide and (exact := self._wide_array(position)) is not None and exact.shape == expected.array.shape:
            expected = Values(numerics.rounded(exact, dtype), dtype)
        wrong = difference(actual, expected, tolerance, lambda: self._wide_array(position))
        return {} if wrong and name in TIE_BREAKING and self._selects_equal_elements(actual, expected) else wrong

    @functools.cached_property
    def _wide_outputs(self) -> list[NativeTensor] | None:
        try:
            return self._reference.run(True)
        except Exception:  # the CPU kernel rejects the inputs in double precision
            return None

    def _wide_array(self, position: int) -> NDArray[Any] | None:
        if self._wide_outputs is None or not self._wide_outputs[position].has_memory:
            return None
        values = HostTensor.copy(self._wide_outputs[position]).values()
        return values.array if values.inexact else None

    def _selects_equal_elements(self, actual: Values, expected: Values) -> bool:
        """Whether different indices select equal elements of the input, along any one dimension."""
        source = self._inputs[0].values().array
        ours, right = actual.array, expected.array
        if actual.dtype not in ("int32", "int64") or ours.shape != right.shape:
            return False
        for axis in range(source.ndim):
            indices = [np.expand_dims(a, axis) if a.ndim < source.ndim else a for a in (ours, right)]
            other_sizes = [size for d, size in enumerate(source.shape) if d != axis]
            if [size for d, size in enumerate(indices[0].shape) if d != axis] != other_sizes:
                continue
            if any(a.size == 0 or a.min() < 0 or a.max() >= source.shape[axis] for a in indices):
                continue
            ours_taken, right_taken = (np.take_along_axis(source, a.astype(np.int64), axis) for a in indices)
            if np.array_equal(ours_taken, right_taken, equal_nan=source.dtype.kind == "f"):
                return True
        return False
