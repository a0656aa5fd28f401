"""One call of Paddle's on both sides: inputs saved before it, the CPU's outputs after it, and each tensor's verdict."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpoint.check import closeness
from hardpoint.ops.phi import all_kernels
from hardpoint.ops.phi._semantics import CHOICES, NOT_UNIQUE, PRIVATE_OUTPUTS, RANDOM, UNDEFINED
from hardpoint.toolbox import phi_calls, verdicts
from hardpoint.toolbox.phi_calls import PhiCall, Saved
from hardpoint.toolbox.tolerances import find as tolerance_for


@functools.cache
def _tolerances() -> dict[tuple[str, str], closeness.Tolerance]:
    return {(kernel, d): tolerance for op, kernel, _ in all_kernels() for d, tolerance in op.tolerance.items()}


class PhiTrial:
    """A call that is being compared."""

    def __init__(self, call: PhiCall, max_bytes: int) -> None:
        self.call = call
        self.reason = ""  # why it is not compared
        self.inputs: list[Any] = []  # as they were before the call
        self.outputs = call.shown.outputs()
        seen = [each for each in phi_calls.tensors(call.inputs) if each.has_memory]
        size = sum(phi_calls.bytes_of(each) for each in seen)
        if size > max_bytes:
            self.reason = f"its inputs take {size} bytes, more than max_bytes={max_bytes}"
            return
        self.inputs = [_saved(each) for each in call.inputs]
        self._reference = call.shown.reference()

    def finish(self, tolerances: Mapping[str, closeness.Tolerance], wide: bool) -> dict[str, Any]:
        """Run the reference, and compare everything. Call it once, after the call."""
        report = self.call.head()
        if not self.reason:
            try:
                expected = self._reference.run(False)
                self.reason = "the CPU has no kernel for it" if expected is None else ""
            except Exception as error:
                self.reason = f"the CPU has no result: {str(error).strip().splitlines()[-1]}"
        if self.reason:
            return {**report, "verdict": "not compared", "reason": self.reason}
        # The wider result is in the same memory as this one: it is computed when it is asked for, after it.
        right = [Saved.of(each).values() if each.has_memory else None for each in expected]
        report["tensors"] = self._untouched() + self._outputs(right, tolerances, wide)
        wrong = any(each["wrong"] for each in report["tensors"])
        return {**report, "verdict": "wrong" if wrong else "right"}

    def save(self, path: Path, report: dict[str, Any]) -> Path:
        """Write the call with its inputs to a file, for ``hardpoint replay``."""
        from hardpoint.toolbox import phi_replaying

        return phi_replaying.save(path, self.call, self.inputs, self.outputs, report)

    def _untouched(self) -> list[dict[str, Any]]:
        written = {each.data_ptr for each in phi_calls.tensors(self.call.results) if each.has_memory}
        reports = []
        before = list(phi_calls.tensors(self.inputs))
        for position, (saved, seen) in enumerate(zip(before, phi_calls.tensors(self.call.inputs), strict=True)):
            if not seen.has_memory or seen.data_ptr in written:
                continue
            wrong = verdicts.judge(Saved.of(seen).values(), saved.values(), exact=True)
            if wrong:
                wrong["problem"] = "an input was written"
            reports.append({"name": f"input {position}", **phi_calls.described(seen), "wrong": wrong})
        return reports

    def _outputs(
        self, right: list[closeness.Values | None], tolerances: Mapping[str, closeness.Tolerance], wide: bool
    ) -> list[dict[str, Any]]:
        name = self.call.bare_name
        reports = []
        for position, (seen, expected) in enumerate(zip(phi_calls.tensors(self.call.results), right, strict=True)):
            if expected is None or not seen.has_memory or position in PRIVATE_OUTPUTS.get(name, ()):
                continue
            actual = Saved.of(seen).values()
            if name in UNDEFINED or (name in NOT_UNIQUE and actual.array.shape == expected.array.shape):
                wrong: dict[str, Any] = {}
            elif name in RANDOM and not closeness.close(actual, expected):
                problem = closeness.distribution(actual.array, expected.array)
                wrong = {"problem": problem} if problem else {}
            else:
                given = tolerance_for(tolerances, self.call.name, expected.dtype)
                tolerance = given or _tolerances().get((name, expected.dtype))
                if wide and (exact := self._wide(position)) is not None and exact.shape == expected.array.shape:
                    expected = closeness.Values(closeness.rounded(exact, expected.dtype), expected.dtype)
                wrong = verdicts.judge(actual, expected, tolerance, partial(self._wide, position))
                if wrong and name in CHOICES and self._same_choice(actual, expected):
                    wrong = {}
            reports.append({"name": f"output {position}", **phi_calls.described(seen), "wrong": wrong})
        return reports

    @functools.cached_property
    def _wider(self) -> list[Any] | None:
        try:
            made: list[Any] | None = self._reference.run(True)
        except Exception:  # the CPU's kernel does not take what we made of the call
            return None
        return made

    def _wide(self, position: int) -> NDArray[Any] | None:
        if self._wider is None or not self._wider[position].has_memory:
            return None
        values = Saved.of(self._wider[position]).values()
        return values.array if values.inexact else None

    def _same_choice(self, actual: closeness.Values, expected: closeness.Values) -> bool:
        """Whether different indices lead to equal elements of the input, along the dimension that was chosen from."""
        source = self.inputs[0].values().array
        ours, right = actual.array, expected.array
        if actual.dtype not in ("int32", "int64") or ours.shape != right.shape:
            return False
        for axis in range(source.ndim):
            one = [np.expand_dims(a, axis) if a.ndim < source.ndim else a for a in (ours, right)]
            rest = [size for d, size in enumerate(source.shape) if d != axis]
            if [size for d, size in enumerate(one[0].shape) if d != axis] != rest:
                continue
            if any(a.size == 0 or a.min() < 0 or a.max() >= source.shape[axis] for a in one):
                continue
            ours_taken, right_taken = (np.take_along_axis(source, a.astype(np.int64), axis) for a in one)
            if np.array_equal(ours_taken, right_taken, equal_nan=source.dtype.kind == "f"):
                return True
        return False


def _saved(value: Any) -> Any:
    if isinstance(value, list):
        return [_saved(each) for each in value]
    return None if value is None else Saved.of(value)
