"""The cases of an entry in one dtype: the database's samples, variants of them, edge cases, and generated sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from hardpoint.check import expectations, extra_samples, generated
from hardpoint.check.samples import Sample, copied, edge_cases, noncontiguous, richness
from hardpoint.check.saved_cases import Case

if TYPE_CHECKING:
    from hardpoint.check.ops import Entry

#: Labels of samples whose gradients are not compared: too many elements, and special values.
LONG = tuple(f"{size} elements" for size in (generated.MILLION, generated.GRID))
SPECIAL = ("with ", "only ", "values of ")


def cases(
    entry: Entry, samples: list[Sample], name: str, dtype: torch.dtype, gradient: bool, main: bool, leading: bool
) -> Iterator[Case]:
    """The cases of an entry.

    ``main``: for the dtype that gets the most cases. ``leading``: for the first of its kind.
    """
    # Before any call: some operators write their arguments.
    first = copied(max(samples, key=richness)) if samples else None
    for sample in (*samples, *extra_samples.samples(entry.name, dtype, gradient)):
        random_arguments = any(sample.kwargs.get(key) for key in expectations.RANDOM_ARGUMENTS)
        if entry.name in expectations.RANDOM or random_arguments:
            yield Case("random", sample, sample.label or "random")
        elif entry.name in expectations.UNWRITTEN:
            yield Case("metadata", sample, "metadata")
        else:
            yield Case("plain", sample, sample.label, gradient)
        # Among the samples with numbers for arguments, which the database lacks.
        alone = sample.label and len(sample.tensors()) == 1 and dtype.is_floating_point
        if alone and generated.is_elementwise(entry.info):
            values = (math.nan, math.inf, -math.inf, -0.0)
            special = generated.with_special_values(sample, 0, values, "with special values")
            yield Case("plain", special, special.label)
    for sample in extra_samples.refused(entry.name, dtype):
        yield Case("refused", sample, sample.label)
    if first is None or entry.name in expectations.RANDOM or entry.name in expectations.UNWRITTEN:
        return
    if first.tensors():
        yield Case("plain", noncontiguous(first), "non-contiguous", gradient)
    if entry.info.inplace_variant is not None:
        target = next((s for s in samples if not s.broadcasts_input), first)
        yield Case("in-place", target, "in-place")
    if entry.info.supports_out:
        yield Case("out", first, "out=")
        yield Case("out, resized", first, "out= of another size")
    for sample in edge_cases(entry.info, dtype, first):
        if sample.label == "extreme values" and (entry.name, name) in expectations.NO_EXTREME_VALUES:
            continue
        yield Case("plain", sample, sample.label, gradient and "extreme" not in sample.label)
    if first.tensors() and all(t.numel() for t in first.tensors()):
        yield from _generated(entry, first, name, gradient, main, leading)


def _generated(entry: Entry, first: Sample, name: str, gradient: bool, main: bool, leading: bool) -> Iterator[Case]:
    from torch.testing._internal.opinfo.core import ReductionOpInfo

    entry.seed(f"{name}, generated")
    made = list(generated.cases(entry.info, entry.info, first, main=main, leading=leading, thorough=entry.thorough))
    for sample in made:
        # Gradients of special values are nobody's promise; those of so many elements take long.
        special = sample.label in LONG or sample.label == "denormals" or sample.label.startswith(SPECIAL)
        yield Case("plain", sample, sample.label, gradient and main and not special)
    # Lists, and elementwise operators.
    whole = [s for s in made if s.label == f"{generated.LARGE} elements"]
    if main and whole and entry.info.inplace_variant is not None and not isinstance(entry.info, ReductionOpInfo):
        yield Case("in-place", whole[0], f"in-place, {whole[0].label}")
    if entry.name not in expectations.NONDETERMINISTIC:
        usual = (s for s in made if s.label not in LONG)
        biggest = max((first, *usual), key=lambda s: sum(t.numel() for t in s.tensors()))
        yield Case("twice", biggest, "the same call twice")
    if main or entry.thorough:
        yield Case("stream", first, "on another stream")
