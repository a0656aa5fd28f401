"""Dense linear algebra kernels with work-groups of many work-items."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from test_work_groups_nn import Kernel, close

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

BATCH = 2
SHAPES = [(1, 1), (9, 6), (6, 9), (40, 23)]
TYPES = {"f32": torch.float32, "c64": torch.complex64}


def packed(a: torch.Tensor) -> torch.Tensor:
    """A column-major copy; the returned tensor is the transpose."""
    return a.mT.clone(memory_format=torch.contiguous_format)


def info() -> torch.Tensor:
    return torch.full((BATCH,), 99, dtype=torch.int32)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lu(tmp_path: Path, shape: tuple[int, int], kind: str) -> None:
    m, n = shape
    a = torch.randn(BATCH, m, n, dtype=TYPES[kind])
    lu, pivots, codes = packed(a), torch.zeros(BATCH, min(m, n), dtype=torch.int32), info()
    Kernel(tmp_path, "linalg:lu", f"T={kind} PIVOT=1")(BATCH, lu, pivots, codes, m, n)
    right = torch.linalg.lu_factor_ex(a)
    close(lu.mT, right.LU)
    assert torch.equal(pivots, right.pivots)
    assert codes.tolist() == [0] * BATCH


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reflections(tmp_path: Path, shape: tuple[int, int], kind: str) -> None:
    m, n = shape
    a, k = torch.randn(BATCH, m, n, dtype=TYPES[kind]), min(m, n)
    made, tau = packed(a), torch.zeros(BATCH, k, dtype=a.dtype)
    Kernel(tmp_path, "linalg:reflections", f"T={kind}")(BATCH, made, tau, m, n)
    for ours, right in zip((made.mT, tau), torch.geqrf(a), strict=True):
        close(ours, right)
    q = made[:, :k].contiguous()
    Kernel(tmp_path, "linalg:reflections_product", f"T={kind}")(BATCH, q, tau, m, k, k)
    close(q.mT, torch.linalg.qr(a).Q)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("n", [1, 7, 40])
def test_cholesky_and_triangles(tmp_path: Path, n: int, kind: str) -> None:
    a = torch.randn(BATCH, n, n, dtype=TYPES[kind])
    a = a @ a.mH / n + torch.eye(n)
    lower, codes = packed(a), info()
    Kernel(tmp_path, "linalg:cholesky", f"T={kind}")(BATCH, lower, codes, n)
    right = torch.linalg.cholesky(a)
    close(lower.mT.tril(), right)
    assert codes.tolist() == [0] * BATCH
    b = torch.randn(BATCH, n, 5, dtype=a.dtype)
    x = packed(b)
    Kernel(tmp_path, "linalg:triangular", f"T={kind} UPPER=0 TRANS=1 UNIT=0")(BATCH, x, lower, n, 5)
    close(x.mT, torch.linalg.solve_triangular(right.mT, b, upper=True))


def test_cholesky_of_a_matrix_that_is_not_positive_definite(tmp_path: Path) -> None:
    a, codes = torch.eye(8).repeat(BATCH, 1, 1), info()
    a[1, 5, 5] = -1
    Kernel(tmp_path, "linalg:cholesky", "T=f32")(BATCH, a, codes, 8)
    assert codes.tolist() == [0, 6]


@pytest.mark.parametrize("kind", ["f64", "c128", "hermitian"])
@pytest.mark.parametrize("n", [1, 7, 40])
def test_ldl(tmp_path: Path, n: int, kind: str) -> None:
    hermitian, dtype = kind == "hermitian", torch.float64 if kind == "f64" else torch.complex128
    a = torch.randn(BATCH, n, n, dtype=dtype)
    a = a + (a.mH if hermitian else a.mT)
    ld, pivots, codes = packed(a.tril()), torch.zeros(BATCH, n, dtype=torch.int32), info()
    description = f"T={'f64' if kind == 'f64' else 'c128'} HERMITIAN={int(hermitian)}"
    Kernel(tmp_path, "linalg:ldl", description)(BATCH, ld, pivots, codes, n)
    right = torch.linalg.ldl_factor_ex(a, hermitian=hermitian)
    close(ld.mT, right.LD)
    assert torch.equal(pivots, right.pivots)
    b = torch.randn(BATCH, n, 20, dtype=dtype)
    x = packed(b)
    Kernel(tmp_path, "linalg:ldl_solve", description)(BATCH, x, ld, pivots, n, 20)
    close(a @ x.mT, b)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [(1, 1), (9, 6), (8, 8), (40, 23)], ids=str)
def test_svd(tmp_path: Path, shape: tuple[int, int], kind: str) -> None:
    m, n = shape
    a = torch.randn(BATCH, m, n, dtype=TYPES[kind])
    a[1, :, n // 2] = a[1, :, 0]  # rank-deficient: one left vector is generated
    u, right, v = a.new_zeros(BATCH, m, m), a.new_zeros(BATCH, n, n), a.new_zeros(BATCH, n, n)
    s, codes = torch.zeros(BATCH, n), info()
    work, order = a.new_zeros(BATCH, 2 * m + n), torch.zeros(BATCH, n + 1, dtype=torch.int32)
    Kernel(tmp_path, "jacobi:svd", f"T={kind} VECTORS=1")(BATCH, u, s, right, codes, packed(a), v, work, order, m, n, m)
    assert codes.tolist() == [0] * BATCH
    close(s, torch.linalg.svdvals(a))
    close(u @ u.mH, torch.eye(m, dtype=a.dtype).expand(BATCH, m, m))
    close(right @ right.mH, torch.eye(n, dtype=a.dtype).expand(BATCH, n, n))
    close(u.mT[:, :, :n] * s[:, None] @ right.conj(), a)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("n", [1, 7, 40])
def test_eigh(tmp_path: Path, n: int, kind: str) -> None:
    a = torch.randn(BATCH, n, n, dtype=TYPES[kind])
    values, vectors, codes = torch.zeros(BATCH, n), a.new_zeros(BATCH, n, n), info()
    work, order = a.new_zeros(BATCH, 5 * (n + 1)), torch.zeros(BATCH, n + 1, dtype=torch.int32)
    Kernel(tmp_path, "jacobi:eigh", f"T={kind} UPPER=1 VECTORS=1")(
        BATCH, values, vectors, codes, packed(a), a.new_zeros(BATCH, n, n), work, order, n
    )
    assert codes.tolist() == [0] * BATCH
    close(values, torch.linalg.eigvalsh(a, UPLO="U"))
    close(vectors @ vectors.mH, torch.eye(n, dtype=a.dtype).expand(BATCH, n, n))
    diagonal = torch.diag_embed(a.diagonal(dim1=-2, dim2=-1).real)
    close(vectors.mT * values[:, None] @ vectors.conj(), diagonal + a.triu(1) + a.triu(1).mH)
