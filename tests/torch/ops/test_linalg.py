"""Dense linear algebra: against the CPU where the result is unique, else by its defining properties."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from opinfo import on_cpu

import hardpoint
from hardpoint import check
from hardpoint.kernels import template

TYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
SIZES = (0, 1, 2, 3, 7, 16, 33, 80)
SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (4, 4), (7, 3), (3, 7), (2, 3, 5, 4), (0, 4, 4), (33, 17), (17, 33), (60, 60)]
NAMES = (
    *("linalg.svd", "linalg.svdvals", "svd", "linalg.eigh", "linalg.eigvalsh", "linalg.inv", "linalg.inv_ex"),
    *("linalg.solve_triangular", "triangular_solve", "linalg.lu", "linalg.lu_factor", "linalg.lu_factor_ex"),
    *("linalg.lu_solve", "lu_unpack", "linalg.solve", "linalg.solve_ex", "linalg.det", "linalg.slogdet", "logdet"),
    *("linalg.cholesky", "linalg.cholesky_ex", "cholesky", "cholesky_inverse", "cholesky_solve", "linalg.qr", "qr"),
    *(
        "geqrf",
        "linalg.householder_product",
        "ormqr",
        "linalg.ldl_factor",
        "linalg.ldl_solve",
        "linalg.lstsq",
        "matrix_exp",
        "linalg.pinv",
        "pinverse",
        "linalg.cond",
        "linalg.matrix_rank",
    ),
)


@pytest.fixture(autouse=True)
def nothing_on_the_cpu() -> Iterator[None]:
    hardpoint.reset_counters()
    yield
    assert not on_cpu("linalg")


def close(actual: torch.Tensor, expected: torch.Tensor, scale: float = 1.0) -> None:
    """Within a few rounding errors of a result with elements of magnitude `scale`."""
    tolerance = 2e3 * torch.finfo(actual.dtype).eps
    assert actual.shape == expected.shape
    assert actual.is_complex() == expected.is_complex()
    torch.testing.assert_close(
        actual.cpu(), expected.to(actual.dtype), rtol=tolerance, atol=tolerance * scale, equal_nan=True
    )


def well_conditioned(n: int, dtype: torch.dtype, *batch: int) -> torch.Tensor:
    """Well-conditioned matrices."""
    return torch.randn(*batch, n, n, dtype=dtype) + 2 * math.sqrt(n) * torch.eye(n, dtype=dtype)


def positive(n: int, dtype: torch.dtype, *batch: int) -> torch.Tensor:
    a = torch.randn(*batch, n, n, dtype=dtype)
    return a @ a.mH / max(n, 1) + torch.eye(n, dtype=dtype)


def eye(n: int, like: torch.Tensor) -> torch.Tensor:
    return torch.eye(n, dtype=like.dtype)


def orthogonal(q: torch.Tensor) -> None:
    """Assert that columns are orthonormal."""
    q = q.cpu()
    close(q.mH @ q, eye(q.shape[-1], q).expand(*q.shape[:-2], -1, -1))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_torch_s_samples(name: str) -> None:
    """Values, gradients, out= and layouts of every variant, compared as by `hardpoint check`."""
    report = check.run(
        ["ops"], ops=f"^{re.escape(name)}$", dtypes=["float32", "float64", "complex64"], samples=3, isolate=False
    )
    assert report.results
    for result in report.results:
        assert result.verdict == "strict", (result.entry, result.failure, result.detail)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_svd(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = torch.randn(shape, dtype=dtype)
    for given in (a, a.mT.contiguous().mT):
        for full in (False, True):
            u, s, vh = torch.linalg.svd(given.to("sim"), full_matrices=full)
            right = torch.linalg.svd(given, full_matrices=full)
            assert [t.shape for t in (u, s, vh)] == [t.shape for t in right]
            assert [t.stride() for t in (u, s, vh)] == [t.stride() for t in right]
            k = s.shape[-1]
            close(s, right.S, 10)
            orthogonal(u)
            orthogonal(vh.mH)
            close((u[..., :k] * s[..., None, :] @ vh[..., :k, :]).cpu(), given, 10)
    close(torch.linalg.svdvals(a.to("sim")), torch.linalg.svdvals(a), 10)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_svd_of_awkward_matrices(dtype: torch.dtype) -> None:
    low = torch.randn(20, 3, dtype=dtype) @ torch.randn(3, 12, dtype=dtype)
    tiny = torch.finfo(dtype).tiny
    graded = torch.randn(8, 8, dtype=dtype) * torch.logspace(0, -12, 8).to(dtype)
    for a in (
        low,
        torch.zeros(5, 4, dtype=dtype),
        torch.eye(6, dtype=dtype),
        torch.ones(9, 9, dtype=dtype),
        graded,
        torch.randn(6, 5, dtype=dtype) * tiny * 100,
        torch.randn(6, 5, dtype=dtype) * (torch.finfo(dtype).max / 1e3),
    ):
        u, s, vh = (t.cpu() for t in torch.linalg.svd(a.to("sim")))
        size = float(a.abs().max()) or 1.0
        k = s.shape[0]
        close(s / size, torch.linalg.svdvals(a) / size)
        orthogonal(u)
        orthogonal(vh.mH)
        close(u[:, :k] * (s / size) @ vh[:k], a / size)
    for bad in (math.nan, math.inf):
        a = torch.randn(3, 4, dtype=dtype)
        a[1, 2] = bad
        with pytest.raises(torch.linalg.LinAlgError, match="non-finite"):
            torch.linalg.svd(a.to("sim"))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("n", SIZES)
def test_eigh(n: int, dtype: torch.dtype) -> None:
    for a in (torch.randn(n, n, dtype=dtype), torch.randn(2, 3, n, n, dtype=dtype).mT, torch.zeros(n, n, dtype=dtype)):
        for uplo in "LU":
            half = a.tril(-1) if uplo == "L" else a.triu(1)
            half = half + half.mH + torch.diag_embed(a.diagonal(dim1=-2, dim2=-1).real)
            values, vectors = torch.linalg.eigh(a.to("sim"), UPLO=uplo)
            close(values, torch.linalg.eigvalsh(a, UPLO=uplo), 10)
            orthogonal(vectors)
            close((vectors * values[..., None, :] @ vectors.mH).cpu(), half, 10)
            close(torch.linalg.eigvalsh(a.to("sim"), UPLO=uplo), torch.linalg.eigvalsh(a, UPLO=uplo), 10)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("n", SIZES)
def test_inverse_solution_and_determinant(n: int, dtype: torch.dtype) -> None:
    for a in (
        well_conditioned(n, dtype),
        well_conditioned(n, dtype, 2, 3),
        well_conditioned(n, dtype, 2).mT,
        well_conditioned(n, dtype, 0),
    ):
        device = a.to("sim")
        close(torch.linalg.inv(device), torch.linalg.inv(a))
        scaled = a / (2 * math.sqrt(max(n, 1)))  # has a determinant of moderate size
        close(torch.linalg.det(scaled.to("sim")), torch.linalg.det(scaled), 10)
        for ours, right in zip(torch.linalg.slogdet(device), torch.linalg.slogdet(a), strict=True):
            close(ours, right, 10)
        vector, matrix = torch.randn(*a.shape[:-1], dtype=dtype), torch.randn(*a.shape[:-2], n, 3, dtype=dtype)
        for b in (vector, matrix):
            close(torch.linalg.solve(device, b.to("sim")), torch.linalg.solve(a, b))
        b = matrix.mT
        close(torch.linalg.solve(device, b.to("sim"), left=False), torch.linalg.solve(a, b, left=False))
    a, b = well_conditioned(n, dtype, 4, 1), torch.randn(3, n, 2, dtype=dtype)
    close(torch.linalg.solve(a.to("sim"), b.to("sim")), torch.linalg.solve(a, b))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lu(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = torch.randn(shape, dtype=dtype)
    for given, device in ((a, a.to("sim")), (a.mT, a.to("sim").mT)):
        lu, pivots, info = torch.linalg.lu_factor_ex(device)
        right = torch.linalg.lu_factor_ex(given)
        close(lu, right.LU)
        assert torch.equal(pivots.cpu(), right.pivots)
        assert torch.equal(info.cpu(), right.info)
        for ours, expected in zip(torch.lu_unpack(lu, pivots), torch.lu_unpack(*right[:2]), strict=True):
            close(ours, expected)
        for ours, expected in zip(torch.linalg.lu(device), torch.linalg.lu(given), strict=True):
            close(ours, expected)
        assert torch.lu_unpack(lu, pivots, unpack_pivots=False)[0].shape == (0,)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("n", [0, 1, 5, 40])
def test_solution_from_factors(n: int, dtype: torch.dtype) -> None:
    a, b = well_conditioned(n, dtype, 3, 1), torch.randn(2, n, 4, dtype=dtype)
    lu, pivots = torch.linalg.lu_factor(a)
    for left in (True, False):
        given = b if left else b.mT
        for adjoint in (True, False):
            right = torch.linalg.lu_solve(lu, pivots, given, left=left, adjoint=adjoint)
            ours = torch.linalg.lu_solve(lu.to("sim"), pivots.to("sim"), given.to("sim"), left=left, adjoint=adjoint)
            close(ours, right)
    plain = torch.linalg.lu_factor(a.to("sim"), pivot=False)
    ones = torch.linalg.lu_solve(*plain, b.to("sim"))
    close(ones, torch.linalg.solve(a, b))


def test_info_of_singular_matrices() -> None:
    a = torch.randn(3, 4, 4)
    a[1] = torch.tensor([[1.0, 2, 3, 4], [0, 0, 1, 2], [0, 0, 3, 4], [0, 0, 5, 6]])
    for function in (torch.linalg.lu_factor_ex, torch.linalg.inv_ex):
        assert function(a.to("sim")).info.tolist() == function(a).info.tolist()
    assert torch.linalg.lu_factor_ex(a.to("sim")).info.tolist()[1] == 2
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.inv(a.to("sim"))
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        torch.linalg.solve(a.to("sim"), a.to("sim"))
    b = positive(5, torch.float32, 2)
    b[1, 3, 3] = -1
    assert torch.linalg.cholesky_ex(b.to("sim")).info.tolist() == torch.linalg.cholesky_ex(b).info.tolist() == [0, 4]
    with pytest.raises(torch.linalg.LinAlgError, match="positive-definite"):
        torch.linalg.cholesky(b.to("sim"))
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        torch.cholesky(b.to("sim"))
    assert torch.linalg.det(torch.ones(3, 3, device="sim")).item() == 0
    sign, logarithm = torch.linalg.slogdet(torch.zeros(2, 2, device="sim"))
    assert (sign.item(), logarithm.item()) == (0, -math.inf)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("n", SIZES)
def test_cholesky(n: int, dtype: torch.dtype) -> None:
    for a in (positive(n, dtype), positive(n, dtype, 2, 3), positive(n, dtype, 0)):
        device, b = a.to("sim"), torch.randn(*a.shape[:-2], n, 3, dtype=dtype)
        for upper in (False, True):
            factor = torch.linalg.cholesky(a, upper=upper)
            ours = torch.linalg.cholesky(device, upper=upper)
            close(ours, factor)
            assert ours.stride() == factor.stride()
            close(torch.cholesky(device, upper), factor)
            close(torch.cholesky_inverse(ours, upper), torch.cholesky_inverse(factor, upper))
            close(torch.cholesky_solve(b.to("sim"), ours, upper), torch.cholesky_solve(b, factor, upper))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("n", [0, 1, 6, 40])
def test_triangular(n: int, dtype: torch.dtype) -> None:
    a, b = well_conditioned(n, dtype, 2, 1) / 4, torch.randn(3, n, 5, dtype=dtype)
    for upper in (False, True):
        for unit in (False, True):
            scaled = a / max(n, 1) if unit else a
            for left in (False, True):
                given = b if left else b.mT
                options = {"upper": upper, "left": left, "unitriangular": unit}
                right = torch.linalg.solve_triangular(scaled, given, **options)
                close(torch.linalg.solve_triangular(scaled.to("sim"), given.to("sim"), **options), right, 10)
                out = torch.empty(0, dtype=dtype, device="sim")
                torch.linalg.solve_triangular(scaled.to("sim"), given.to("sim"), **options, out=out)
                close(out, right, 10)
            for transpose in (False, True):
                right = torch.triangular_solve(b, scaled, upper, transpose, unit)
                ours = torch.triangular_solve(b.to("sim"), scaled.to("sim"), upper, transpose, unit)
                close(ours.solution, right.solution, 10)
                assert torch.equal(ours.cloned_coefficient.cpu(), right.cloned_coefficient)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_qr(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = torch.randn(shape, dtype=dtype)
    for given, device in ((a, a.to("sim")), (a.mT, a.to("sim").mT)):
        for mode in ("reduced", "complete", "r"):
            for ours, right in zip(torch.linalg.qr(device, mode), torch.linalg.qr(given, mode), strict=True):
                assert ours.stride() == right.stride()
                # Columns of Q beyond A's rank are arbitrary, so they follow LAPACK's algorithm.
                close(ours, right, 10)
        made, tau = torch.geqrf(device)
        for ours, right in zip((made, tau), torch.geqrf(given), strict=True):
            close(ours, right, 10)
        if given.shape[-2] >= given.shape[-1]:
            right = torch.linalg.householder_product(made.cpu(), tau.cpu())
            close(torch.linalg.householder_product(made, tau), right)
        for left in (True, False):
            other = torch.randn(*given.shape[:-2], given.shape[-2], 4, dtype=dtype)
            other = other if left else other.mT
            for transpose in (True, False):
                right = torch.ormqr(made.cpu(), tau.cpu(), other, left, transpose)
                close(torch.ormqr(made, tau, other.to("sim"), left, transpose), right, 10)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl(hermitian: bool, n: int, dtype: torch.dtype) -> None:
    for a in (torch.randn(n, n, dtype=dtype), torch.randn(3, n, n, dtype=dtype), positive(n, dtype, 2)):
        a = a + (a.mH if hermitian else a.mT)
        right = torch.linalg.ldl_factor_ex(a, hermitian=hermitian)
        ours = torch.linalg.ldl_factor_ex(a.to("sim"), hermitian=hermitian)
        # The CPU's matrix is zero above the diagonal; LAPACK's blocked algorithm rounds differently.
        assert torch.equal(ours.pivots.cpu(), right.pivots)
        assert torch.equal(ours.info.cpu(), right.info)
        close(ours.LD, right.LD, 100)
        b = torch.randn(*a.shape[:-2], n, 3, dtype=dtype)
        solution = torch.linalg.ldl_solve(*ours[:2], b.to("sim"), hermitian=hermitian).cpu()
        close(a @ solution, b, 100)


def test_outputs_of_other_layouts() -> None:
    a = well_conditioned(6, torch.float64, 2)
    device = a.to("sim")
    inverse, info = torch.empty(2, 6, 12, dtype=torch.float64, device="sim")[..., ::2], torch.empty(2, 2, device="sim")
    codes = info.to(torch.int32)[:, 0]
    torch.linalg.inv_ex(device, out=(inverse, codes))
    close(inverse, torch.linalg.inv(a))
    wide = torch.empty(2, 6, 12, dtype=torch.float64, device="sim")[..., ::2]
    torch.linalg.cholesky(positive(6, torch.float64, 2).to("sim"), out=wide)
    assert torch.equal(wide.cpu(), wide.cpu().tril())
    values = torch.empty(2, 12, dtype=torch.float64, device="sim")[:, ::2]
    torch.linalg.svdvals(a.to("sim"), out=values)
    close(values, torch.linalg.svdvals(a))


@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.inv,
        torch.linalg.det,
        lambda a: torch.linalg.slogdet(a).logabsdet,
        lambda a: torch.linalg.cholesky(a @ a.mH),
        lambda a: torch.linalg.eigvalsh(a + a.mH),
        lambda a: torch.linalg.svd(a).S,
        lambda a: torch.linalg.qr(a).R,
        lambda a: torch.linalg.solve(a, a @ a),
        lambda a: torch.linalg.lu_factor(a).LU,
        lambda a: torch.linalg.solve_triangular(a, a.mT, upper=True),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_gradients(dtype: torch.dtype, function: Any) -> None:
    for a in (well_conditioned(5, dtype, 2), well_conditioned(5, dtype, 2).mT.contiguous().mT):
        given, device = a.clone().requires_grad_(), a.to("sim").requires_grad_()
        right, ours = function(given), function(device)
        close(ours.detach(), right.detach(), 1e3)
        seed = torch.randn_like(right)
        right.backward(seed)
        ours.backward(seed.to("sim"))
        assert given.grad is not None
        assert device.grad is not None
        close(device.grad, given.grad, 1e3)


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
def test_other_dialects_have_the_kernels(dialect: str) -> None:
    kernels = {
        "linalg": ("lu", "cholesky", "reflections", "ldl"),
        "jacobi": ("svd", "eigh"),
    }
    folder = Path(template.__file__).parent / "sources"
    for family, names in kernels.items():
        text = (folder / f"{family}.c").read_text()
        for name in names:
            for kind, written in (("f32", "typedef float T;"), ("c64", "typedef hp_c64 T,")):
                made, entry, _ = template.source(
                    family, text, name, f"T={kind} PIVOT=1 UPPER=0 VECTORS=1 HERMITIAN=0", dialect, 64
                )
                assert f" {entry}(" in made
                assert written in made
