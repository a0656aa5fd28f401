"""Generated cases beside the database's samples: large, long, misaligned and odd sizes, with values of a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch

from hardpoint.check import expectations
from hardpoint.check.samples import Sample, noncontiguous, to_device, walk, without_gradient

#: Past common tile and buffer sizes, and no multiple of a vector width.
LARGE = 8209
#: The same for kernels that switch algorithms late.
HUGE = 70_001
#: Around powers of two, vector widths and tiles.
SIZES = (1, 2, 3, 7, 9, 15, 17, 31, 33, 63, 65, 127, 129, 255, 257, 511, 513, 1023, 1025, 4095, 4097, 65_535, 65_537)
#: Highest rank in a sample -> sizes of its dimensions, the most frequent dimension first. All are odd, and past 64
#: where the memory allows it, for the sums in matrix products.
TARGETS = {1: (LARGE,), 2: (263, 1031, 131), 3: (67, 71, 37), 4: (17, 19, 13)}
SMALL_TARGETS = {1: (257,), 2: (67, 71, 37), 3: (17, 19, 13), 4: (7, 11, 9)}
#: Extra error of grown samples, in ulps of the largest element: thousands of terms are added in another order.
LONG_SUM_UNITS = 64.0
#: Elements of a result beyond which smaller sizes are used.
MAX_ELEMENTS = 1 << 20


def pointwise(sample: Sample, size: int) -> Sample:
    """One-dimensional tensors with random elements of the sample's."""
    return _grown(sample, lambda t: _picked(t.flatten(), (size,)), f"{size} elements")


def reduced(sample: Sample, shape: tuple[int, ...]) -> Sample:
    """Tensors of another shape, with random elements of the sample's."""
    return _grown(sample, lambda t: _picked(t.flatten(), (*shape,)), f"{'x'.join(map(str, shape))} elements")


