"""Compares one torch call with the CPU."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from hardpoint import ops
from hardpoint.check.compare import distribution, plain, values_of
from hardpoint.debug._calls import schema
from hardpoint.debug._calls.base import Call, Report
from hardpoint.debug._calls.torch import describe_tensor
from hardpoint.debug._calls.torch_copy import copied_bytes, copy, dtype_name, replace, tensors
from hardpoint.debug._comparison import factorizations, reference
from hardpoint.debug._comparison.difference import difference, input_difference, not_compared, verdict
from hardpoint.debug._comparison.tolerances import Tolerance, find_tolerance
from hardpoint.ops.torch_overloads import PRIVATE_RESULTS, TIE_BREAKING


def _named_tensors(names: list[str], values: list[Any]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in zip(names, values, strict=False):
        for position, tensor in enumerate(tensors(value)):
            yield (f"{name}[{position}]" if isinstance(value, (list, tuple)) else name), tensor


class TorchComparison:
    """Copies the inputs of a call when created, and compares the call with the CPU when finished."""

    def __init__(self, call: Call, max_bytes: int) -> None:
        self.call = call
        self.name = call.name
        self._base_name = schema.base_name(call.name)
        self._written = schema.written(call.name)
        self._argument_names = schema.argument_names(call.name)
        #: The inputs before the call, on the CPU.
        self._inputs: list[Any] = []
        self._reason = ""  # why the call cannot be compared
        if any(t.layout is not torch.strided for t in tensors(call.arguments)):
            self._reason = "not a dense tensor"
        elif (size := copied_bytes(call.arguments)) > max_bytes:
            self._reason = f"its inputs have {size} bytes, more than max_bytes={max_bytes}"
        else:
            self._inputs = replace(call.arguments, copy(call.arguments, "cpu"))

    def finish(self, tolerances: Mapping[str, Tolerance], wide: bool) -> Report:
        self._tolerances, self._use_wide = tolerances, wide
        report = self.call.header()
        if self._reason:
            return not_compared(report, self._reason)
        try:
            return verdict(report, self._compare())
        except reference.NoReferenceError as error:
            return not_compared(report, f"the CPU has no result: {error}")

    def save(self, path: Path, report: Report) -> Path:
        from hardpoint.debug._saved.torch import save

        devices = [t.device.type for t in tensors(self.call.arguments)]
        return save(path, self.name, self._inputs, devices, report)

    def _compare(self) -> list[Report]:
        # The wider reference and the file need the inputs unchanged.
        copies = copy(self._inputs, "cpu") if self._written else {}
        arguments = replace(self._inputs, copies)
        results = reference.call(self.name, arguments)
        if self._is_random():
            return self._compare_distributions(results, arguments)
        device_arguments = list(_named_tensors(self._argument_names, self.call.arguments))
        reports = self._compare_arguments(device_arguments, arguments)
        names = schema.result_names(self.name)
        actual_results, expected_results = (list(_named_tensors(names, r)) for r in (self.call.results, results))
        if len(actual_results) != len(expected_results):
            problem = f"{len(actual_results)} tensors, expected {len(expected_results)}"
            return [*reports, {"name": "results", "wrong": {"problem": problem}}]
        skipped = {id(tensor) for _, tensor in device_arguments}
        private = PRIVATE_RESULTS.get(self._base_name, ())
        for position, ((name, actual), (_, expected)) in enumerate(zip(actual_results, expected_results, strict=True)):
            if id(actual) not in skipped and position not in private:
                wrong = self._difference(actual, expected, position, is_result=True)
                reports.append({"name": name, **describe_tensor(actual), "wrong": wrong})
        if not any(report["wrong"] for report in reports):
            reports += self._check_factorization(tensors(results))
        return reports

    def _compare_arguments(
        self, device_arguments: list[tuple[str, torch.Tensor]], arguments: list[Any]
    ) -> list[Report]:
        reports = []
        changed = {
            tensor.untyped_storage()._cdata
            for name, tensor in device_arguments
            if name.partition("[")[0] in self._written
        }
        pairs = zip(device_arguments, _named_tensors(self._argument_names, arguments), strict=True)
        for position, ((name, actual), (_, expected)) in enumerate(pairs):
            if actual.untyped_storage()._cdata in changed:
                if any(actual is tensor for _, tensor in device_arguments[:position]):
                    continue
                wrong = self._difference(actual, expected, position, is_result=False)
            else:
                wrong = input_difference(values_of(actual), values_of(expected))
            reports.append({"name": name, **describe_tensor(actual), "wrong": wrong})
        return reports

    def _check_factorization(self, expected: list[torch.Tensor]) -> list[Report]:
        if not factorizations.is_factorization(self._base_name):
            return []
        actual = tensors(self.call.results)
        arguments = schema.by_name(self.name, self._inputs)
        tolerance = find_tolerance(self._tolerances, self.name, dtype_name(expected[0]))
        checked = factorizations.check(self._base_name, arguments, actual, expected, tolerance)
        return [{"name": equation, **describe_tensor(actual[0]), "wrong": wrong} for equation, wrong in checked]

    def _is_random(self) -> bool:
        if torch.Tag.nondeterministic_seeded not in schema.overload(self.name).tags:
            return False
        return bool(schema.by_name(self.name, self.call.arguments).get("dropout_p") != 0.0)

    def _compare_distributions(self, results: list[Any], arguments: list[Any]) -> list[Report]:
        """Random values cannot be equal, but must have the same distribution."""
        drawn, expected_draws = (
            [t for name, t in _named_tensors(self._argument_names, given) if name.partition("[")[0] in self._written]
            for given in (self.call.arguments, arguments)
        )
        if not drawn:
            drawn, expected_draws = tensors(self.call.results), tensors(results)
        reports = []
        for position, (actual, expected) in enumerate(zip(drawn, expected_draws, strict=True)):
            problem = ""
            if actual.shape != expected.shape or actual.dtype != expected.dtype:
                problem = f"{actual.dtype} {list(actual.shape)}, expected {expected.dtype} {list(expected.shape)}"
            elif actual.numel():
                problem = distribution([actual], [expected])
            wrong = {"problem": problem} if problem else {}
            reports.append({"name": f"drawn {position}", **describe_tensor(actual), "wrong": wrong})
        return reports

    def _difference(self, actual: torch.Tensor, expected: torch.Tensor, position: int, is_result: bool) -> Report:
        """How a result, or a written argument, differs; empty if it does not."""
        same_kind = actual.shape == expected.shape and actual.dtype == expected.dtype
        if same_kind and factorizations.is_factorization(self._base_name):
            return {}  # all results are checked together
        dtype = dtype_name(expected)
        tolerance = find_tolerance(self._tolerances, self.name, dtype) or ops.tolerances().get((self._base_name, dtype))
        wide = self._wide_tensor(position, is_result) if self._use_wide else None
        if wide is not None and wide.shape == expected.shape:
            expected = wide.to(expected.dtype)

        def wide_result() -> NDArray[Any] | None:
            found = self._wide_tensor(position, is_result)
            return None if found is None else values_of(found).array

        wrong = difference(values_of(actual), values_of(expected), tolerance, wide_result)
        if wrong and self._base_name in TIE_BREAKING and self._selects_equal_elements(actual, expected):
            return {}
        return wrong

    def _selects_equal_elements(self, actual: torch.Tensor, expected: torch.Tensor) -> bool:
        """Whether different indices select equal elements of the input."""
        if actual.dtype is not torch.int64 or actual.shape != expected.shape:
            return False
        arguments = schema.by_name(self.name, self._inputs)
        source, dim = arguments["self"], arguments.get("dim")
        ours, right = plain(actual), plain(expected)
        if dim is None:
            source, dim, ours, right = source.flatten(), 0, ours.flatten(), right.flatten()
        elif ours.dim() < source.dim():
            ours, right = ours.unsqueeze(dim), right.unsqueeze(dim)
        if source.dim() == 0 or int(ours.min()) < 0 or int(ours.max()) >= source.shape[dim]:
            return False
        return bool(torch.equal(source.gather(dim, ours), source.gather(dim, right)))

    @functools.cached_property
    def _wide(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The arguments and results of the call in wider dtypes."""
        inputs = reference.widen(self._inputs)
        try:
            results = reference.call(self.name, inputs)
        except reference.NoReferenceError:
            results = []
        return tensors(inputs), tensors(results)

    def _wide_tensor(self, position: int, is_result: bool) -> torch.Tensor | None:
        found = self._wide[1 if is_result else 0]
        return found[position] if position < len(found) else None
