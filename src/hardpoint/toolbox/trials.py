"""One call on both sides: inputs saved before it, the CPU's results after it, and what each tensor's verdict is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from hardpoint import ops
from hardpoint.check import compare as rules
from hardpoint.check.compare import values_of
from hardpoint.ops.torch_overloads import CHOICES, PRIVATE_RESULTS
from hardpoint.toolbox import describing, invariants, references, snapshots, verdicts
from hardpoint.toolbox.describing import written as written_by
from hardpoint.toolbox.tolerances import find as tolerance_for
from hardpoint.toolbox.watching import Call


def _is_random(call: Call) -> bool:
    if torch.Tag.nondeterministic_seeded not in describing.overload(call.name).tags:
        return False
    given = dict(zip(describing.argument_names(call.name), call.arguments, strict=True))
    return given.get("dropout_p") != 0.0


def _named(names: list[str], values: list[Any]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in zip(names, values, strict=False):
        found = snapshots.tensors(value)
        for position, tensor in enumerate(found):
            yield (f"{name}[{position}]" if isinstance(value, (list, tuple)) else name), tensor


class Trial:
    """A call that is being compared."""

    def __init__(self, call: Call, reason: str = "") -> None:
        self.call = call
        self.reason = reason  # why it is not compared
        #: The inputs as they were before the call, on the CPU.
        self.inputs: list[Any] = []
        self._device = call.arguments

    @classmethod
    def begin(cls, call: Call, max_bytes: int) -> Trial:
        """Save the inputs."""
        trial = cls(call)
        if any(t.layout is not torch.strided for t in snapshots.tensors(call.arguments)):
            trial.reason = "not a dense tensor"
        elif (size := snapshots.bytes_of(call.arguments)) > max_bytes:
            trial.reason = f"its inputs take {size} bytes, more than max_bytes={max_bytes}"
        else:
            trial.inputs = snapshots.replace(call.arguments, snapshots.copy(call.arguments, "cpu"))
        return trial

    def finish(self, tolerances: Mapping[str, tuple[float, float]], wide: bool) -> dict[str, Any]:
        """Run the reference, and compare everything. Call it once, after the call."""
        report = self.call.head()
        if not self.reason:
            try:
                report["tensors"] = self._compare(tolerances, wide)
            except references.NoReference as error:
                self.reason = f"the CPU has no result: {error}"
        if self.reason:
            return {**report, "verdict": "not compared", "reason": self.reason}
        wrong = any(each["wrong"] for each in report["tensors"])
        return {**report, "verdict": "wrong" if wrong else "right"}

    def save(self, path: Path, report: dict[str, Any]) -> Path:
        """Write the call with its inputs to a file, for ``hardpoint replay``."""
        from hardpoint.toolbox import replaying

        devices = [t.device.type for t in snapshots.tensors(self._device)]
        return replaying.save(path, self.call.name, self.inputs, devices, report)

    def _compare(self, tolerances: Mapping[str, tuple[float, float]], wide: bool) -> list[dict[str, Any]]:
        call = self.call
        # The inputs stay as they were, for a wider reference and for a file.
        copies = snapshots.copy(self.inputs, "cpu") if written_by(call.name) else {}
        arguments = snapshots.replace(self.inputs, copies)
        results = references.call(call.name, arguments)
        if _is_random(call):
            return self._distribution(results, arguments)
        wider = _Wider(call.name, self.inputs)
        reports = []
        written = written_by(call.name)
        names = describing.argument_names(call.name)
        ours, right = list(_named(names, self._device)), list(_named(names, arguments))
        changed = {t.untyped_storage()._cdata for name, t in ours if name.partition("[")[0] in written}
        for position, ((name, actual), (_, expected)) in enumerate(zip(ours, right, strict=True)):
            if actual.untyped_storage()._cdata in changed:
                if any(actual is tensor for _, tensor in ours[:position]):
                    continue
                tensor_wrong = self._judge(actual, expected, tolerances, wider, wide, position, False)
            else:
                tensor_wrong = verdicts.judge(values_of(actual), values_of(expected), exact=True)
                if tensor_wrong:
                    tensor_wrong["problem"] = "an input was written"
            reports.append({"name": name, **describing.tensor(actual), "wrong": tensor_wrong})
        theirs = {id(tensor) for _, tensor in ours}
        private = PRIVATE_RESULTS.get(call.name.removeprefix("aten::").split(".")[0], ())
        result_names = describing.result_names(call.name)
        expected_results = list(_named(result_names, results))
        actual_results = list(_named(result_names, call.results))
        if len(actual_results) != len(expected_results):
            problem = f"{len(actual_results)} tensors, expected {len(expected_results)}"
            return [*reports, {"name": "results", "wrong": {"problem": problem}}]
        for position, ((name, actual), (_, expected)) in enumerate(zip(actual_results, expected_results, strict=True)):
            if id(actual) in theirs or position in private:
                continue
            tensor_wrong = self._judge(actual, expected, tolerances, wider, wide, position, True)
            reports.append({"name": name, **describing.tensor(actual), "wrong": tensor_wrong})
        if not any(report["wrong"] for report in reports):
            reports += self._rules(tolerances, snapshots.tensors(results))
        return reports

    def _rules(self, tolerances: Mapping[str, tuple[float, float]], right: list[torch.Tensor]) -> list[dict[str, Any]]:
        """What must hold of results that are not unique, all together."""
        name = self.call.name
        bare = name.removeprefix("aten::").split(".")[0]
        if not invariants.knows(bare):
            return []
        actual = snapshots.tensors(self.call.results)
        given = dict(zip(describing.argument_names(name), self.inputs, strict=True))
        tolerance = tolerance_for(tolerances, name, str(right[0].dtype).removeprefix("torch."))
        judged = invariants.judge(bare, given, actual, right, tolerance)
        return [{"name": words, **describing.tensor(actual[0]), "wrong": wrong} for words, wrong in judged]

    def _judge(
        self,
        actual: torch.Tensor,
        expected: torch.Tensor,
        tolerances: Mapping[str, tuple[float, float]],
        wider: _Wider,
        wide: bool,
        position: int,
        result: bool,
    ) -> dict[str, Any]:
        name = self.call.name
        bare = name.removeprefix("aten::").split(".")[0]
        dtype = str(expected.dtype).removeprefix("torch.")
        tolerance = tolerance_for(tolerances, name, dtype) or ops.tolerances().get((bare, dtype))
        if invariants.knows(bare) and actual.shape == expected.shape and actual.dtype == expected.dtype:
            return {}  # see _rules
        if wide and (reference := wider.get(position, result)) is not None and reference.shape == expected.shape:
            expected = reference.to(expected.dtype)
        wrong = verdicts.judge(values_of(actual), values_of(expected), tolerance, lambda: wider.array(position, result))
        if wrong and bare in CHOICES and self._same_choice(actual, expected):
            return {}
        return wrong

    def _same_choice(self, actual: torch.Tensor, expected: torch.Tensor) -> bool:
        """Whether different indices lead to equal elements of the input."""
        if actual.dtype is not torch.int64 or actual.shape != expected.shape:
            return False
        given = dict(zip(describing.argument_names(self.call.name), self.inputs, strict=True))
        source, dim = given["self"], given.get("dim")
        if dim is None:
            source, dim = source.flatten(), 0
            ours, right = (rules.plain(t).flatten() for t in (actual, expected))
        else:
            ours, right = rules.plain(actual), rules.plain(expected)
            if ours.dim() < source.dim():
                ours, right = ours.unsqueeze(dim), right.unsqueeze(dim)
        if source.dim() == 0 or int(ours.min()) < 0 or int(ours.max()) >= source.shape[dim]:
            return False
        return bool(torch.equal(source.gather(dim, ours), source.gather(dim, right)))

    def _distribution(self, results: list[Any], arguments: list[Any]) -> list[dict[str, Any]]:
        """Random values: not the same, but distributed alike. What was drawn is in results and in what is written."""
        written = written_by(self.call.name)
        names = describing.argument_names(self.call.name)
        drawn = [t for name, t in _named(names, self._device) if name.partition("[")[0] in written]
        right = [t for name, t in _named(names, arguments) if name.partition("[")[0] in written]
        if not drawn:
            drawn, right = snapshots.tensors(self.call.results), snapshots.tensors(results)
        reports = []
        for position, (actual, expected) in enumerate(zip(drawn, right, strict=True)):
            problem = ""
            if actual.shape != expected.shape or actual.dtype != expected.dtype:
                problem = f"{actual.dtype} {list(actual.shape)}, expected {expected.dtype} {list(expected.shape)}"
            elif actual.numel():
                problem = rules.distribution([actual], [expected])
            wrong = {"problem": problem} if problem else {}
            reports.append({"name": f"drawn {position}", **describing.tensor(actual), "wrong": wrong})
        return reports


class _Wider:
    """The call in wider dtypes, computed when it is first asked for."""

    def __init__(self, name: str, inputs: list[Any]) -> None:
        self._name = name
        self._inputs = inputs
        self._known: tuple[list[torch.Tensor], list[torch.Tensor]] | None = None

    def array(self, position: int, result: bool) -> NDArray[Any] | None:
        """Its elements."""
        found = self.get(position, result)
        return None if found is None else values_of(found).array

    def get(self, position: int, result: bool) -> torch.Tensor | None:
        """The tensor at a position among the results, or among the arguments."""
        if self._known is None:
            inputs = references.widen(self._inputs)
            inputs = snapshots.replace(inputs, {id(t): t.clone() for t in snapshots.tensors(inputs)})
            try:
                results = references.call(self._name, inputs)
            except references.NoReference:
                results = []
            self._known = snapshots.tensors(inputs), snapshots.tensors(results)
        found = self._known[1 if result else 0]
        return found[position] if position < len(found) else None
