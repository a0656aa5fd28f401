"""Compare results of the device with those of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten

from hardpoint.check import numerics

Reference = Callable[[], Any]


def leaves(result: Any) -> list[Any]:
    """Flatten a result to its tensors and numbers."""
    return list(tree_flatten(result)[0])


def _metadata(actual: Any, expected: Any, device: str) -> str:
    if isinstance(expected, torch.Tensor) != isinstance(actual, torch.Tensor):
        return f"expected {type(expected).__name__}, got {type(actual).__name__}"
    if not isinstance(expected, torch.Tensor):
        return ""
    if actual.device.type != device:
        return f"the result is on {actual.device}"
    if actual.shape != expected.shape:
        return f"expected shape {tuple(expected.shape)}, got {tuple(actual.shape)}"
    if actual.dtype != expected.dtype:
        return f"expected {expected.dtype}, got {actual.dtype}"
    return ""


def metadata(actual: Any, expected: Any, device: str, strides: bool = False) -> str:
    """Describe a mismatch in shapes, dtypes or devices; empty if there is none."""
    ours, right = leaves(actual), leaves(expected)
    if len(ours) != len(right):
        return f"expected {len(right)} results, got {len(ours)}"
    for a, e in zip(ours, right, strict=True):
        if problem := _metadata(a, e, device):
            return problem
        if strides and isinstance(e, torch.Tensor) and e.numel() and a.stride() != e.stride():
            return f"expected strides {e.stride()}, got {a.stride()}"
    return ""


def gradients(
    result: Any, inputs: list[torch.Tensor], seeds: list[torch.Tensor] | None, device: str
) -> tuple[Any, list[torch.Tensor] | None]:
    """Gradients of the inputs that require one, and the seeds, which are drawn unless given.

    Without such an input or output, the gradients are None.
    """
    outputs = [t for t in leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    inputs = [t for t in inputs if t.requires_grad]
    if not outputs or not inputs:
        return None, seeds
    seeds = seeds or [torch.randn(t.shape, dtype=t.dtype) for t in outputs]
    given = [seed.to(device, t.dtype) for seed, t in zip(seeds, outputs, strict=True)]
    return torch.autograd.grad(outputs, inputs, given, allow_unused=True), seeds


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Copy to the CPU, with conjugation and negation resolved, in a dtype that the CPU can compare."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    return tensor.to(torch.complex64) if tensor.dtype is torch.complex32 else tensor


def values_of(tensor: torch.Tensor) -> numerics.Values:
    """Convert to the form that :mod:`hardpoint.check.numerics` compares."""
    host = plain(tensor)
    # NumPy lacks bfloat16, and computes float16 in float16.
    single = host.float() if host.dtype in (torch.bfloat16, torch.float16) else host
    return numerics.Values(single.numpy(force=True), str(tensor.dtype).removeprefix("torch."))


def message(actual: torch.Tensor, expected: torch.Tensor, tolerance: tuple[float, float] | None = None) -> str:
    """Describe how two CPU tensors differ."""
    rtol, atol = tolerance or (None, None)
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True, rtol=rtol, atol=atol, check_stride=False)
    except AssertionError as error:
        return " ".join(str(error).split())
    return "the results differ"


def values(
    actual: Any,
    expected: Any,
    device: str,
    reference: Reference | None = None,
    tolerance: tuple[float, float] | None = None,
    elementwise: bool = False,
    units: float = 0.0,
    rounded_once: bool = False,
    small: bool = False,
    subnormal: bool = False,
    signed_zero: bool = False,
) -> str:
    """Describe a mismatch of values; empty if there is none.

    A result passes if it is close to the CPU's by torch's tolerances, or as close as the CPU's to ``reference()``, the
    same computation in a wider dtype. With ``elementwise``, each 16-bit element has its own tolerance.
    ``units`` is an extra error in ulps of the largest element. ``rounded_once``: 16-bit results must be exact but for
    one rounding. ``small``: the absolute tolerance does not excuse small elements, nor subnormal ones with
    ``subnormal``. ``signed_zero``: zeros must have the right sign.
    """
    if problem := metadata(actual, expected, device):
        return problem
    exact: list[Any] | None = None
    right = leaves(expected)
    for position, (a, e) in enumerate(zip(leaves(actual), right, strict=True)):
        if not isinstance(e, torch.Tensor):
            if not _same_number(a, e):
                return f"expected {e!r}, got {a!r}"
            continue
        ours, native = values_of(a), values_of(e)
        once = numerics.ROUNDED_ONCE.get(ours.dtype) if rounded_once else None
        lost = small and numerics.loses_small(ours, native, subnormal=subnormal)
        flipped = signed_zero and bool(numerics.loses_sign(ours, native).any())
        if not lost and not flipped and numerics.close(ours, native, once or tolerance):
            continue
        if reference is not None and exact is None:
            try:
                exact = leaves(reference())
            except Exception:
                exact = []
        wide = exact[position] if exact and len(exact) == len(right) else None
        if isinstance(wide, torch.Tensor):
            array = values_of(wide).array
            lost = lost and numerics.loses_small(ours, native, array, subnormal)
            flipped = flipped and bool(numerics.loses_sign(ours, native, array).any())
            right_values = numerics.close(ours, native, once or tolerance)
            if (
                not flipped
                and not lost
                and (right_values or numerics.as_accurate(ours, native, array, elementwise, units, once))
            ):
                continue
        if flipped:
            count = int(numerics.loses_sign(ours, native).sum())
            return f"not close: {count} of {native.array.size} zeros have the wrong sign"
        return message(plain(a), plain(e), (numerics.SMALL_ACCURACY[ours.dtype], 0.0) if lost else once or tolerance)
    return ""


def among_equals(gradient: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Sort gradient elements among equal inputs, so that the choice among ties does not matter."""
    gradient, source = plain(gradient), plain(source)
    if gradient.shape != source.shape or gradient.is_complex():
        return gradient
    flat = gradient.flatten()
    order = flat.argsort(stable=True)
    order = order[source.flatten()[order].argsort(stable=True)]
    arranged = torch.empty_like(flat)
    # Groups of equal elements keep their positions, so that a message can name an index.
    arranged[source.flatten().argsort(stable=True)] = flat[order]
    return arranged.view(gradient.shape)


def _same_number(actual: Any, expected: Any) -> bool:
    if isinstance(expected, (float, complex)) and isinstance(actual, (int, float, complex)):
        a, e = (torch.tensor(v, dtype=torch.complex128) for v in (actual, expected))
        return bool(torch.isclose(a, e, rtol=1e-5, atol=1e-5, equal_nan=True))
    return bool(actual == expected)


def distribution(drawn: list[Any], expected: list[Any]) -> str:
    """Describe a mismatch of distributions; empty if there is none or too few values."""
    ours, right = (
        np.concatenate([values_of(t).array.ravel() for r in rs for t in leaves(r) if isinstance(t, torch.Tensor)])
        for rs in (drawn, expected)
    )
    return numerics.distribution(ours, right)
