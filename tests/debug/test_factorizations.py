"""Factorizations, which are not unique, are checked by their defining equations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import wrong_kernels

import hardpoint
from hardpoint.debug._comparison import factorizations
from hardpoint.kernels import Kernel


def kernel(name: str, factors: Any, change: Any) -> Kernel[..., None]:
    """A kernel that computes on the CPU, then changes the results."""

    @hardpoint.kernel(name)
    def computed(*arguments: Any) -> None:
        tensors = [a for a in arguments if str(getattr(a, "dtype", "")) == "float32"]
        for info in (a for a in arguments if str(getattr(a, "dtype", "")) == "int32"):
            wrong_kernels.view(info).zero_()
        found = [t.clone() for t in factors(wrong_kernels.view(tensors[-1]).cpu())]
        change(*found)
        for target, value in zip(tensors, found, strict=False):
            wrong_kernels.view(target).copy_(value)

    return computed


def flip(columns: torch.Tensor, rows: torch.Tensor) -> None:
    columns[:, 0] *= -1
    rows[0] *= -1


def svd_flipped(u: torch.Tensor, s: torch.Tensor, vh: torch.Tensor) -> None:
    flip(u, vh)


def svd_exchanged(u: torch.Tensor, s: torch.Tensor, vh: torch.Tensor) -> None:
    u[:, [0, 1]] = u[:, [1, 0]]


def svd_longer(u: torch.Tensor, s: torch.Tensor, vh: torch.Tensor) -> None:
    u[:, 0] *= 2
    vh[0] /= 2


def svd_values(u: torch.Tensor, s: torch.Tensor, vh: torch.Tensor) -> None:
    s[-1] *= 1.01


def eigh_flipped(values: torch.Tensor, vectors: torch.Tensor) -> None:
    vectors[:, 1] *= -1


def eigh_wrong(values: torch.Tensor, vectors: torch.Tensor) -> None:
    vectors[:, 1] = vectors[:, 0]


def qr_not_triangular(q: torch.Tensor, r: torch.Tensor) -> None:
    turn = torch.linalg.qr(torch.randn(len(q), len(q))).Q
    q @= turn
    r.copy_(turn.mT @ r)


def qr_wrong(q: torch.Tensor, r: torch.Tensor) -> None:
    r[0] *= -1


def geqrf_wrong(packed: torch.Tensor, tau: torch.Tensor) -> None:
    tau[0] *= 0.5


@pytest.mark.parametrize(
    ("name", "call", "change", "broken"),
    [
        ("linalg_svd", torch.linalg.svd, svd_flipped, ""),
        ("linalg_svd", torch.linalg.svd, svd_exchanged, "U S Vh = A"),
        ("linalg_svd", torch.linalg.svd, svd_longer, "U has orthonormal columns"),
        ("linalg_svd", torch.linalg.svd, svd_values, "S as on the CPU"),
        ("linalg_eigh", torch.linalg.eigh, eigh_flipped, ""),
        ("linalg_eigh", torch.linalg.eigh, eigh_wrong, "A V = V diag(L)"),
        ("linalg_qr", torch.linalg.qr, flip, ""),
        ("linalg_qr", torch.linalg.qr, qr_wrong, "Q R = A"),
        ("linalg_qr", torch.linalg.qr, qr_not_triangular, "R is upper triangular"),
        ("geqrf", torch.geqrf, geqrf_wrong, "Q has orthonormal columns"),
    ],
)
def test_a_kernel(name: str, call: Any, change: Any, broken: str):
    a = torch.randn(4, 4)
    device = (a + a.mT).to("sim")
    with kernel(name, call, change), hardpoint.compare() as compared:
        call(device)
    assert bool(compared.wrong) == bool(broken)
    if broken:
        with (
            kernel(name, call, change),
            hardpoint.compare("stop"),
            pytest.raises(hardpoint.Mismatch) as caught,
        ):
            call(device)
        assert f"{broken}: does not hold" in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128], ids=str)
@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 6), (0, 3), (4, 4)], ids=str)
def test_correct_results(dtype: torch.dtype, shape: tuple[int, ...]):
    a = torch.randn(shape, dtype=dtype, device="sim")
    square = a @ a.mH
    with hardpoint.compare("stop") as compared:
        torch.linalg.svd(a)
        torch.linalg.svd(a, full_matrices=False)
        torch.linalg.svdvals(a)
        for mode in ("reduced", "complete", "r"):
            torch.linalg.qr(a, mode)
        torch.geqrf(a)
        torch.linalg.eigh(square, "U")
        torch.linalg.eigvalsh(square)
        torch.linalg.eig(square)
        torch.linalg.eigh(torch.zeros_like(square))
    assert compared.counts["not compared"] == 0


def test_a_duplicated_eigenvalue():
    """A V = V diag(L) alone does not show it."""
    a = torch.randn(4, 4)
    values, vectors = torch.linalg.eig(a)
    checked = factorizations.check("linalg_eig", {"self": a}, [values, vectors], [values, vectors], None)
    assert [wrong for _, wrong in checked] == [{}] * 4
    # Conjugate pairs may come first, so duplicate the last eigenvalue.
    twice, again = values.clone(), vectors.clone()
    twice[0], again[:, 0] = values[-1], vectors[:, -1]
    checked = factorizations.check("linalg_eig", {"self": a}, [twice, again], [values, vectors], None)
    broken = {equation for equation, wrong in checked if wrong}
    assert "A V = V diag(L)" not in broken
    assert broken & {"sum(L) = trace(A)", "sum(L^2) = trace(A A)"}


def test_a_given_tolerance_applies():
    a = torch.randn(4, 4, device="sim")
    with kernel("linalg_svd", torch.linalg.svd, svd_values):
        with hardpoint.compare(tolerances={"_linalg_svd": (0.1, 0.0)}) as compared:
            torch.linalg.svd(a)
        assert not compared.wrong
        with hardpoint.compare(tolerances={"_linalg_svd@float64": (0.1, 0.0)}) as compared:
            torch.linalg.svd(a)
        assert compared.wrong
