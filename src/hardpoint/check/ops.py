"""The mode ``ops``: entries of PyTorch's operator database on the device against the CPU."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.utils._pytree import tree_map

import hardpoint
from hardpoint import ops as standard
from hardpoint.check import compare, kept, tables
from hardpoint.check.report import Result
from hardpoint.check.samples import (
    WIDER,
    Sample,
    edge_cases,
    from_database,
    noncontiguous,
    to_device,
    widened,
    without_gradient,
)

Step = Callable[[str], None]

#: Draws of a random entry that are pooled for a comparison of distributions, at most.
DRAWS = 40


def database() -> dict[str, Any]:
    """PyTorch's entries by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, Any] = {}
    for entry in op_db:
        name = f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else entry.name
        while name in found:
            name += "'"
        found[name] = entry
    return found


class Skip(Exception):
    """The CPU does not take this call either."""


class DeviceFailure(Exception):
    """The device raised an error where the CPU did not."""


class Entry:
    """One entry's run."""

    def __init__(self, name: str, info: Any, device: str, limit: int, step: Step) -> None:
        self.name = name
        self.info = info
        self.device = device
        self.limit = limit
        self.step = step
        self.result = Result("ops", name)
        #: What each part of the current check did on the device.
        self._counters: list[dict[str, dict[str, int]]] = []
        #: What the device computed in each check, where that is to be kept, and the check that runs.
        self.kept: dict[str, list[Any]] | None = None
        self._at = ""

    def run(self, dtypes: list[str]) -> Result:
        """All dtypes that the CPU supports for it."""
        if reason := tables.NOT_TESTED.get(self.name):
            self.result.detail = reason
            return self.result
        supported = self.info.supported_dtypes("cpu")
        for name in dtypes:
            dtype = getattr(torch, name)
            if dtype in supported:
                self._dtype(name, dtype)
        if not self.result.dtypes and not self.result.detail:
            self.result.detail = f"takes none of {', '.join(dtypes)} on the CPU"
        return self.result.settle()

    def _dtype(self, name: str, dtype: torch.dtype) -> None:
        self._seed(name)
        gradient = (
            (dtype.is_floating_point or dtype.is_complex)
            and self.info.supports_autograd
            and dtype in self.info.supported_backward_dtypes("cpu")
            and self.name not in tables.UNWRITTEN
        )
        self.step(f"{name}, samples")
        try:
            samples = from_database(self.info, dtype, gradient, self.limit)
        except Exception as error:
            self.result.detail = f"{name}: no samples: {error}"
            return
        for number, (label, check) in enumerate(self._checks(samples, name, dtype, gradient)):
            self._at = f"{name}, {label or 'sample'} {number}"
            self.step(self._at)
            # The same numbers on every device, whatever became of the checks before.
            self._seed(self._at)
            self._counters.clear()
            try:
                problem = check()
            except Skip:
                self.result.count(name).skipped += 1
                continue
            except DeviceFailure as failure:
                problem = str(failure)
            for counters in self._counters:
                self.result.add_counters(name, counters)
            if problem:
                self.result.count(name).failed += 1
                self.result.failure = self.result.failure or f"{name}, {label or f'sample {number}'}: {problem}"
            else:
                self.result.count(name).passed += 1

    def _checks(
        self, samples: list[Sample], name: str, dtype: torch.dtype, gradient: bool
    ) -> Iterator[tuple[str, Callable[[], str]]]:
        for sample in samples:
            random = tables.RANDOM.get(self.name)
            if random or any(sample.kwargs.get(key) for key in tables.RANDOM_ARGUMENTS):
                yield "random", partial(self._random, sample, random == "drawn")
            elif self.name in tables.UNWRITTEN:
                yield "metadata", partial(self._unwritten, sample)
            else:
                yield "", partial(self._plain, sample, dtype, gradient)
        if not samples or self.name in tables.RANDOM or self.name in tables.UNWRITTEN:
            return
        # The variants run on a sample that has elements: an empty one would pass whatever the kernel does.
        first = next((s for s in samples if s.tensors() and all(t.numel() for t in s.tensors())), samples[0])
        if first.tensors():
            yield "non-contiguous", lambda: self._plain(noncontiguous(first), dtype, gradient)
        if self.info.inplace_variant is not None:
            target = next((s for s in samples if not s.broadcasts_input), first)
            yield "in-place", lambda: self._in_place(target, dtype)
        if self.info.supports_out:
            yield "out=", lambda: self._out(first, dtype, resize=False)
            yield "out= of another size", lambda: self._out(first, dtype, resize=True)
        for case in edge_cases(self.info, dtype, first):
            if case.label == "extreme values" and (self.name, name) in tables.NO_EXTREME_VALUES:
                continue
            yield case.label, partial(self._plain, case, dtype, gradient and "extreme" not in case.label)

    # ---- Running one call

    def _seed(self, what: str) -> None:
        torch.manual_seed(zlib.crc32(f"{self.name} {what}".encode()))

    def _on_cpu(self, sample: Sample, function: Callable[..., Any], **extra: Any) -> Any:
        try:
            return sample.call(function, **extra)
        except Exception as error:
            raise Skip from error

    def _placed(self, sample: Sample) -> Sample:
        placed = to_device(sample, self.device)
        if stay := tables.ON_THE_CPU.get(self.name):
            placed.args = tuple(sample.args[i] if i in stay else a for i, a in enumerate(placed.args))
        return placed

    def _on_device(self, work: Callable[[], Any], label: str = "") -> Any:
        """Do something on the device and count the tiers that it used."""
        hardpoint.reset_counters()
        try:
            result = work()
            torch.accelerator.synchronize()
        except Exception as error:
            raise DeviceFailure(f"{label}{type(error).__name__}: {error}") from error
        finally:
            self._counters.append(hardpoint.counters())
        return result

    def _keep(self, call: str, result: Callable[[], Any]) -> None:
        if self.kept is not None:
            with torch.no_grad():
                self.kept[call] = kept.leaves(result())

    def _tolerance(self, dtype: torch.dtype) -> tuple[float, float] | None:
        return standard.tolerances().get((self.name.replace(".", "_"), str(dtype).removeprefix("torch.")))

    def _judge(self, sample: Sample, dtype: torch.dtype, reference: Callable[[], Any]) -> tuple[Any, Any]:
        """For the operator's own result: the reference in a wider dtype, if that is one, and the tolerance."""
        if self.name in tables.EXACT:
            return None, (0.0, 0.0)
        return reference if _can_be_widened(sample, dtype) else None, self._tolerance(dtype)

    def _view(self, sample: Sample, result: Any) -> Any:
        return sample.process(result) if self.name in tables.AMBIGUOUS else result

    def _plain(self, sample: Sample, dtype: torch.dtype, gradient: bool) -> str:
        state = torch.get_rng_state()
        expected = self._on_cpu(sample, self.info)
        placed = self._placed(sample)
        actual = self._on_device(lambda: placed.call(self.info))
        if "device" not in sample.kwargs and any(
            isinstance(t, torch.Tensor) and t.device.type == "cpu" for t in compare.leaves(actual)
        ):
            # A factory that was told no device: it uses the default one.
            with torch.device(self.device):
                actual = self._on_device(lambda: placed.call(self.info))

        expected = self._kept_wider(sample, actual, expected)

        def reference() -> Any:
            wide = widened(sample)
            return self._view(wide, wide.call(self.info))

        with torch.no_grad():
            problem = compare.values(
                self._view(placed, actual),
                self._view(sample, expected),
                self.device,
                *self._judge(sample, dtype, reference),
            )
            if problem and not self._same_choice(sample, actual, expected):
                if self._is_random(sample, expected, state):
                    return compare.metadata(actual, expected, self.device)
                self._keep(self._at, lambda: self._view(placed, actual))
                return problem
        self._keep(self._at, lambda: self._view(placed, actual))
        return self._backward(sample, placed, expected, actual, dtype) if gradient else ""

    def _kept_wider(self, sample: Sample, actual: Any, expected: Any) -> Any:
        """The CPU's result, in the dtype that torch's rules have on other devices where the device keeps to those.

        The CPU saves the statistics of a normalisation in the input's dtype. Elsewhere they are float32, as traced
        graphs take for granted.
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
        places = iter(zip(ours, rule if len(rule) == len(right) else right, strict=True))

        def adopt(value: Any) -> Any:
            mine, other = next(places)
            keeps = isinstance(value, torch.Tensor) and isinstance(mine, torch.Tensor) and mine.dtype == other.dtype
            return value.to(other.dtype) if keeps else value

        return tree_map(adopt, expected)

    def _is_random(self, sample: Sample, expected: Any, state: torch.Tensor) -> bool:
        """Whether the CPU does not agree with itself, from another state of its generator."""
        torch.manual_seed(int(state.sum()) + 1)
        with _own_seeds():
            return bool(compare.values(sample.call(self.info), expected, "cpu"))

    def _same_choice(self, sample: Sample, actual: Any, expected: Any) -> bool:
        """Whether results differ only in which of several equal elements was chosen."""
        if self.name not in tables.TIES or compare.metadata(actual, expected, self.device):
            return False
        position = tables.TIES[self.name] or 0
        dim = sample.kwargs.get("dim", sample.args[position] if len(sample.args) > position else None)
        flat = not isinstance(dim, int) and self.name in ("argmax", "argmin")
        for a, e in zip(compare.leaves(actual), compare.leaves(expected), strict=True):
            a = a.cpu()
            if e.dtype is torch.int64 and (e is compare.leaves(expected)[-1]):
                source = sample.input.detach().flatten() if flat or not sample.input.dim() else sample.input.detach()
                along = 0 if flat or not sample.input.dim() else dim if isinstance(dim, int) else -1
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
            outputs = [t for t in compare.leaves(s.process(result)) if isinstance(t, torch.Tensor) and t.requires_grad]
            inputs = [t for t in s.tensors() if t.requires_grad]
            if not outputs or not inputs:
                return None, None
            if seeds is None:
                seeds = [torch.randn(t.shape, dtype=t.dtype) for t in outputs]
            given = [seed.to(device, t.dtype) for seed, t in zip(seeds, outputs, strict=True)]
            return torch.autograd.grad(outputs, inputs, given, allow_unused=True), seeds

        try:
            right, seeds = gradients(sample, expected, None, "cpu")
        except Exception:
            return ""  # the CPU has no such gradient
        if right is None:
            return ""
        given = [seed.to(self.device) for seed in seeds]
        ours, _ = self._on_device(lambda: gradients(placed, actual, given, self.device), "backward: ")
        self._keep(f"{self._at}, backward", lambda: ours)

        def reference() -> Any:
            wide = widened(sample)
            return gradients(wide, wide.call(self.info), seeds, "cpu")[0]

        for a, e in zip(ours or (), right, strict=True):
            # No gradient and a gradient of zeros mean the same.
            if (a is None) != (e is None) and bool((a if e is None else e).ne(0).any()):
                return f"backward: expected {'no gradient' if e is None else 'a gradient'}"
        pairs = [(a, e) for a, e in zip(ours or (), right, strict=True) if a is not None and e is not None]

        def exact() -> Any:
            return [w for w, a, e in zip(reference(), ours, right, strict=True) if a is not None and e is not None]

        inputs = [t for t in sample.tensors() if t.requires_grad]
        used = [t for t, a, e in zip(inputs, ours or (), right, strict=True) if a is not None and e is not None]
        wider = exact if _can_be_widened(sample, dtype) else None
        given_tolerance = self._tolerance(dtype)
        problem = compare.values(
            [a for a, _ in pairs], [e for _, e in pairs], self.device, wider, given_tolerance
        ) and compare.values(
            # Which of equal elements a selection took is open, and so is which of them gets the gradient.
            [compare.among_equals(a, t).to(self.device) for (a, _), t in zip(pairs, used, strict=True)],
            [compare.among_equals(e, t) for (_, e), t in zip(pairs, used, strict=True)],
            self.device,
            wider and (lambda: [compare.among_equals(w, t) for w, t in zip(exact(), used, strict=True)]),
            given_tolerance,
        )
        return f"backward: {problem}" if problem else ""

    def _in_place(self, sample: Sample, dtype: torch.dtype) -> str:
        if not isinstance(sample.input, torch.Tensor):
            raise Skip
        function = self.info.inplace_variant
        right, ours = without_gradient(sample), self._placed(without_gradient(sample))
        self._on_cpu(right, function)
        returned = self._on_device(lambda: ours.call(function))
        if returned is not ours.input:
            return "did not return its input"

        def reference() -> Any:
            wide = widened(without_gradient(sample))
            wide.call(function)
            return wide.input

        return compare.values(ours.input, right.input, self.device, *self._judge(sample, dtype, reference))

    def _out(self, sample: Sample, dtype: torch.dtype, resize: bool) -> str:
        right = without_gradient(sample)
        expected = self._on_cpu(right, self.info)
        outputs = compare.leaves(expected)
        if not outputs or not all(isinstance(t, torch.Tensor) for t in outputs):
            raise Skip
        tuple_like = isinstance(expected, (tuple, list))

        def made(device: str) -> Any:
            # A size that is wrong must be mended; a right one must be written to through its own strides.
            each = [
                torch.empty(0, dtype=t.dtype, device=device)
                if resize
                else torch.zeros(t.shape[::-1], dtype=t.dtype, device=device).permute(list(range(t.dim()))[::-1])
                for t in outputs
            ]
            return tuple(each) if tuple_like else each[0]

        # Not a reference: some kernels of the CPU write as if any output were contiguous.
        self._on_cpu(right, self.info, out=made("cpu"))
        placed, ours = self._placed(right), made(self.device)
        self._on_device(lambda: placed.call(self.info, out=ours))

        def reference() -> Any:
            wide = widened(right)
            return wide.call(self.info)

        view = self._view
        judge = self._judge(sample, dtype, reference)
        problem = compare.values(view(placed, ours), view(right, expected), self.device, *judge)
        return "" if problem and self._same_choice(right, ours, expected) else problem

    def _unwritten(self, sample: Sample) -> str:
        right, placed = without_gradient(sample), self._placed(without_gradient(sample))
        expected = self._on_cpu(right, self.info)
        actual = self._on_device(lambda: placed.call(self.info))
        return compare.metadata(actual, expected, self.device, strides=True)

    def _random(self, sample: Sample, drawn: bool) -> str:
        """Shape and dtype as on the CPU, the same values for the same seed, and the CPU's distribution."""
        with torch.no_grad(), _own_seeds():
            # In-place entries would draw into what they drew before.
            expected = self._on_cpu(without_gradient(sample), self.info)
            placed = self._placed(without_gradient(sample))
            first, second = self._on_device(lambda: [self._seeded(placed, seed) for seed in (1, 1)])
            if problem := compare.metadata(first, expected, self.device):
                return problem
            if problem := compare.values(second, _on_cpu(first), self.device):
                return f"the same seed gave other values: {problem}"
            size = sum(t.numel() for t in compare.leaves(expected) if isinstance(t, torch.Tensor))
            if not drawn or size == 0:
                return ""
            draws = min(DRAWS, -(-2000 // size))
            torch.manual_seed(2)
            right = [without_gradient(sample).call(self.info) for _ in range(draws)]
            ours = [self._seeded(placed, 3 + i) for i in range(draws)]
            return compare.distribution(ours, right)

    def _seeded(self, placed: Sample, seed: int) -> Any:
        torch.manual_seed(seed)
        return without_gradient(placed).call(self.info)


def _own_seeds() -> Any:
    """Keeps the database's entries from setting one seed before every call."""
    from torch.testing._internal import common_methods_invocations

    return mock.patch.object(
        common_methods_invocations, "wrapper_set_seed", lambda function, *args, **kwargs: function(*args, **kwargs)
    )


def _can_be_widened(sample: Sample, dtype: torch.dtype) -> bool:
    # Weights are float32 in samples of some float64 entries: their rounding shows in the result. Integers are computed
    # in float32 where the result is not whole.
    whole = not dtype.is_floating_point and not dtype.is_complex
    return whole or dtype in WIDER or any(t.dtype in WIDER for t in sample.tensors())


def _on_cpu(result: Any) -> Any:
    return [t.cpu() if isinstance(t, torch.Tensor) else t for t in compare.leaves(result)]


def run(name: str, device: str, options: dict[str, Any], step: Step) -> Result:
    """Check one entry."""
    entry = Entry(name, database_cached()[name], device, options["samples"], step)
    folder = options.get("keep")
    entry.kept = {} if folder else None
    result = entry.run(options["dtypes"])
    if folder and entry.kept:
        kept.save(Path(folder), name, entry.kept)
    return result


_database: dict[str, Any] | None = None


def database_cached() -> dict[str, Any]:
    """:func:`database`, read once in a process."""
    global _database
    if _database is None:
        _database = database()
    return _database


def names(pattern: Callable[[str], bool]) -> list[str]:
    """The entries whose own name, or ATen's name for them, matches."""
    return [n for n, e in database_cached().items() if pattern(n) or pattern(e.aten_name or e.name)]
