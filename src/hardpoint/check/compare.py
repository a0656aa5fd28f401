"""Comparing a device's result with the CPU's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten

from hardpoint.check import closeness

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


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """On the CPU, without lazy conjugation or negation, in a dtype that the CPU can compare."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    return tensor.to(torch.complex64) if tensor.dtype is torch.complex32 else tensor


def values_of(tensor: torch.Tensor) -> closeness.Values:
    """Elements, for :mod:`hardpoint.check.closeness`."""
    host = plain(tensor)
    # numpy lacks bfloat16, and compares float16 in itself.
    single = host.float() if host.dtype in (torch.bfloat16, torch.float16) else host
    return closeness.Values(single.numpy(force=True), str(tensor.dtype).removeprefix("torch."))


def message(actual: torch.Tensor, expected: torch.Tensor, tolerance: tuple[float, float] | None = None) -> str:
    """How two tensors on the CPU differ, in words."""
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
        ours, native = values_of(a), values_of(e)
        if closeness.close(ours, native, tolerance):
            continue
        if reference is not None and exact is None:
            try:
                exact = leaves(reference())
            except Exception:
                exact = []
        wide = exact[position] if exact and len(exact) == len(right) else None
        if isinstance(wide, torch.Tensor) and closeness.as_accurate(ours, native, values_of(wide).array):
            continue
        return message(plain(a), plain(e), tolerance)
    return ""


def among_equals(gradient: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """A gradient with its elements in order where those of its input are equal: the same whichever was selected."""
    gradient, source = plain(gradient), plain(source)
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


def distribution(drawn: list[Any], expected: list[Any]) -> str:
    """What is wrong with random values; empty if nothing is, or there are too few to say."""
    ours, right = (
        np.concatenate([values_of(t).array.ravel() for r in rs for t in leaves(r) if isinstance(t, torch.Tensor)])
        for rs in (drawn, expected)
    )
    return closeness.distribution(ours, right)
