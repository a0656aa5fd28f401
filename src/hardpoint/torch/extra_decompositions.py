"""Decompositions that PyTorch lacks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hardpoint.torch import low_precision
from hardpoint.torch.outputs import write_results
from hardpoint.torch.transformer_decompositions import TRANSFORMERS

#: Terms of the Taylor series of the exponential. For a matrix of norm 2, the remainder is below 3e-18.
_TERMS = 24


def matrix_exp(a: Any) -> Any:
    """Matrix exponential by scaling and squaring."""
    import torch

    # No float16: intermediate results overflow in other places than in torch's kernel.
    wider = {
        torch.bfloat16: torch.float32,
        torch.float32: torch.float64,
        torch.float64: torch.float64,
        torch.complex64: torch.complex128,
        torch.complex128: torch.complex128,
    }
    if a.dim() < 2 or a.shape[-1] != a.shape[-2] or a.dtype not in wider:
        raise RuntimeError("unsupported by this decomposition")
    if a.numel() == 0:
        return torch.empty_like(a, memory_format=torch.contiguous_format)
    # Each squaring doubles the relative error, so compute in a wider dtype.
    given = a.to(wider[a.dtype])
    size = given.abs().sum(-2).amax().item()
    halvings = max(0, math.frexp(size)[1] - 1) if math.isfinite(size) else 0
    scaled = given * 0.5**halvings
    one = torch.eye(a.shape[-1], dtype=given.dtype, device=a.device)
    result = one + scaled / _TERMS
    for k in range(_TERMS - 1, 0, -1):
        result = one + scaled @ result / k
    for _ in range(halvings):
        result = result @ result
    return result.to(a.dtype)


def lstsq(
    a: Any,
    b: Any,
    rcond: float | None = None,
    *,
    driver: str | None = None,
    solution: Any,
    residuals: Any,
    rank: Any,
    singular_values: Any,
) -> tuple[Any, Any, Any, Any]:
    """Minimum-norm least squares by SVD; the other outputs follow the LAPACK driver."""
    import torch

    driver = driver or "gelsy"
    real = a.real.dtype
    is_vector = a.dim() - 1 == b.dim() and b.shape == a.shape[:-1]
    right = b.unsqueeze(-1) if is_vector else b
    outputs = (solution.dtype, residuals.dtype, rank.dtype, singular_values.dtype)
    if (
        driver not in ("gels", "gelsy", "gelsd", "gelss")
        or a.dim() < 2
        or right.dim() != a.dim()
        or a.shape[-2] != right.shape[-2]
        or a.dtype != b.dtype
        or outputs != (a.dtype, real, torch.int64, real)
    ):
        raise RuntimeError("invalid arguments")
    m, n = a.shape[-2:]
    batch = torch.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    tolerance = max(m, n) * torch.finfo(real).eps if rcond is None else rcond
    # gels assumes full rank.
    large = s > tolerance * s[..., :1] if driver != "gels" else torch.ones_like(s, dtype=torch.bool)
    inverse = torch.where(large, 1 / s, torch.zeros_like(s))
    found = vh.mH @ (inverse.unsqueeze(-1) * (u.mH @ right))
    found = found.expand(*batch, *found.shape[-2:])
    count = large.sum(-1)
    remain = a.new_empty(0, dtype=real)
    if m > n and driver != "gelsy" and bool((count == n).all()):
        remain = (right - a @ found).abs().square().sum(-2)
    none = (rank.new_empty(0), singular_values.new_empty(0))
    results = (
        found.squeeze(-1) if is_vector else found,
        remain,
        count if driver != "gels" else none[0],
        s if driver in ("gelsd", "gelss") else none[1],
    )
    write_results((solution, residuals, rank, singular_values), results)
    return solution, residuals, rank, singular_values


def frexp(x: Any, *, mantissa: Any, exponent: Any) -> tuple[Any, Any]:
    """Split floats into mantissas in [0.5, 1) and exponents, using their bits."""
    import torch

    if not x.is_floating_point() or mantissa.dtype != x.dtype or exponent.dtype != torch.int32:
        raise RuntimeError("invalid arguments")
    wide = x if x.dtype == torch.float64 else x.float()
    whole, digits, bias = (torch.int64, 52, 1022) if wide.dtype == torch.float64 else (torch.int32, 23, 126)
    is_tiny = wide.abs() < torch.finfo(wide.dtype).tiny
    # Normalize subnormal numbers first.
    bits = torch.where(is_tiny, wide * 2.0**digits, wide).contiguous().view(whole)
    mask = (2 * bias + 3) << digits
    power = ((bits & mask) >> digits) - bias - is_tiny * digits
    fraction = ((bits & ~mask) | (bias << digits)).view(wide.dtype)
    plain = wide.isfinite() & (wide != 0)
    fractions = torch.where(plain, fraction, wide).to(x.dtype)
    write_results((mantissa, exponent), (fractions, torch.where(plain, power, torch.zeros_like(power)).to(torch.int32)))
    return mantissa, exponent


def weight_norm_backward(grad_w: Any, saved_v: Any, saved_g: Any, saved_norms: Any, dim: int) -> tuple[Any, Any]:
    """Gradients of weight_norm for its direction and magnitude."""
    if dim not in (0, saved_v.dim() - 1):
        raise RuntimeError("invalid arguments")
    v, g, norms = saved_v.to(saved_norms.dtype), saved_g.to(saved_norms.dtype), saved_norms
    others = [d for d in range(saved_v.dim()) if d != dim]
    products = grad_w * v
    along = (products.sum(others, keepdim=True) if others else products) / norms
    grad_v = (grad_w - v * (along / norms)) * (g / norms)
    return grad_v.to(saved_v.dtype), along.to(saved_g.dtype)


#: Overload -> decomposition. A RuntimeError sends the call to the next tier.
EXTRA: dict[str, Callable[..., Any]] = {
    "aten::linalg_matrix_exp": matrix_exp,
    "aten::linalg_lstsq.out": lstsq,
    "aten::frexp.Tensor_out": frexp,
    "aten::mm.dtype": low_precision.mm_dtype,
    "aten::bmm.dtype": low_precision.mm_dtype,
    "aten::addmm.dtype": low_precision.addmm_dtype,
    "aten::baddbmm.dtype": low_precision.addmm_dtype,
    "aten::_scaled_mm": low_precision.scaled_mm,
    "aten::_scaled_mm_v2": low_precision.scaled_mm_v2,
    "aten::_scaled_grouped_mm": low_precision.scaled_grouped_mm,
    "aten::_weight_int8pack_mm": low_precision.weight_int8pack_mm,
    "aten::_convert_weight_to_int4pack": low_precision.convert_weight_to_int4pack,
    "aten::_weight_int4pack_mm": low_precision.weight_int4pack_mm,
    "aten::_weight_norm_interface_backward": weight_norm_backward,
    **TRANSFORMERS,
}