def misaligned(sample: Sample) -> Sample:
    """The same values one element after the start of an allocation, where vector loads are not aligned."""

    def shift(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_conj() or tensor.is_neg():
            return tensor.clone()
        base = torch.zeros(tensor.numel() + 1, dtype=tensor.dtype)
        return base[1:].view(tensor.shape).copy_(tensor)

    return _grown(sample, shift, "misaligned")


def large(sample: Sample, function: Callable[..., Any]) -> Sample | None:
    """The sample with every dimension grown, equal sizes alike; None if the CPU rejects it.

    Numbers among the arguments that are sizes, such as a normalized shape, grow too if the CPU rejects them otherwise.
    """
    for targets in (TARGETS, SMALL_TARGETS):
        sizes = _size_map(sample, targets)
        if not sizes:
            return None
        grown = _grown(sample, lambda t, sizes=sizes: _resized(t, sizes), "large")  # type: ignore[misc]
        mapped = walk_numbers(grown, sizes)
        for candidate in (grown, mapped):
            if (count := _result_elements(candidate, function)) is not None:
                if count <= MAX_ELEMENTS:
                    return candidate
                break
    return None


def walk_numbers(sample: Sample, sizes: dict[int, int]) -> Sample:
    """Replace sizes among the numbers in the sample's arguments."""

    def change(value: Any) -> Any:
        return sizes.get(value, value) if isinstance(value, int) and not isinstance(value, bool) else value

    return replace(sample, args=walk(sample.args, change), kwargs=walk(sample.kwargs, change))


def _result_elements(sample: Sample, function: Callable[..., Any]) -> int | None:
    """Elements of the largest result, from torch's shape rules; None if they reject the call."""
    try:
        result = to_device(without_gradient(sample), "meta").call(function)
    except Exception:
        return None
    found: list[int] = [0]
    walk(result, lambda v: found.append(v.numel()) if isinstance(v, torch.Tensor) else None)
    return max(found)


def _size_map(sample: Sample, targets: dict[int, tuple[int, ...]]) -> dict[int, int]:
    tensors = sample.tensors()
    rank = max((t.dim() for t in tensors), default=0)
    counts: dict[int, int] = {}
    for size in (size for t in tensors for size in t.shape if size > 1):
        counts[size] = counts.get(size, 0) + 1
    if rank not in targets or any(t.numel() == 0 for t in tensors):
        return {}
    order = sorted(counts, key=lambda size: (-counts[size], size))
    return {size: targets[rank][min(i, len(targets[rank]) - 1)] for i, size in enumerate(order)}


def _resized(tensor: torch.Tensor, sizes: dict[int, int]) -> torch.Tensor:
    for dim, size in enumerate(tensor.shape):
        if size in sizes:
            index = torch.randint(size, (sizes[size],))
            index[:size] = torch.arange(size)[: sizes[size]]  # every element, as far as there is room
            tensor = tensor.index_select(dim, index)
    return tensor.contiguous()


def _picked(flat: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    return flat[torch.randint(flat.numel(), shape)]


def _grown(sample: Sample, change: Callable[[torch.Tensor], torch.Tensor], label: str) -> Sample:
    def apply(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or (value.dim() == 0 and label != "misaligned"):
            return value
        return change(value.detach()).requires_grad_(value.requires_grad)

    return replace(sample.transform(apply), label=label)


def shuffled(sample: Sample) -> Sample:
    """The same sizes with the values in another order, for kernels that return an earlier result."""
    return _grown(sample, lambda t: t.flatten().flip(0).reshape(t.shape), "other values")


def denormal(sample: Sample) -> Sample:
    """Numbers below the smallest normal one, of both signs."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        tiny = torch.finfo(tensor.dtype).smallest_normal
        return (tensor.double().sign() * tiny * torch.rand(tensor.shape, dtype=torch.float64)).to(tensor.dtype)

    return _grown(sample, change, "denormals")


def shifted(sample: Sample) -> Sample:
    """Large values, whose exponential overflows."""
    return _grown(sample, lambda t: t + 300 if t.is_floating_point() else t, "large values")


def is_elementwise(entry: Any) -> bool:
    """Whether an entry computes each element of its result from the inputs' elements at that place."""
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

    return isinstance(entry, (UnaryUfuncInfo, BinaryUfuncInfo)) or entry.name in expectations.ELEMENTWISE


def cases(entry: Any, function: Callable[..., Any], first: Sample, *, main: bool, thorough: bool) -> Iterable[Sample]:
    """Generated cases of an entry; ``main`` for the dtype that is tested most."""
    from torch.testing._internal.opinfo.core import ReductionOpInfo

    if is_elementwise(entry):
        sizes = (*SIZES, LARGE, HUGE) if thorough else (LARGE, HUGE) if main else (LARGE,)
        for size in sizes:
            yield pointwise(first, size)
        yield misaligned(pointwise(first, 1031))
        # No operand is broadcast here, as in many samples.
        yield replace(noncontiguous(reduced(first, (31, 33))), label="odd strides")
        yield shuffled(first)
        if thorough and first.input.is_floating_point():
            yield denormal(first)
        return
    yield misaligned(first)
    names = {entry.name, f"{entry.name}.{entry.variant_test_name}"}
    if expectations.FACTORIZATIONS.search(entry.name) or names & expectations.NOT_GROWN.keys():
        return
    yield shuffled(first)
    if entry.name in expectations.EXPONENTIALS:
        yield shifted(first)
    if isinstance(entry, ReductionOpInfo) and len(first.tensors()) == 1:
        plain = replace(first, args=(), kwargs={})
        for size in (*SIZES, LARGE, HUGE) if thorough else (LARGE,):
            yield reduced(plain, (size,))
        yield reduced(replace(plain, kwargs={"dim": -1}), (3, LARGE))
        yield reduced(replace(plain, kwargs={"dim": 0}), (LARGE, 3))
    if (grown := large(first, function)) is not None:
        yield grown
        if thorough:
            yield misaligned(grown)
