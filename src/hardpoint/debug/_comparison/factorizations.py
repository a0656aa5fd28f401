"""Matrix factorizations, which are unique only up to signs, phases or order: checked by their defining equations.

Residuals are computed on the CPU in double precision, relative to the norm of the matrix (or to 1 for orthonormality).
They must be within the tolerance, or within a small factor of the CPU's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hardpoint.check.compare import plain
from hardpoint.check.numerics import ERROR_FACTOR
from hardpoint.debug._calls.base import Report

#: Default relative tolerance, in units of eps times the larger matrix dimension.
TOLERANCE_UNITS = 16.0


class Residual(NamedTuple):
    """How far an equation is from holding, for each matrix of a batch."""

    equation: str
    error: Tensor
    scale: Tensor


def _double(tensor: Tensor) -> Tensor:
    host = plain(tensor)
    return host.to(torch.complex128 if host.is_complex() else torch.float64)


def _norm(matrix: Tensor) -> Tensor:
    return torch.linalg.vector_norm(matrix, dim=(-2, -1))


def _equal(equation: str, a: Tensor, b: Tensor) -> Residual:
    return Residual(equation, _norm(a - b), _norm(b))


def _orthonormal(equation: str, columns: Tensor) -> Residual:
    identity = torch.eye(columns.shape[-1], dtype=columns.dtype)
    ones = torch.ones(columns.shape[:-2], dtype=torch.float64)
    return Residual(equation, _norm(columns.mH @ columns - identity), ones)


def _vectors_equal(equation: str, a: Tensor, b: Tensor, scale: Tensor) -> Residual:
    return Residual(equation, torch.linalg.vector_norm(a - b, dim=-1), scale)


def _svd(arguments: dict[str, Any], results: list[Tensor], expected: list[Tensor]) -> list[Residual]:
    matrix = _double(arguments["A"])
    u, s, vh = (_double(t) for t in results)
    residuals = [_vectors_equal("S as on the CPU", s, _double(expected[1]), _norm(matrix))]
    if arguments["compute_uv"]:
        k = s.shape[-1]
        residuals += [
            _equal("U S Vh = A", (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], matrix),
            _orthonormal("U has orthonormal columns", u),
            _orthonormal("Vh has orthonormal rows", vh.mH),
        ]
    return residuals


def _eigh(arguments: dict[str, Any], results: list[Tensor], expected: list[Tensor]) -> list[Residual]:
    half = _double(arguments["A"])
    half = half.tril() if arguments["UPLO"].upper() == "L" else half.triu()
    diagonal = half.diagonal(dim1=-2, dim2=-1).real
    matrix = half + half.mH - torch.diag_embed(diagonal).to(half.dtype)
    values, vectors = (_double(t) for t in results)
    residuals = [_vectors_equal("eigenvalues as on the CPU", values, _double(expected[0]), _norm(matrix))]
    if arguments["compute_v"]:
        error = _norm(matrix @ vectors - vectors * values.unsqueeze(-2))
        residuals += [
            Residual("A V = V diag(L)", error, _norm(matrix)),
            _orthonormal("V has orthonormal columns", vectors),
        ]
    return residuals


def _eig(arguments: dict[str, Any], results: list[Tensor], expected: list[Tensor]) -> list[Residual]:
    matrix = _double(arguments["self"]).to(torch.complex128)
    values, vectors = (_double(t) for t in results)
    scale = _norm(matrix)

    def trace(power: Tensor) -> Tensor:
        return power.diagonal(dim1=-2, dim2=-1).sum(-1)

    lengths = torch.linalg.vector_norm(vectors, dim=-2)
    # The sums verify the multiplicity of each eigenvalue.
    return [
        Residual("A V = V diag(L)", _norm(matrix @ vectors - vectors * values.unsqueeze(-2)), scale),
        Residual("vectors have length 1", (lengths - 1).abs().amax(-1), torch.ones_like(scale)),
        Residual("sum(L) = trace(A)", (values.sum(-1) - trace(matrix)).abs(), scale),
        Residual("sum(L^2) = trace(A A)", (values.square().sum(-1) - trace(matrix @ matrix)).abs(), scale.square()),
    ]


def _qr(arguments: dict[str, Any], results: list[Tensor], expected: list[Tensor]) -> list[Residual]:
    matrix = _double(arguments["A"])
    q, r = (_double(t) for t in results)
    residuals = [_equal("R is upper triangular", r, r.triu())]
    if arguments["mode"] == "r":
        return [*residuals, _equal("R^H R = A^H A", r.mH @ r, matrix.mH @ matrix)]
    return [*residuals, _equal("Q R = A", q @ r, matrix), _orthonormal("Q has orthonormal columns", q)]


def _geqrf(arguments: dict[str, Any], results: list[Tensor], expected: list[Tensor]) -> list[Residual]:
    matrix = _double(arguments["self"])
    packed, tau = (_double(t) for t in results)
    k = min(matrix.shape[-2:])
    # In a wide matrix, the last columns hold no reflectors.
    q = torch.linalg.householder_product(packed[..., :k].contiguous(), tau)
    return [
        _equal("Q R = A", q @ packed[..., :k, :].triu(), matrix),
        _orthonormal("Q has orthonormal columns", q),
    ]


_EQUATIONS: dict[str, Callable[[dict[str, Any], list[Tensor], list[Tensor]], list[Residual]]] = {
    "_linalg_svd": _svd,
    "_linalg_eigh": _eigh,
    "linalg_eig": _eig,
    "linalg_qr": _qr,
    "geqrf": _geqrf,
}


def is_factorization(operator: str) -> bool:
    """Whether an operator, by its base name, is checked here."""
    return operator in _EQUATIONS


def check(
    operator: str,
    arguments: dict[str, Any],
    results: list[Tensor],
    expected: list[Tensor],
    tolerance: tuple[float, float] | None,
) -> list[tuple[str, Report]]:
    """The equations that must hold, each with its problem; an empty problem if it holds.

    ``arguments`` are by name. ``results`` and ``expected`` are the device's and the CPU's, of equal shapes.
    """
    matrix = arguments.get("A", arguments.get("self"))
    assert isinstance(matrix, Tensor)
    if matrix.numel() == 0 or not bool(torch.isfinite(plain(matrix)).all()):
        return []
    eps = torch.finfo(matrix.dtype).eps
    rtol, atol = tolerance or (TOLERANCE_UNITS * eps * max(matrix.shape[-2:]), 0.0)
    on_device = _EQUATIONS[operator](arguments, results, expected)
    on_cpu = _EQUATIONS[operator](arguments, expected, expected)
    checked = []
    for (equation, error, scale), (_, cpu_error, _) in zip(on_device, on_cpu, strict=True):
        allowed = torch.maximum(atol + rtol * scale, ERROR_FACTOR * cpu_error)
        problem: Report = {}
        if bool((~(error <= allowed)).any()):  # also true for NaN
            relative = (error / scale).nan_to_num(nan=float("inf")).max()
            problem = {"problem": f"{equation}: does not hold, the relative error is {float(relative):.3g}"}
        checked.append((equation, problem))
    return checked
