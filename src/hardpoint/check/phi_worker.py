"""Calls Paddle's operators with generated arguments on the device and on the CPU, and judges every kernel they reach.

Every Phi kernel that the device runs is compared with Paddle's CPU kernel on the same inputs; then the operator's
results and gradients are compared with those of the operator on the CPU. New memory is filled with a known byte.

As a process it answers requests of :class:`hardpoint.check.runner.WorkerProcess`, one JSON object per line.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardpoint.check import numerics
from hardpoint.check.numerics import Values
from hardpoint.check.phi_cases import Case, DtypeMarker, PlaceMarker, TensorSpec, default_cases, read_table, signatures
from hardpoint.check.side_effects import POISON
from hardpoint.debug._calls.base import Call, Comparison, Report
from hardpoint.debug._calls.paddle_tensor import HostTensor, tensors
from hardpoint.debug._saved.files import call_file
from hardpoint.debug._tool.base import Tool
from hardpoint.debug.compare import format_report
from hardpoint.ops.phi._semantics import NOT_UNIQUE, OWN_FORMAT, RANDOM, SINGLE_PRECISION, TIE_BREAKING, UNDEFINED

DTYPES = (
    *("float32", "float64", "float16", "bfloat16", "int32", "int64", "int16", "int8", "uint8", "bool"),
    *("complex64", "complex128"),
)
#: Dtypes in which the operator's own results are compared, with the tolerance relative to the largest element: several
#: kernels in a row may round. A single kernel must meet the tolerances of :mod:`hardpoint.check.numerics`. Paddle
#: passes most attributes in float32, and some CPU kernels compute with them before widening.
TOLERANCES = {"float32": 1e-4, "float64": 1e-6, "complex64": 1e-4, "complex128": 1e-6}
MAX_BYTES = 1 << 30
ENDED = "it ended the process"
#: Positions of results with private contents, such as the state of a dropout.
PRIVATE_RESULTS = {"rnn": (1,)}
#: Kernels whose results may differ from the CPU's by more than rounding errors.
_LOOSE = {name for name, _ in SINGLE_PRECISION} | RANDOM | TIE_BREAKING | NOT_UNIQUE | UNDEFINED


@dataclass
class Record:
    """The outcome of one kernel call. ``verdict``: same, wrong, unwritten, refused, or not compared."""

    kernel: str
    dtype: str
    verdict: str
    tier: str = ""
    detail: str = ""
    #: The operator's call, and the file for ``hardpoint replay``.
    call: str = ""
    saved: str = ""


class Recorder(Tool[Comparison]):
    """Compares each kernel call with the CPU and keeps the records."""

    def __init__(self, save: Path | None, wrong_on_cpu: dict[str, str]) -> None:
        super().__init__(())
        self.records: list[Record] = []
        self.wrong_on_cpu = wrong_on_cpu
        self.call = ""
        self.save = save

    def begin(self, call: Call) -> Comparison | None:
        """Copy the inputs."""
        return call.start_comparison(MAX_BYTES)

    def end(self, call: Call, state: Comparison | None) -> None:
        """Compare."""
        assert state is not None
        report = state.finish({}, False)
        verdict: str = "same" if report["verdict"] == "right" else report["verdict"]
        detail = saved = ""
        if verdict == "wrong" and (reason := self.wrong_on_cpu.get(call.name.removeprefix("phi::"))):
            verdict, detail = "not compared", f"Paddle's CPU kernel is wrong: {reason}"
        elif verdict == "not compared":
            detail = report["reason"]
        elif verdict == "wrong":
            verdict = "unwritten" if _is_poisoned(call, report) else verdict
            wrong = [tensor for tensor in report["tensors"] if tensor["wrong"]]
            detail = format_report({**report, "tensors": wrong})
            if self.save is not None:
                # Entries run side by side; the entry's name keeps their files apart.
                label = f"{call.name}-{getattr(call, 'dtype', '')}-{self.call.partition('(')[0]}"
                saved = str(state.save(call_file(self.save, label, len(self.records) + 1), report))
        self._add(call, verdict, call.tier or "", detail, saved)

    def fail(self, call: Call, state: Comparison | None, message: str) -> None:
        """The device refused the call."""
        self._add(call, "refused", "", _last_line(message), "")

    def _add(self, call: Call, verdict: str, tier: str, detail: str, saved: str) -> None:
        name = call.name.removeprefix("phi::")
        dtype = getattr(call, "dtype", "")
        self.records.append(Record(name, dtype, verdict, tier, detail, self.call, saved))


def _is_poisoned(call: Call, report: Report) -> bool:
    """Whether a wrong output still contains the byte that memory was filled with."""
    wrong = {tensor["name"] for tensor in report["tensors"] if tensor["wrong"]}
    for position, tensor in enumerate(tensors(call.results)):
        if f"output {position}" in wrong and tensor.has_memory:
            bits = np.ascontiguousarray(HostTensor.copy(tensor).bits())
            raw = bits.view(np.uint8).reshape(bits.size, -1) if bits.size else np.zeros((1, 1), np.uint8)
            if (raw == POISON).all(axis=1).any():
                return True
    return False


def _last_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "error" in line]
    return (errors or lines or [""])[-1][:300]


class Sweep:
    """Generates calls and runs them on the mounted device."""

    def __init__(self, device: str, save: Path | None = None, order: int = 2) -> None:
        """``order``: the highest order of derivatives."""
        import paddle
        import paddle.base.core

        from hardpoint.paddle import _adapter

        core: Any = paddle.base.core

        self.paddle, self.device = paddle, device
        self.adapter = _adapter.load()
        self.order = order
        self.table = read_table()
        self.recorder = Recorder(save, self.table.wrong_on_cpu)
        self._step: Callable[[str], None] = lambda at: None
        self._first_only = False
        #: Calls that ended the process, with the order of derivatives.
        self.skip: set[str] = set()
        self._ops = core.eager.ops
        self._signatures = signatures(Path(paddle.__file__).parent)
        registered: dict[str, list[str]] = core._get_registered_phi_kernels("all")
        #: Kernel -> dtypes in which the device has it.
        self.kernels: dict[str, list[str]] = {}
        for name, keys in registered.items():
            mine = [k.strip("()").split(", ")[-1] for k in keys if k.startswith(f"({device},")]
            if mine:
                self.kernels[name] = mine

    def entries(self) -> list[str]:
        """Operators and kernels to call."""
        names = [name for name in dir(self._ops) if self.cases(name)]
        return names + [name for name, cases in self.table.cases.items() if cases[0].direct]

    def cases(self, name: str) -> list[Case]:
        """The calls of an operator. An in-place operator has those of the operator itself."""
        if name in self.table.cases:
            return self.table.cases[name]
        sparse = name.startswith(("sparse_", "strings_", "__"))
        if sparse or name.endswith(("_grad", "_grad_")) or self.table.reason(name):
            return []
        if name.endswith("_"):
            return [case for case in self.cases(name[:-1]) if not case.direct] if hasattr(self._ops, name[:-1]) else []
        if name not in self.kernels and f"{name}_raw" not in self.kernels:
            return []
        return default_cases(name, self._signatures.get(name, []))

    def dtypes(self, case: Case) -> tuple[str, ...]:
        """Dtypes to test a case in."""
        if case.dtypes:
            return case.dtypes
        if not case.tested_dtype:
            return ("float32",)
        base = case.target.rstrip("_")
        known = self.kernels.get(case.target) or self.kernels.get(base) or self.kernels.get(f"{base}_raw")
        return tuple(d for d in DTYPES if d in known) if known else DTYPES

    def _limit(self, order: int) -> int:
        """The highest order of derivatives, up to ``order``, that did not end the process before; -1 if none."""
        while order >= 0 and f"{self.recorder.call}, order {order}" in self.skip:
            order -= 1
        return order

    def run(
        self, name: str, wanted: list[str], step: Callable[[str], None] = lambda at: None
    ) -> tuple[list[Record], list[str]]:
        """Run all cases of an entry in the wanted dtypes; returns the records and why cases were skipped."""
        self.recorder.records = []
        skipped: list[str] = []
        for case in self.cases(name):
            for dtype in self.dtypes(case):
                if dtype in wanted:
                    self.recorder.call = f"{name}({case.text}) in {dtype}"
                    self._step = step
                    reason = self._direct(case, dtype) if case.direct else self._operator(name, case, dtype)
                    if reason:
                        skipped.append(f"{dtype}: {reason}")
        return self.recorder.records, skipped

    @contextmanager
    def _poisoned(self) -> Iterator[None]:
        self.adapter.start_poisoning(self.device, 0, POISON)
        try:
            yield
        finally:
            self.adapter.stop_poisoning()

    @contextmanager
    def _recording(self) -> Iterator[None]:
        with self._poisoned():
            self.recorder.start()
            try:
                yield
            finally:
                self.recorder.stop()

    def _direct(self, case: Case, dtype: str) -> str:
        """Call a kernel with its own arguments."""
        if dtype not in self.kernels.get(case.target, ()):
            return "the device has no such kernel"
        rng = case.generator(dtype)

        def described(spec: Any) -> Any:
            if spec is None:
                return None
            array, name = spec.array(dtype, rng), spec.dtype(dtype)
            if name == "bfloat16":
                array = (array.view(np.uint32) >> 16).astype(np.uint16)
            strides = np.array(array.strides) // array.itemsize
            return name, list(array.shape), strides.tolist(), np.ascontiguousarray(array).tobytes()

        inputs = [described(spec) for spec in case.arguments[: case.split]]
        attributes = [
            (spec.name or dtype) if isinstance(spec, DtypeMarker) else spec for spec in case.arguments[case.split :]
        ]
        outputs = [(spec.dtype(dtype), list(spec.shape)) for spec in case.outputs]
        if self._limit(0) < 0:
            return ENDED
        self._step(f"{self.recorder.call}, order 0 on {self.device}")
        try:
            with self._recording():
                self.adapter.call_kernel(case.target, dtype, f"{self.device}:0", inputs, attributes, outputs)
        except Exception as error:
            return _last_line(str(error))
        return ""

    def _on_cpu(self, name: str, case: Case, dtype: str, in_place: bool) -> tuple[_Outcome | None, int, str]:
        """The CPU's outcome, the highest order of its derivatives, and if there is none the reason and -1."""
        order = 0 if in_place else self.order if dtype in ("float32", "float64") else 1
        reason = ENDED
        self._first_only = False
        while (order := self._limit(order)) >= 0:
            try:
                with self._poisoned():
                    return self._evaluate(name, case, dtype, "cpu", order), order, ""
            except Exception as error:
                reason = _last_line(str(error))
            # Some operators have a gradient of their first result only.
            self._first_only = order == 1 and not self._first_only
            order -= not self._first_only
        return None, -1, reason

    def _order_in_float32(self, name: str, case: Case, in_place: bool) -> tuple[int, str]:
        """The order of derivatives for a 16-bit dtype that the CPU lacks; -1 and the reason if it is no call at all."""
        reason = ENDED
        for order, self._first_only in ((0, False),) if in_place else ((1, False), (1, True), (0, False)):
            if self._limit(order) != order:
                continue
            try:
                self._evaluate(name, case, "float32", "cpu", order)
                return order, ""
            except Exception as error:
                reason = _last_line(str(error))
        return -1, reason

    def _operator(self, name: str, case: Case, dtype: str) -> str:
        """Call an operator on the CPU and on the device."""
        in_place = name.endswith("_") and name not in self.table.cases
        expected, order, reason = self._on_cpu(name, case, dtype, in_place)
        if expected is None and dtype in ("float16", "bfloat16"):
            order, reason = self._order_in_float32(name, case, in_place)
        if order < 0:
            return reason
        first = len(self.recorder.records)
        try:
            with self._recording():
                actual = self._evaluate(name, case, dtype, self.device, order)
        except Exception as error:
            mine = self.recorder.records[first:]
            if expected is None:
                # Without a result of the CPU, a refusal is no defect.
                self.recorder.records[first:] = [r for r in mine if r.verdict != "refused"]
                return _last_line(str(error))
            if not any(record.verdict in ("refused", "wrong", "unwritten") for record in mine):
                kernel, detail = self._main_kernel(name, mine), _last_line(str(error))
                self.recorder.records.append(Record(kernel, dtype, "refused", "", detail, self.recorder.call))
            return ""
        mine = self.recorder.records[first:]
        doubtful = _LOOSE | self.table.wrong_on_cpu.keys()
        if any(r.verdict in ("wrong", "unwritten") for r in mine):
            return ""
        problem = actual.gradient_dtypes()
        if not problem and expected is not None and not any(r.kernel in doubtful for r in mine):
            problem = expected.difference(actual, PRIVATE_RESULTS.get(name, ()))
            for record in mine:
                if record.kernel in OWN_FORMAT:
                    record.verdict, record.detail = "same", "compared as part of the operator"
        if problem:
            kernel = self._main_kernel(name, mine)
            self.recorder.records.append(Record(kernel, dtype, "wrong", "", problem, self.recorder.call))
        return ""

    def _main_kernel(self, name: str, records: list[Record]) -> str:
        names = [record.kernel for record in records]
        return name.rstrip("_") if name.rstrip("_") in names or not names else names[-1]

    def _evaluate(self, name: str, case: Case, dtype: str, place: str, order: int) -> _Outcome:
        """Results and gradients up to an order of derivatives."""
        paddle = self.paddle
        rng = case.generator(dtype)
        paddle.set_device(place)
        paddle.seed(7)
        self._step(f"{self.recorder.call}, order {order} on {place}")
        leaves: list[Any] = []
        in_place = name.endswith("_") and name not in self.table.cases

        def build(spec: Any) -> Any:
            if isinstance(spec, list) and any(isinstance(item, TensorSpec) for item in spec):
                return [build(item) for item in spec]
            if isinstance(spec, DtypeMarker):
                return getattr(paddle, spec.name or dtype)
            if isinstance(spec, PlaceMarker):
                return paddle.CPUPlace() if place == "cpu" else paddle.CustomPlace(place, 0)
            if not isinstance(spec, TensorSpec):
                return spec
            tensor = paddle.to_tensor(spec.array(dtype, rng))
            if spec.dtype(dtype) == "bfloat16":
                tensor = tensor.astype("bfloat16")
            if spec.dtype(dtype).startswith(("float", "bfloat", "complex")):
                tensor.stop_gradient = not order or name.endswith("_")
            leaves.append(tensor)
            return tensor

        arguments = [build(spec) for spec in case.arguments]
        results = [t for t in _flat(getattr(self._ops, name)(*arguments)) if isinstance(t, paddle.Tensor)]
        results = [t for t in results if t._is_initialized()]  # others are private, such as a workspace
        if in_place and results[0].shape != list(case.first_shape):
            raise ValueError("an in-place call cannot change the shape")
        outcome = _Outcome([_values(t) for t in results])
        outcome.inputs = [_values(t) for t in leaves]
        for remaining in range(order, 0, -1):
            results = [t for t in results if t is not None and not t.stop_gradient]
            inputs = [t for t in leaves if not t.stop_gradient]
            if not results or not inputs:
                break
            results = results[:1] if self._first_only else results
            seeds = [_seed(paddle, t) for t in results]
            results = paddle.grad(
                results, inputs, seeds, retain_graph=True, create_graph=remaining > 1, allow_unused=True
            )
            outcome.gradients.append([None if t is None else _values(t) for t in results])
        return outcome


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _seed(paddle: Any, like: Any) -> Any:
    """An output gradient with a different value for each element."""
    count = int(np.prod(like.shape))
    seed = paddle.to_tensor(np.linspace(0.5, 1.5, count, dtype="float64").reshape(like.shape))
    return seed.astype(like.dtype)


