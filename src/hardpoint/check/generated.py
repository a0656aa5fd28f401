"""Generated cases in addition to the database's samples: large, long, misaligned and odd sizes, with its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch

from hardpoint.check import expectations, values, variations
from hardpoint.check.samples import Sample, noncontiguous, to_device, walk, without_gradient

#: Past common tile and buffer sizes, and no multiple of a vector width.
LARGE = 8209
#: The same for kernels that switch algorithms at large sizes.
HUGE = 70_001
#: A power of two, where a tail of no elements may go wrong; past 2^20; past the groups of one grid of 65,535 by 256.
EXACT, MILLION, GRID = 4096, (1 << 20) + 7, (1 << 24) + 7
#: Around powers of two, vector widths and tiles.
SIZES = (1, 2, 3, 7, 9, 15, 17, 31, 33, 63, 65, 127, 129, 255, 257, 511, 513, 1023, 1025, 4095, 4097, 65_535, 65_537)
#: Highest rank in a sample -> sizes of its dimensions, the most frequent dimension first. All are odd, and larger than
#: 64 if memory allows, for the sums in matrix products.
TARGETS = {1: (LARGE,), 2: (263, 1031, 131), 3: (67, 71, 37), 4: (17, 19, 13)}
SMALL_TARGETS = {1: (257,), 2: (67, 71, 37), 3: (17, 19, 13), 4: (7, 11, 9)}
#: Extra error of grown samples, in ulps of the largest element: thousands of terms are added in another order.
LONG_SUM_UNITS = 64.0
#: Elements of a result beyond which smaller sizes are used.
MAX_ELEMENTS = 1 << 20
#: Sizes of a sample that are replaced by 1 and 0, and arguments that get special values.
MAX_THIN, MAX_SPECIAL = 3, 2


def pointwise(sample: Sample, size: int) -> Sample:
    """One-dimensional tensors with elements drawn from the sample."""
    return _grown(sample, lambda t: _picked(t.flatten(), (size,)), f"{size} elements")


def reduced(sample: Sample, shape: tuple[int, ...]) -> Sample:
    """Tensors of another shape, with elements drawn from the sample."""
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
    """The sample with every dimension grown, equal sizes by the same amount; None if the CPU rejects it.

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
    """Subnormal numbers of both signs."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        tiny = torch.finfo(tensor.dtype).smallest_normal
        return (tensor.double().sign() * tiny * torch.rand(tensor.shape, dtype=torch.float64)).to(tensor.dtype)

    return _grown(sample, change, "denormals")


def shifted(sample: Sample) -> Sample:
    """Large values far apart, whose exponentials overflow and underflow."""
    return _grown(sample, lambda t: t * 50 + 300 if t.is_floating_point() else t, "large values")


def offset(sample: Sample) -> Sample:
    """Values far from zero and close together: their squares hide the variance."""
    return replace(sample, input=(sample.input.detach() + 256).requires_grad_(), label="far from zero")


def masked_rows(sample: Sample) -> Sample:
    """A first row and column of negative infinity."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() < 2 or not tensor.is_floating_point():
            return tensor
        made = tensor.clone()
        made[..., 0, :] = made[..., 0] = -math.inf
        return made

    return _grown(sample, change, "rows of -inf")


