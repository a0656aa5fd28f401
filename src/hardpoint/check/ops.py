"""Mode ``ops``: PyTorch's operator database on the device against the CPU."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.utils._pytree import tree_map

import hardpoint
from hardpoint import ops as standard
from hardpoint.check import (
    compare,
    expectations,
    generated,
    guard,
    numerics,
    op_cases,
    saved_cases,
    saved_results,
    side_effects,
)
from hardpoint.check.report import Result, Step
from hardpoint.check.samples import (
    WIDER,
    Sample,
    from_database,
    to_device,
    widened,
    without_gradient,
)
from hardpoint.check.saved_cases import Case

#: Max draws of a random entry that are pooled to compare distributions.
MAX_DRAWS = 40


@cache
def database() -> dict[str, Any]:
    """PyTorch's operator entries by name, those on lists of tensors included."""
    from torch.testing._internal import common_methods_invocations as databases

    kinds = ("unary", "binary", "pointwise", "reduce", "other")
    lists = itertools.chain(*(getattr(databases, f"foreach_{kind}_op_db", ()) for kind in kinds))
    found: dict[str, Any] = {}
    for entry in (*databases.op_db, *lists):
        name = f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else entry.name
        while name in found:
            name += "'"
        found[name] = entry
    return found


class Skip(Exception):
    """The CPU rejects this call too."""


class DeviceFailure(Exception):
    """The device raised an error and the CPU did not."""