def _values(tensor: Any) -> Values:
    name = str(tensor.dtype).rpartition(".")[2]
    host = tensor.detach().cpu()
    if name == "bfloat16":
        bits = np.asarray(host.numpy()).astype(np.uint32)
        return Values((bits << 16).view(np.float32).reshape(tensor.shape), name)
    return Values(np.asarray(host.numpy()), name)


class _Outcome:
    """What an operator returned."""

    def __init__(self, results: list[Values]) -> None:
        self.results = results
        self.inputs: list[Values] = []
        self.gradients: list[list[Values | None]] = []

    def gradient_dtypes(self) -> str:
        """Describe a gradient with another dtype than its input; empty if there is none."""
        inputs = [v for v in self.inputs if v.dtype.startswith(("float", "bfloat", "complex"))]
        for gradients in self.gradients:
            for position, (gradient, source) in enumerate(zip(gradients, inputs, strict=False)):
                if gradient is not None and gradient.dtype != source.dtype:
                    return f"the gradient of input {position} is {gradient.dtype}, expected {source.dtype}"
        return ""

    def difference(self, actual: _Outcome, private: tuple[int, ...]) -> str:
        """How the device's outcome differs; empty if it does not. ``private``: positions of results not to compare."""
        lists: list[tuple[str, Any, Any]] = [
            ("result", self.results, actual.results),
            ("argument", self.inputs, actual.inputs),
        ]
        for order, (mine, theirs) in enumerate(zip(self.gradients, actual.gradients, strict=False), 1):
            lists.append((f"derivative of order {order}", mine, theirs))
        if len(self.gradients) != len(actual.gradients):
            return f"{len(actual.gradients)} orders of derivatives, expected {len(self.gradients)}"
        for what, mine, theirs in lists:
            if len(mine) != len(theirs):
                return f"{len(theirs)} of {what}, expected {len(mine)}"
            for position, (expected, found) in enumerate(zip(mine, theirs, strict=True)):
                if what == "result" and position in private:
                    continue
                if expected is not None and found is not None and (problem := _difference(found, expected)):
                    return f"{what} {position}: {problem}"
        return ""