def with_special_values(sample: Sample, position: int, values: tuple[float, ...], label: str) -> Sample:
    """Some elements of one floating-point argument replaced by special values, and of the others by zero."""
    seen = -1

    def change(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal seen
        if not tensor.is_floating_point() or tensor.is_conj() or tensor.is_neg():
            return tensor
        seen += 1
        made, count = tensor.clone(memory_format=torch.contiguous_format), tensor.numel()
        flat = made.view(-1)
        if seen != position:
            flat[::2] = 0
            return made
        for number, value in enumerate(values):
            flat[(2 * number + 1) * count // (2 * len(values))] = value
        return made

    return _grown(sample, change, label)


def repeated(sample: Sample) -> Sample | None:
    """The first tensor as both operands; None if there is one only."""
    left, right = sample.input, next(iter(sample.args), None)
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor) or left.dtype != right.dtype:
        return None
    return replace(sample, args=(left, *sample.args[1:]), label="the same tensor twice")


def with_number(sample: Sample) -> Sample:
    """A number as the second operand. Only float64 holds all digits of 0.1."""
    number = 0.1 if sample.input.is_floating_point() or sample.input.is_complex() else 3
    return replace(sample, args=(number, *sample.args[1:]), label="with a number")


def ascending(sample: Sample) -> Iterable[Sample]:
    """Long rows whose largest elements come last, after what a kernel may have summed already."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        rows = torch.linspace(-30, 30, LARGE, dtype=torch.float64).to(tensor.dtype)
        shape = (3,) * (tensor.dim() - 1)
        rows = rows.expand(*shape, LARGE)
        return (rows if last else rows.transpose(0, -1)).contiguous()

    for last in (True, False):
        yield _grown(sample, change, "ascending rows" if last else "ascending columns")


def long_lists(sample: Sample) -> Sample | None:
    """Lists of 67 tensors, if the input is a list; lists of numbers of that length grow with it."""
    tensors = sample.input
    if not isinstance(tensors, (list, tuple)) or not tensors or not all(isinstance(t, torch.Tensor) for t in tensors):
        return None

    def several(value: Any) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) != len(tensors) or hasattr(value, "_fields"):
            return value
        chosen = (value[i % len(value)] for i in range(67))
        return type(value)(v.detach().clone() if isinstance(v, torch.Tensor) else v for v in chosen)

    args = tuple(several(value) for value in sample.args)
    return replace(sample, input=several(tensors), args=args, label="a long list")


def thin(sample: Sample, size: int) -> Iterable[Sample]:
    """Each size in turn replaced by a small one, for kernels with a special case for vectors, or for nothing."""
    sizes = {s: None for t in sample.tensors() for s in t.shape if s > 1}
    for each in list(sizes)[:MAX_THIN]:
        label = f"no elements instead of {each}" if size == 0 else f"1 instead of {each}"
        yield _grown(sample, lambda t, each=each: _resized(t, {each: size}), label)  # type: ignore[misc]


def long_rows(sample: Sample) -> Iterable[Sample]:
    """The only tensor with one long dimension: each in turn."""
    tensors = [t for t in sample.tensors() if t.dim()]
    if len(tensors) != 1:
        return
    rank = tensors[0].dim()
    for axis in range(min(rank, MAX_THIN)):
        yield reduced(sample, tuple(LARGE if dim == axis else 3 for dim in range(rank)))


def lonely(sample: Sample) -> Iterable[Sample]:
    """Zeros and a last element of one, and the reverse: what lies at the end decides."""
    pairs: list[tuple[float, float]] = [(0, 1), (1, 0)]
    if sample.input.is_floating_point():
        pairs.append((0, math.nan))
    for most, last in pairs:

        def change(t: torch.Tensor, most: float = most, last: float = last) -> torch.Tensor:
            made = torch.full((LARGE,), most, dtype=t.dtype)
            made[-1] = last
            return made

        yield _grown(sample, change, f"{last} after {LARGE - 1} times {most}")


def infinite(sample: Sample) -> Iterable[Sample]:
    """Nothing but infinity, of either sign."""
    for value in (math.inf, -math.inf):
        yield _grown(sample, lambda t, value=value: torch.full((3, 7), value, dtype=t.dtype), f"only {value}")  # type: ignore[misc]


def largest_integers(sample: Sample) -> Sample:
    """Integers whose sum needs more bits than they have; int64 as far as the sum fits."""

    def change(t: torch.Tensor) -> torch.Tensor:
        limit = torch.iinfo(t.dtype).max
        return torch.full((5, 67), limit // 1000 if t.dtype is torch.int64 else limit, dtype=t.dtype)

    return _grown(sample, change, "large integers")


def is_elementwise(entry: Any) -> bool:
    """Whether an entry is elementwise: each element of the result depends on the inputs' elements at its position."""
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

    return isinstance(entry, (UnaryUfuncInfo, BinaryUfuncInfo)) or entry.name in expectations.ELEMENTWISE


def cases(
    entry: Any, function: Callable[..., Any], first: Sample, *, main: bool, leading: bool, thorough: bool
) -> Iterable[Sample]:
    """Generated cases of an entry. ``main``: for the dtype that gets the most cases; ``leading``: of its kind."""
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ForeachFuncInfo, ReductionOpInfo, UnaryUfuncInfo

    if leading or thorough:
        yield from variations.variations(entry.op, first)
    if is_elementwise(entry):
        inexact = expectations.is_inexact(entry.name)
        function_of_one = isinstance(entry, UnaryUfuncInfo) and not inexact
        if first.input.is_floating_point() and function_of_one:
            yield values.magnitudes(first, first.input.dtype)
        if main and first.input.is_floating_point() and len(first.tensors()) == 1 and not inexact:
            yield values.thresholds(first, entry.op)
        narrow = inexact or entry.name in expectations.NARROW_INTEGERS
        if not narrow and (wide := values.wide(first)) is not None:
            yield wide
        sizes = [*SIZES, LARGE, HUGE] if thorough else [EXACT, LARGE, HUGE] if main else [LARGE]
        if main and not inexact:
            sizes += [MILLION, GRID] if thorough else [MILLION]
        for size in sizes:
            yield pointwise(first, size)
        yield misaligned(pointwise(first, 1031))
        # No operand is broadcast here, as in many samples.
        yield replace(noncontiguous(reduced(first, (31, 33))), label="odd strides")
        yield reduced(first, (3, 2, 1, 5, 2))
        yield shuffled(first)
        if (same := repeated(first)) is not None:
            yield same
        if isinstance(entry, BinaryUfuncInfo) and isinstance(first.input, torch.Tensor) and first.args:
            yield with_number(first)
        if thorough and first.input.is_floating_point():
            yield denormal(first)
        return
    yield misaligned(first)
    if main and isinstance(entry, ForeachFuncInfo):
        # Past the pieces in which kernels take a list.
        yield _grown(first, lambda t: _picked(t.flatten(), (LARGE,)), f"{LARGE} elements")
    names = {entry.name, f"{entry.name}.{entry.variant_test_name}"}
    if expectations.FACTORIZATIONS.search(entry.name) or names & expectations.NOT_GROWN.keys():
        return
    yield shuffled(first)
    same = repeated(first) if entry.name in expectations.MATRIX_PRODUCTS else None
    if same is not None and _is_accepted(same, function):
        yield same
    if (several := long_lists(first)) is not None and _is_accepted(several, function):
        yield several
    if leading and (where := variations.dimension(entry.op, first)) is not None:
        yield from (s for s in values.along_each(first, where) if _is_accepted(s, function))
    if entry.name in expectations.ORDERED and first.input.dtype in (torch.int64, torch.int32):
        yield values.distinct(first)
    if isinstance(entry, ForeachFuncInfo):
        if main:
            yield from _special(first, infinity=False)
        return
    if entry.name in expectations.EXPONENTIALS:
        yield shifted(first)
        yield masked_rows(first)
        yield from (s for s in ascending(first) if _is_accepted(s, function))
    if entry.name in expectations.CENTERED and torch.finfo(first.input.dtype).eps < 1e-4:
        yield offset(first)
    if isinstance(entry, ReductionOpInfo) and len(first.tensors()) == 1:
        plain = replace(first, args=(), kwargs={})
        for size in (*SIZES, LARGE, HUGE) if thorough else (LARGE, HUGE) if main else (LARGE,):
            yield reduced(plain, (size,))
        yield reduced(replace(plain, kwargs={"dim": -1}), (3, LARGE))
        yield reduced(replace(plain, kwargs={"dim": 0}), (LARGE, 3))
        yield from lonely(plain)
        yield from (reduced(replace(plain, kwargs={"dim": dim}), shape) for shape, dim in (((0, 3), 0), ((3, 0), -1)))
        yield replace(plain, input=first.input.detach().flatten()[:0], label="no elements")
        if first.input.is_floating_point():
            yield from infinite(plain)
        elif not first.input.is_complex() and first.input.dtype is not torch.bool and "prod" not in entry.name:
            yield largest_integers(plain)
    elif main or thorough:
        yield from (s for s in long_rows(first) if _is_accepted(s, function))
    if (main or thorough) and entry.name not in expectations.NO_NAN:
        yield from _special(first, entry.name not in expectations.NO_INFINITY)
    grown = large(first, function)
    if grown is not None:
        yield grown
        if thorough:
            yield misaligned(grown)
    if main or thorough:
        base = grown or first
        for size in (1, 0):
            yield from (s for s in thin(base, size) if _is_accepted(s, function))


def _special(sample: Sample, infinity: bool) -> Iterable[Sample]:
    floating = [t for t in sample.tensors() if t.is_floating_point() and t.numel() > 1]
    for position in range(min(len(floating), MAX_SPECIAL)):
        yield with_special_values(sample, position, (math.nan,) * 3, f"with NaN in argument {position}")
    if floating and infinity:
        yield with_special_values(sample, 0, (math.inf, -math.inf), "with infinity")


def _is_accepted(sample: Sample, function: Callable[..., Any]) -> bool:
    count = _result_elements(sample, function)
    return count is not None and count <= MAX_ELEMENTS