class Entry:
    """Run of one entry."""

    def __init__(
        self,
        name: str,
        info: Any,
        device: str,
        limit: int,
        step: Step,
        *,
        thorough: bool = False,
        guarded: bool = False,
        failures: Path | None = None,
    ) -> None:
        self.name = name
        #: Run every generated case; put guard zones around every allocation; save the first failing case here.
        self.thorough, self.guarded, self.failures = thorough, guarded, failures
        self.info = info
        self.device = device
        self.limit = limit
        self.step = step
        self.result = Result("ops", name)
        #: Counters of each device call in the current check.
        self._counters: list[dict[str, dict[hardpoint.Tier, int]]] = []
        #: Device results by check, if they are to be saved; and the name of the current check.
        self.saved: dict[str, list[Any]] | None = None
        self._at = ""
        #: Kinds of dtypes that were checked: real, complex, bool.
        self._kinds: set[tuple[bool, ...]] = set()

    def run(self, dtypes: list[str]) -> Result:
        """Check every dtype that the CPU supports for the entry."""
        if reason := expectations.NOT_TESTED.get(self.name):
            self.result.detail = reason
            return self.result
        supported = self.info.supported_dtypes("cpu")
        if self.name.startswith("_foreach"):
            dtypes = [name for name in dtypes if name in expectations.LIST_DTYPES]
            self.limit = max(self.limit, expectations.LIST_SAMPLES)
        for name in dtypes:
            dtype = getattr(torch, name)
            if dtype in supported:
                self._dtype(name, dtype)
        if not self.result.dtypes and not self.result.detail:
            self.result.detail = f"supports none of {', '.join(dtypes)} on the CPU"
        return self.result.set_verdict()

    def _dtype(self, name: str, dtype: torch.dtype) -> None:
        self.seed(name)
        gradient = (
            (dtype.is_floating_point or dtype.is_complex)
            and self.info.supports_autograd
            and dtype in self.info.supported_backward_dtypes("cpu")
            and self.name not in expectations.UNWRITTEN
        )
        self.step(f"{name}, samples")
        try:
            samples = from_database(self.info, dtype, gradient, self.limit)
        except Exception as error:
            self.result.detail = f"{name}: no samples: {error}"
            return
        main = not self.result.dtypes
        kind = (dtype.is_floating_point, dtype.is_complex, dtype is torch.bool)
        leading = kind not in self._kinds
        self._kinds.add(kind)
        for number, case in enumerate(op_cases.cases(self, samples, name, dtype, gradient, main, leading)):
            self._at = f"{name}, {case.label or 'sample'} {number}"
            self.step(self._at)
            # The same random numbers on every device, independent of earlier checks.
            self.seed(self._at)
            self._counters.clear()
            before = without_gradient(case.sample) if self.failures is not None else case.sample
            try:
                problem = self.check(case, name)
            except Skip:
                self.result.count(name).skipped += 1
                continue
            for counters in self._counters:
                self.result.add_counters(name, counters)
            self.result.record(name, f"{name}, {case.label or f'sample {number}'}", problem)
            if problem and not self.result.saved and self.failures is not None:
                self._save_case(name, replace(case, sample=before, label=case.label or f"sample {number}"))

    def _save_case(self, dtype: str, case: Case) -> None:
        if self.failures is not None and self.name not in expectations.AMBIGUOUS:
            self.result.saved = saved_cases.save(self.failures, self.name, dtype, case)

    def check(self, case: Case, dtype_name: str) -> str:
        """Run one case; describes the failure, empty if it passes. Raises Skip if the CPU rejects it."""
        sample, dtype = case.sample, getattr(torch, dtype_name)
        checks: dict[str, Callable[[], str]] = {
            "random": lambda: self._random(sample),
            "metadata": lambda: self._unwritten(sample),
            "plain": lambda: self._plain(sample, dtype, case.gradient),
            "in-place": lambda: self._in_place(sample, dtype),
            "out": lambda: self._out(sample, dtype, resize=False),
            "out, resized": lambda: self._out(sample, dtype, resize=True),
            "refused": lambda: self._refused(sample),
            "twice": lambda: self._twice(sample),
            "stream": lambda: self._on_another_stream(sample, dtype),
        }
        try:
            # Kernels write too far mostly in generated cases and with out=. Guarding every call takes longer.
            with guard.zones(self.guarded or case.kind == "out" or bool(sample.label)) as damage:
                problem = checks[case.kind]()
                return problem or damage()
        except DeviceFailure as failure:
            return str(failure)

    # ---- Running one call

    def seed(self, what: str) -> None:
        """Seed the CPU and the device, for this entry and step."""
        torch.manual_seed(zlib.crc32(f"{self.name} {what}".encode()))

    def _on_cpu(self, sample: Sample, function: Callable[..., Any], **extra: Any) -> Any:
        try:
            return sample.call(function, **extra)
        except Exception as error:
            raise Skip from error

    def _placed(self, sample: Sample) -> Sample:
        placed = to_device(sample, self.device)
        if stay := expectations.ON_THE_CPU.get(self.name):
            placed.args = tuple(sample.args[i] if i in stay else a for i, a in enumerate(placed.args))
        return placed

    def _on_device(self, work: Callable[[], Any], label: str = "") -> Any:
        """Run a function on the device and record the tier counters."""
        hardpoint.reset_counters()
        try:
            result = work()
            torch.accelerator.synchronize()
        except Exception as error:
            raise DeviceFailure(f"{label}{type(error).__name__}: {error}") from error
        finally:
            self._counters.append(hardpoint.counters())
        return result

    def _save(self, call: str, result: Callable[[], Any]) -> None:
        if self.saved is not None:
            with torch.no_grad():
                self.saved[call] = saved_results.leaves(result())

    def _tolerance(self, dtype: torch.dtype) -> tuple[float, float] | None:
        given = standard.tolerances().get((self.name.replace(".", "_"), str(dtype).removeprefix("torch.")))
        # torch's own tolerance for float64 would pass a result in float32.
        double = dtype is torch.float64 and self._elementwise and self.name not in expectations.INEXACT_DOUBLES
        return given or (numerics.EXACT_DOUBLE if double else None)

    def _criteria(self, sample: Sample, dtype: torch.dtype, reference: Callable[[], Any]) -> tuple[Any, Any]:
        """Reference in a wider dtype, if meaningful, and tolerance for the operator's result."""
        if self.name in expectations.EXACT:
            return None, (0.0, 0.0)
        return reference if _can_be_widened(sample, dtype) else None, self._tolerance(dtype)

    def _view(self, sample: Sample, result: Any) -> Any:
        return sample.process(result) if self.name in expectations.AMBIGUOUS else result

    def _plain(self, sample: Sample, dtype: torch.dtype, gradient: bool) -> str:
        state = torch.get_rng_state()
        placed = self._placed(sample)
        inputs = side_effects.Inputs(sample)
        expected = self._on_cpu(sample, self.info)
        side_effects.poison(expected, self.device)
        actual = self._on_device(lambda: placed.call(self.info))
        if "device" not in sample.kwargs and any(
            isinstance(t, torch.Tensor) and t.device.type == "cpu" for t in compare.leaves(actual)
        ):
            # A factory call without a device argument uses the default device.
            with torch.device(self.device):
                actual = self._on_device(lambda: placed.call(self.info))

        expected = self._with_device_dtypes(sample, actual, expected)

        def reference() -> Any:
            wide = widened(sample)
            return self._view(wide, wide.call(self.info))

        with torch.no_grad():
            problem = compare.values(
                self._view(placed, actual),
                self._view(sample, expected),
                self.device,
                *self._criteria(sample, dtype, reference),
                elementwise=self._elementwise,
                units=self._units(sample),
                rounded_once=self.name in expectations.ROUNDED_ONCE,
                small=self._elementwise and not expectations.is_inexact(self.name),
                subnormal=self.thorough,
                signed_zero=self.name in expectations.SIGNED_ZERO,
            )
            if problem and self._same_choice(sample, actual, expected):
                problem = ""
            if problem and self._is_random(sample, expected, state, tries=8):
                return compare.metadata(actual, expected, self.device)
        self._save(self._at, lambda: self._view(placed, actual))
        if gradient and not problem:
            problem = self._backward(sample, placed, expected, actual, dtype)
        return problem or inputs.problem(sample, placed, self.device)

    def _with_device_dtypes(self, sample: Sample, actual: Any, expected: Any) -> Any:
        """Convert the CPU's results to the dtypes of torch's meta functions where the device follows those.

        The CPU saves normalization statistics in the input's dtype; other devices use float32, and so do traced graphs.
        """
        ours, right = compare.leaves(actual), compare.leaves(expected)
        differ = len(ours) == len(right) and any(
            isinstance(a, torch.Tensor) and isinstance(e, torch.Tensor) and a.dtype != e.dtype
            for a, e in zip(ours, right, strict=True)
        )
        if not differ:
            return expected
        try:
            rule = compare.leaves(to_device(without_gradient(sample), "meta").call(self.info))
        except Exception:
            return expected
        pairs = iter(zip(ours, rule if len(rule) == len(right) else right, strict=True))

        def adopt(value: Any) -> Any:
            mine, other = next(pairs)
            follows = isinstance(value, torch.Tensor) and isinstance(mine, torch.Tensor) and mine.dtype == other.dtype
            return value.to(other.dtype) if follows else value

        return tree_map(adopt, expected)

    def _is_random(self, sample: Sample, expected: Any, state: torch.Tensor, tries: int = 1) -> bool:
        """Whether the CPU's result depends on the state of its generator. One other state may give the same result."""
        with _without_fixed_seed():
            for turn in range(tries):
                torch.manual_seed(int(state.sum()) + 1 + turn)
                if compare.values(sample.call(self.info), expected, "cpu"):
                    return True
        return False

    def _same_choice(self, sample: Sample, actual: Any, expected: Any) -> bool:
        """Whether results differ only in the choice among equal elements."""
        if self.name not in expectations.TIES or compare.metadata(actual, expected, self.device):
            return False
        if sample.kwargs.get("stable"):
            return False  # the order of equal elements is given
        position = expectations.TIES[self.name]
        dim = sample.kwargs.get("dim", sample.args[position] if len(sample.args) > position else None)
        right = compare.leaves(expected)
        has_indices = len(right) == 2 or self.name == "argsort"
        for a, e in zip(compare.leaves(actual), right, strict=True):
            a = a.cpu()
            if has_indices and e is right[-1]:
                source = sample.input.detach() if sample.input.dim() else sample.input.detach().flatten()
                along = 0 if not sample.input.dim() else dim if isinstance(dim, int) else -1
                picked = []
                for index in (a, e):
                    index = index.reshape(-1) if source.dim() == 1 else index
                    index = index.unsqueeze(along) if index.dim() < source.dim() else index
                    picked.append(torch.take_along_dim(source, index, along))
                a, e = picked
            if not torch.allclose(a, e, equal_nan=True):
                return False
        return True

    def _backward(self, sample: Sample, placed: Sample, expected: Any, actual: Any, dtype: torch.dtype) -> str:
        def gradients(s: Sample, result: Any, seeds: list[torch.Tensor] | None, device: str) -> tuple[Any, Any]:
            return compare.gradients(s.process(result), s.tensors(), seeds, device)

        try:
            right, seeds = gradients(sample, expected, None, "cpu")
        except Exception:
            return ""  # no gradient on the CPU
        if right is None:
            return ""
        given = [seed.to(self.device) for seed in seeds]
        ours, _ = self._on_device(lambda: gradients(placed, actual, given, self.device), "backward: ")
        self._save(f"{self._at}, backward", lambda: ours)

        def reference() -> Any:
            wide = widened(sample)
            return gradients(wide, wide.call(self.info), seeds, "cpu")[0]

        for a, e in zip(ours or (), right, strict=True):
            # A missing gradient equals a zero gradient.
            if (a is None) != (e is None) and bool((a if e is None else e).ne(0).any()):
                return f"backward: expected {'no gradient' if e is None else 'a gradient'}"
        used = [k for k, (a, e) in enumerate(zip(ours, right, strict=True)) if a is not None and e is not None]
        inputs = [t for t in sample.tensors() if t.requires_grad]

        def chosen(values: Any) -> list[torch.Tensor]:
            return [values[k] for k in used]

        def sorted_ties(values: Any, device: str = "cpu") -> list[torch.Tensor]:
            """A selection may choose any of several equal elements, and the gradient follows its choice."""
            return [compare.among_equals(values[k], inputs[k]).to(device) for k in used]

        widen, tolerance = _can_be_widened(sample, dtype), self._tolerance(dtype)
        wider = (lambda: chosen(reference())) if widen else None
        wider_ties = (lambda: sorted_ties(reference())) if widen else None
        units = self._units(sample)
        problem = compare.values(
            chosen(ours), chosen(right), self.device, wider, tolerance, units=units
        ) and compare.values(
            sorted_ties(ours, self.device), sorted_ties(right), self.device, wider_ties, tolerance, units=units
        )
        return f"backward: {problem}" if problem else ""

    def _refused(self, sample: Sample) -> str:
        """The device must raise an error where the CPU does."""
        try:
            self._on_cpu(without_gradient(sample), self.info)
        except Skip as refusal:
            try:
                self._on_device(lambda: self._placed(without_gradient(sample)).call(self.info))
            except DeviceFailure:
                return ""
            return f"the device has a result where the CPU raises an error: {refusal.__cause__}"
        raise Skip

    def _twice(self, sample: Sample) -> str:
        """The same call must give the same bits."""
        state = torch.get_rng_state()
        right, placed = without_gradient(sample), self._placed(without_gradient(sample))
        expected = self._on_cpu(right, self.info)
        if self._is_random(right, expected, state):
            return ""
        first, second = (self._on_device(lambda: without_gradient(placed).call(self.info)) for _ in range(2))
        return "" if side_effects.same_bits(first, second) else "two calls with the same inputs give different results"

    def _on_another_stream(self, sample: Sample, dtype: torch.dtype) -> str:
        """The operator must run on the current stream, after the work that computes its inputs."""
        right, placed = without_gradient(sample), self._placed(without_gradient(sample))
        state = torch.get_rng_state()
        expected = self._on_cpu(right, self.info)
        if self._is_random(without_gradient(sample), expected, state):
            return ""
        plain = self._on_device(lambda: without_gradient(placed).call(self.info))
        actual = self._on_device(lambda: side_effects.DelayedInputs(self.device).call(placed, self.info))
        if side_effects.same_bits(plain, actual):
            return ""
        criteria = self._criteria(sample, dtype, lambda: widened(without_gradient(sample)).call(self.info))
        problem = compare.values(
            self._view(placed, actual),
            self._view(right, self._with_device_dtypes(right, actual, expected)),
            self.device,
            *criteria,
        )
        return "" if problem and self._same_choice(right, actual, expected) else problem

    def _units(self, sample: Sample) -> float:
        """Extra error of a sample, in ulps of the largest element."""
        return generated.LONG_SUM_UNITS if sample.label and not self._elementwise else 0.0

    @property
    def _elementwise(self) -> bool:
        return generated.is_elementwise(self.info)

    def _in_place(self, sample: Sample, dtype: torch.dtype) -> str:
        if not all(isinstance(value, torch.Tensor) for value in compare.leaves(sample.input)):
            raise Skip
        function = self.info.inplace_variant
        right, ours = without_gradient(sample), self._placed(without_gradient(sample))
        inputs = side_effects.Inputs(replace(right, input=None))
        self._on_cpu(right, function)
        returned = self._on_device(lambda: ours.call(function))
        if isinstance(ours.input, torch.Tensor) and returned is not ours.input:
            return "did not return its input"
        if problem := inputs.problem(replace(right, input=None), replace(ours, input=None), self.device):
            return problem

        def reference() -> Any:
            wide = widened(without_gradient(sample))
            wide.call(function)
            return wide.input

        return compare.values(ours.input, right.input, self.device, *self._criteria(sample, dtype, reference))

    def _out(self, sample: Sample, dtype: torch.dtype, resize: bool) -> str:
        right = without_gradient(sample)
        expected = self._on_cpu(right, self.info)
        outputs = compare.leaves(expected)
        if not outputs or not all(isinstance(t, torch.Tensor) for t in outputs):
            raise Skip
        tuple_like = isinstance(expected, (tuple, list))

        def made(device: str, strided: bool) -> Any:
            # A wrong size must be resized; a right one must be written with its strides.
            each = [
                torch.empty(0, dtype=t.dtype, device=device)
                if resize
                else torch.zeros(t.shape[::-1], dtype=t.dtype, device=device).permute(list(range(t.dim()))[::-1])
                if strided
                else torch.zeros(t.shape, dtype=t.dtype, device=device)
                for t in outputs
            ]
            return tuple(each) if tuple_like else each[0]

        inputs, placed, ours = side_effects.Inputs(right), self._placed(right), made(self.device, strided=True)
        # Only for errors and written inputs. Contiguous, since some CPU kernels ignore an output's strides, and write
        # past its end: linalg.lu does for batches.
        self._on_cpu(right, self.info, out=made("cpu", strided=False))
        try:
            self._on_device(lambda: placed.call(self.info, out=ours))
        except Exception:
            self._on_cpu(right, self.info, out=made("cpu", strided=True))  # may refuse these strides, too
            raise
        if problem := inputs.problem(right, placed, self.device):
            return problem

        criteria = self._criteria(sample, dtype, lambda: widened(right).call(self.info))
        problem = compare.values(self._view(placed, ours), self._view(right, expected), self.device, *criteria)
        return "" if problem and self._same_choice(right, ours, expected) else problem

    def _unwritten(self, sample: Sample) -> str:
        right, placed = without_gradient(sample), self._placed(without_gradient(sample))
        expected = self._on_cpu(right, self.info)
        actual = self._on_device(lambda: placed.call(self.info))
        return compare.metadata(actual, expected, self.device, strides=True)

    def _random(self, sample: Sample) -> str:
        """Compare metadata, reproducibility with a seed, and the distribution."""
        with torch.no_grad(), _without_fixed_seed():
            # Fresh copies for every call: in-place entries overwrite their input.
            expected = self._on_cpu(without_gradient(sample), self.info)
            placed = self._placed(without_gradient(sample))
            first, second = self._on_device(lambda: [self._seeded(placed, seed) for seed in (1, 1)])
            if problem := compare.metadata(first, expected, self.device):
                return problem
            if problem := compare.values(second, saved_results.leaves(first), self.device):
                return f"the same seed gives different values: {problem}"
            if problem := self._stuck(placed, expected):
                return problem
            size = sum(t.numel() for t in compare.leaves(expected) if isinstance(t, torch.Tensor))
            if self.name not in expectations.DRAWN or size == 0:
                return ""
            draws = min(MAX_DRAWS, -(-2000 // size))
            torch.manual_seed(2)
            right = [without_gradient(sample).call(self.info) for _ in range(draws)]
            ours = [self._seeded(placed, 3 + i) for i in range(draws)]
            return compare.distribution(ours, right)

    def _stuck(self, placed: Sample, expected: Any) -> str:
        """Whether many numbers from a continuous distribution repeat, within a call or in the next one."""
        found = [t for t in compare.leaves(expected) if isinstance(t, torch.Tensor)]
        if (
            self.name not in expectations.CONTINUOUS
            or not found
            or found[0].dtype not in (torch.float32, torch.float64)
        ):
            return ""
        many = generated.pointwise(placed, generated.LARGE) if placed.tensors() else placed
        torch.manual_seed(7)
        drawn = [compare.leaves(self._on_device(lambda: without_gradient(many).call(self.info)))[0] for _ in range(2)]
        values = torch.cat([compare.plain(t).flatten() for t in drawn])
        if (
            len(values) >= numerics.MIN_DRAWN
            and values.isfinite().all()
            and values.unique().numel() < 0.9 * len(values)
        ):
            return f"{len(values)} random numbers of two calls have only {values.unique().numel()} values"
        return ""

    def _seeded(self, placed: Sample, seed: int) -> Any:
        torch.manual_seed(seed)
        return without_gradient(placed).call(self.info)


def _without_fixed_seed() -> Any:
    """Stop database entries from resetting the seed before every call."""
    from torch.testing._internal import common_methods_invocations

    return mock.patch.object(
        common_methods_invocations, "wrapper_set_seed", lambda function, *args, **kwargs: function(*args, **kwargs)
    )


def _can_be_widened(sample: Sample, dtype: torch.dtype) -> bool:
    # Samples of some float64 entries have float32 weights, whose rounding affects the result. Integer inputs are
    # computed in float32 if the result is not integral.
    whole = not dtype.is_floating_point and not dtype.is_complex
    return whole or dtype in WIDER or any(t.dtype in WIDER for t in sample.tensors())


def run(name: str, device: str, options: dict[str, Any], step: Step) -> Result:
    """Check one entry."""
    entry = Entry(
        name,
        database()[name],
        device,
        options["samples"],
        step,
        thorough=options.get("thorough", False),
        guarded=options.get("guard", False),
        failures=Path(options["failures"]) if options.get("failures") else None,
    )
    folder = options.get("keep")
    entry.saved = {} if folder else None
    result = entry.run(options["dtypes"])
    if folder and entry.saved:
        saved_results.save(Path(folder), name, entry.saved)
    return result


def names(pattern: Callable[[str], bool]) -> list[str]:
    """Entries whose name or ATen name matches."""
    return [n for n, e in database().items() if pattern(n) or pattern(e.aten_name or e.name)]