def _difference(actual: Values, expected: Values) -> str:
    if actual.dtype != expected.dtype:
        return f"dtype is {actual.dtype}, expected {expected.dtype}"
    if actual.array.shape != expected.array.shape:
        return f"shape is {list(actual.array.shape)}, expected {list(expected.array.shape)}"
    if expected.dtype in ("float16", "bfloat16") or not expected.array.size:
        return ""
    rtol = TOLERANCES.get(expected.dtype, 0.0)
    finite = np.abs(expected.array[np.isfinite(expected.array)]) if rtol else np.zeros(0)
    tolerance = (rtol, rtol * float(finite.max(initial=0.0)))
    if numerics.close(actual, expected, tolerance):
        return ""
    found = numerics.measure(actual, expected, tolerance)
    return f"{found['wrong']} of {found['of']} elements wrong, worst {found['got']}, expected {found['expected']}"


def main() -> None:
    """Serve requests until stdin closes."""
    faulthandler.enable()
    responses = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def respond(**message: Any) -> None:
        responses.write(json.dumps(message) + "\n")

    warnings.simplefilter("ignore")
    sweep: Sweep | None = None
    for line in sys.stdin:
        request = json.loads(line)
        if sweep is None:
            respond(loading="Paddle")
            save = Path(request["save"]) if request.get("save") else None
            sweep = Sweep(request["device"], save)
        if "list" in request:
            reasons = {name: sweep.table.reason(name) for name in sweep.kernels}
            respond(entries=sweep.entries(), kernels=sweep.kernels, reasons={k: r for k, r in reasons.items() if r})
            continue
        sweep.skip = set(request["skip"])
        sent = 0

        def step(at: str, sweep: Sweep = sweep) -> None:
            nonlocal sent
            records = sweep.recorder.records[sent:]
            sent += len(records)
            # Sent messages survive a crash of the process.
            respond(at=at, records=[asdict(record) for record in records])

        records, skipped = sweep.run(request["entry"], request["dtypes"], step)
        respond(result=[asdict(record) for record in records[sent:]], skipped=skipped)


if __name__ == "__main__":
    main()
