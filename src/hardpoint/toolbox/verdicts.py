"""What is wrong with a tensor, in numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.testing._comparison import default_tolerances

from hardpoint.check import compare as rules

#: A wider result than the CPU's own, when that leaves doubt.
Wide = Callable[[], "torch.Tensor | None"]


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """On the CPU, without lazy bits."""
    return tensor.detach().cpu().resolve_conj().resolve_neg()


def judge(
    actual: torch.Tensor,
    expected: torch.Tensor,
    tolerance: tuple[float, float] | None = None,
    wide: Wide | None = None,
    exact: bool = False,
) -> dict[str, Any]:
    """Empty if a device's tensor agrees with the CPU's; otherwise what is wrong, how much, how often and where.

    Right is what is close by torch's tolerances for the dtype, or as near to ``wide()`` as the CPU's own result is.
    """
    if actual.shape != expected.shape:
        return {"problem": f"sizes are {list(actual.shape)}, expected {list(expected.shape)}"}
    ours, right = plain(actual), plain(expected)
    if ours.dtype != right.dtype:
        if not (ours.is_floating_point() and right.is_floating_point()):
            return {"problem": f"dtype is {ours.dtype}, expected {right.dtype}"}
        right = right.to(ours.dtype)  # statistics, which the CPU saves in the input's dtype
    if exact:
        return {} if _same_bytes(ours, right) else measure(ours, right, (0.0, 0.0))
    if rules._close(ours, right, tolerance):
        return {}
    if wide is not None and (reference := wide()) is not None and rules._as_accurate(ours, right, plain(reference)):
        return {}
    return measure(ours, right, tolerance)


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(torch.equal(a, b) or torch.equal(*(t.contiguous().reshape(-1).view(torch.uint8) for t in (a, b))))


def measure(actual: torch.Tensor, expected: torch.Tensor, tolerance: tuple[float, float] | None) -> dict[str, Any]:
    """Count of wrong elements, largest errors and where, and how many differ in being NaN or infinite."""
    if actual.dim() == 0:
        actual, expected = actual.reshape(1), expected.reshape(1)
    wide = torch.complex128 if actual.is_complex() else torch.float64
    a, e = actual.to(wide), expected.to(wide)
    rtol, atol = tolerance or (
        default_tolerances(actual.dtype) if actual.is_floating_point() or actual.is_complex() else (0.0, 0.0)
    )
    wrong = ~torch.isclose(a, e, rtol=rtol, atol=atol, equal_nan=True)
    finite = torch.isfinite(a) & torch.isfinite(e)
    absolute = torch.where(finite, (a - e).abs(), 0.0)
    relative = torch.where(finite & (e != 0), absolute / e.abs(), 0.0)
    at = (
        int(torch.where(wrong & finite, absolute, -1.0).argmax())
        if bool((wrong & finite).any())
        else int(wrong.int().argmax())
    )
    where = [int(i) for i in torch.unravel_index(torch.tensor(at), actual.shape)]
    return {
        "problem": "values differ",
        "wrong": int(wrong.sum()),
        "of": actual.numel(),
        "max_abs": float(absolute.max()),
        "max_rel": float(relative.max()),
        "at": where,
        "got": str(actual[tuple(where)].item()),
        "expected": str(expected[tuple(where)].item()),
        "nan": int((torch.isnan(a) != torch.isnan(e)).sum()),
        "inf": int((torch.isinf(a) != torch.isinf(e)).sum()),
    }


def words(wrong: dict[str, Any]) -> str:
    """The same in one line."""
    if not wrong:
        return "allclose"
    if "wrong" not in wrong:
        return str(wrong["problem"])
    special = [f"{wrong[kind]} differ in {word}" for kind, word in (("nan", "NaN"), ("inf", "Inf")) if wrong[kind]]
    return ", ".join(
        [
            f"{wrong['wrong']} of {wrong['of']} elements wrong",
            f"largest error {wrong['max_abs']:.3g} absolute and {wrong['max_rel']:.3g} relative",
            f"worst at {wrong['at']}: {wrong['got']}, expected {wrong['expected']}",
            *special,
        ]
    )
