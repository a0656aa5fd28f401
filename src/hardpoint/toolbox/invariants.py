"""Factorisations that are unique only up to signs, phases or an order: judged by what must hold of them.

Residuals are computed on the CPU in double precision, and measured against the matrix, or against one where vectors
must be orthonormal. Right is what is within the tolerance, or nearly as good as the CPU's own result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hardpoint.check.closeness import ERROR_FACTOR
from hardpoint.check.compare import plain

#: How many roundings for each row or column an error may grow to, where no tolerance is given.
ROUNDINGS = 16.0

#: What must hold, in words; how far it is from that, for each matrix of a batch; and what is to be small against.
Residual = tuple[str, torch.Tensor, torch.Tensor]


def _double(tensor: torch.Tensor) -> torch.Tensor:
    host = plain(tensor)
    return host.to(torch.complex128 if host.is_complex() else torch.float64)


def _norm(matrix: torch.Tensor) -> torch.Tensor:
    return torch.linalg.vector_norm(matrix, dim=(-2, -1))


def _equal(words: str, a: torch.Tensor, b: torch.Tensor) -> Residual:
    return words, _norm(a - b), _norm(b)


def _orthonormal(words: str, columns: torch.Tensor) -> Residual:
    identity = torch.eye(columns.shape[-1], dtype=columns.dtype)
    return words, _norm(columns.mH @ columns - identity), torch.ones(columns.shape[:-2], dtype=torch.float64)


def _vectors_equal(words: str, a: torch.Tensor, b: torch.Tensor, size: torch.Tensor) -> Residual:
    return words, torch.linalg.vector_norm(a - b, dim=-1), size


def _svd(given: dict[str, Any], results: list[torch.Tensor], right: list[torch.Tensor]) -> list[Residual]:
    matrix = _double(given["A"])
    u, s, vh = (_double(t) for t in results)
    found = [_vectors_equal("S as on the CPU", s, _double(right[1]), _norm(matrix))]
    if given["compute_uv"]:
        k = s.shape[-1]
        found += [
            _equal("U S Vh = A", (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], matrix),
            _orthonormal("U has orthonormal columns", u),
            _orthonormal("Vh has orthonormal rows", vh.mH),
        ]
    return found


def _eigh(given: dict[str, Any], results: list[torch.Tensor], right: list[torch.Tensor]) -> list[Residual]:
    half = _double(given["A"])
    half = half.tril() if given["UPLO"].upper() == "L" else half.triu()
    diagonal = half.diagonal(dim1=-2, dim2=-1).real
    matrix = half + half.mH - torch.diag_embed(diagonal).to(half.dtype)
    values, vectors = (_double(t) for t in results)
    found = [_vectors_equal("eigenvalues as on the CPU", values, _double(right[0]), _norm(matrix))]
    if given["compute_v"]:
        found += [
            (*_equal("A V = V diag(L)", matrix @ vectors, vectors * values.unsqueeze(-2))[:2], _norm(matrix)),
            _orthonormal("V has orthonormal columns", vectors),
        ]
    return found


def _eig(given: dict[str, Any], results: list[torch.Tensor], right: list[torch.Tensor]) -> list[Residual]:
    matrix = _double(given["self"]).to(torch.complex128)
    values, vectors = (_double(t) for t in results)
    size = _norm(matrix)

    def trace(power: torch.Tensor) -> torch.Tensor:
        return power.diagonal(dim1=-2, dim2=-1).sum(-1)

    lengths = torch.linalg.vector_norm(vectors, dim=-2)
    # The sums say that each eigenvalue is there as often as it must be.
    return [
        ("A V = V diag(L)", _norm(matrix @ vectors - vectors * values.unsqueeze(-2)), size),
        ("vectors have length 1", (lengths - 1).abs().amax(-1), torch.ones_like(size)),
        ("sum(L) = trace(A)", (values.sum(-1) - trace(matrix)).abs(), size),
        ("sum(L^2) = trace(A A)", (values.square().sum(-1) - trace(matrix @ matrix)).abs(), size.square()),
    ]


def _qr(given: dict[str, Any], results: list[torch.Tensor], right: list[torch.Tensor]) -> list[Residual]:
    matrix = _double(given["A"])
    q, r = (_double(t) for t in results)
    found = [_equal("R is upper triangular", r, r.triu())]
    if given["mode"] == "r":
        return [*found, _equal("R^H R = A^H A", r.mH @ r, matrix.mH @ matrix)]
    return [*found, _equal("Q R = A", q @ r, matrix), _orthonormal("Q has orthonormal columns", q)]


def _geqrf(given: dict[str, Any], results: list[torch.Tensor], right: list[torch.Tensor]) -> list[Residual]:
    matrix = _double(given["self"])
    packed, tau = (_double(t) for t in results)
    k = min(matrix.shape[-2:])
    # Of a wide matrix, the last columns hold no reflector.
    q = torch.linalg.householder_product(packed[..., :k].contiguous(), tau)
    return [
        _equal("Q R = A", q @ packed[..., :k, :].triu(), matrix),
        _orthonormal("Q has orthonormal columns", q),
    ]


_RULES: dict[str, Callable[[dict[str, Any], list[torch.Tensor], list[torch.Tensor]], list[Residual]]] = {
    "_linalg_svd": _svd,
    "_linalg_eigh": _eigh,
    "linalg_eig": _eig,
    "linalg_qr": _qr,
    "geqrf": _geqrf,
}


def knows(operator: str) -> bool:
    """Whether an operator, by its bare name, is judged here."""
    return operator in _RULES


def judge(
    operator: str,
    given: dict[str, Any],
    results: list[torch.Tensor],
    right: list[torch.Tensor],
    tolerance: tuple[float, float] | None,
) -> list[tuple[str, dict[str, Any]]]:
    """What must hold, in words, and what is wrong with it: empty if it holds.

    ``given``: the arguments by name. ``results`` and ``right``: the device's and the CPU's, of equal shapes.
    """
    matrix = given.get("A", given.get("self"))
    assert isinstance(matrix, torch.Tensor)
    if matrix.numel() == 0 or not bool(torch.isfinite(plain(matrix)).all()):
        return []
    eps = torch.finfo(matrix.dtype).eps
    rtol, atol = tolerance or (ROUNDINGS * eps * max(matrix.shape[-2:]), 0.0)
    ours, theirs = _RULES[operator](given, results, right), _RULES[operator](given, right, right)
    found = []
    for (words, error, size), (_, native, _) in zip(ours, theirs, strict=True):
        allowed = torch.maximum(atol + rtol * size, ERROR_FACTOR * native)
        wrong = ~(error <= allowed)  # NaN is wrong
        problem: dict[str, Any] = {}
        if bool(wrong.any()):
            share = (error / size).nan_to_num(nan=float("inf")).max()
            problem = {"problem": f"{words}: does not hold, the relative error is {float(share):.3g}"}
        found.append((words, problem))
    return found
