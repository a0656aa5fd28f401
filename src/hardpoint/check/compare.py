"""Comparing a device's result with the CPU's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.testing._comparison import default_tolerances
from torch.utils._pytree import tree_flatten

#: How many times the CPU's own error, measured against a wider dtype, a device's error may be.
ERROR_FACTOR = 4.0
#: In 16 bits, intermediate results of an operator that is made of several are rounded, too: by so many units in the
#: last place of the largest element. (The CPU fuses some of these in float32, so that its own error does not show it.)
LOW_PRECISION_UNITS = 2.0
#: Elements that a two-sample Kolmogorov-Smirnov test needs to say anything.
MIN_DRAWN = 200
#: Its critical value: passed by equal distributions in all but one of 10,000 tests.
KS_CRITICAL = 2.23

Reference = Callable[[], Any]


def leaves(result: Any) -> list[Any]:
    """Tensors and numbers of a result, in order."""
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
    """What is wrong with shapes, dtypes and places of a result; empty if nothing is."""
    ours, right = leaves(actual), leaves(expected)
    if len(ours) != len(right):
        return f"expected {len(right)} results, got {len(ours)}"
    for a, e in zip(ours, right, strict=True):
        if problem := _metadata(a, e, device):
            return problem
        if strides and isinstance(e, torch.Tensor) and e.numel() and a.stride() != e.stride():
            return f"expected strides {e.stride()}, got {a.stride()}"
    return ""


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """On the CPU, without lazy conjugation or negation, in a dtype that the CPU can compare."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    return tensor.to(torch.complex64) if tensor.dtype is torch.complex32 else tensor


def _close(actual: torch.Tensor, expected: torch.Tensor, tolerance: tuple[float, float] | None) -> bool:
    if torch.equal(actual, expected):
        return True
    if not (expected.is_floating_point() or expected.is_complex()):
        return False
    rtol, atol = tolerance or default_tolerances(expected.dtype)
    return bool(torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True).all())


def _as_accurate(actual: torch.Tensor, native: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether the device is as near to a wider reference as the CPU is, up to a small factor."""
    if not (native.is_floating_point() or native.is_complex()) or exact.shape != actual.shape:
        return False
    rounded = exact.to(actual.dtype)  # what overflows this dtype is infinite in it
    if _close(actual, rounded, None):
        return True
    wide = exact.dtype
    finite = torch.isfinite(rounded) & torch.isfinite(native)
    if not torch.isclose(actual[~finite], rounded[~finite], equal_nan=True).all():
        return False
    if not torch.isfinite(actual[finite]).all():
        return False
    ours = (actual.to(wide) - exact)[finite].abs()
    theirs = (native.to(wide) - exact)[finite].abs()
    size = rounded.to(wide)[finite].abs()
    rtol, atol = default_tolerances(actual.dtype)
    if not ours.numel():
        return True
    allowed = ERROR_FACTOR * theirs.max()
    if actual.dtype in (torch.bfloat16, torch.float16):
        allowed = allowed + LOW_PRECISION_UNITS * torch.finfo(actual.dtype).eps * size.max()
    return bool((ours <= atol + rtol * size + allowed).all())


def _message(actual: torch.Tensor, expected: torch.Tensor, tolerance: tuple[float, float] | None) -> str:
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
) -> str:
    """What is wrong with a result; empty if nothing is.

    Right is what is close to the CPU's result in the same dtype, by torch's own tolerances, or as near as the CPU's is
    to ``reference()``, the same computation in a wider dtype.
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
        a, e = _plain(a), _plain(e)
        if _close(a, e, tolerance):
            continue
        if reference is not None and exact is None:
            try:
                exact = leaves(reference())
            except Exception:
                exact = []
        wide = exact[position] if exact and len(exact) == len(right) else None
        if isinstance(wide, torch.Tensor) and _as_accurate(a, e, _plain(wide)):
            continue
        return _message(a, e, tolerance)
    return ""


def among_equals(gradient: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """A gradient with its elements in order where those of its input are equal: the same whichever was selected."""
    gradient, source = _plain(gradient), _plain(source)
    if gradient.shape != source.shape or gradient.is_complex():
        return gradient
    flat = gradient.flatten()
    order = flat.argsort(stable=True)
    order = order[source.flatten()[order].argsort(stable=True)]
    arranged = torch.empty_like(flat)
    # Classes of equal elements keep their places, so that a message can name one.
    arranged[source.flatten().argsort(stable=True)] = flat[order]
    return arranged.view(gradient.shape)


def _same_number(actual: Any, expected: Any) -> bool:
    if isinstance(expected, (float, complex)) and isinstance(actual, (int, float, complex)):
        a, e = (torch.tensor(v, dtype=torch.complex128) for v in (actual, expected))
        return bool(torch.isclose(a, e, rtol=1e-5, atol=1e-5, equal_nan=True))
    return bool(actual == expected)


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().cpu()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).double().flatten()


def distribution(drawn: list[Any], expected: list[Any]) -> str:
    """What is wrong with random values, by a two-sample Kolmogorov-Smirnov test; empty if nothing is, or too few."""
    ours, right = (
        torch.cat([_numbers(t) for r in rs for t in leaves(r) if isinstance(t, torch.Tensor)])
        for rs in (drawn, expected)
    )
    if min(ours.numel(), right.numel()) < MIN_DRAWN:
        return ""
    if not torch.isfinite(ours).all() and torch.isfinite(right).all():
        return "random values are not finite"
    points = torch.cat([ours, right]).unique()
    share = [torch.searchsorted(s.sort().values, points, right=True).double() / s.numel() for s in (ours, right)]
    distance = float((share[0] - share[1]).abs().max())
    limit = KS_CRITICAL * ((ours.numel() + right.numel()) / (ours.numel() * right.numel())) ** 0.5
    if distance <= limit:
        return ""
    return (
        f"random values are distributed differently: Kolmogorov-Smirnov distance {distance:.3f}, limit {limit:.3f} "
        f"(mean {float(ours.mean()):.4g}, expected {float(right.mean()):.4g})"
    )
