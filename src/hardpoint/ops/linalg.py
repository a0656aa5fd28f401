"""Dense linear algebra: factorizations, solvers, eigenvalues.

Dtypes: float32, float64, complex64 and complex128. Output matrices are column-major. ``pivots`` and ``info`` are int32,
as in LAPACK.
"""

from hardpoint.ops import custom_op

OPS = (
    custom_op(
        "linalg_svd(a; full, compute_vectors)",
        "u, s, vh, info = singular values and vectors: a = u diag(s) vh",
        "_linalg_svd",
    ),
    custom_op(
        "linalg_eigh(a; upper, compute_vectors)",
        "values, vectors, info = eigenvalues and eigenvectors of a Hermitian matrix; reads one triangle",
        "_linalg_eigh",
    ),
    custom_op(
        "linalg_lu_factor(a; pivot)", "lu, pivots, info = packed LU factors and row exchanges", "linalg_lu_factor_ex"
    ),
    custom_op("lu_unpack(lu, pivots)", "p, l, u = separate factors; None for one that is not needed", "lu_unpack"),
    custom_op("linalg_lu(a)", "p, l, u = LU factors; p is None without pivoting", "linalg_lu"),
    custom_op(
        "linalg_lu_solve(lu, pivots, b; left, adjoint)",
        "out = solution of a out = b from the LU factors of a",
        "linalg_lu_solve",
    ),
    custom_op(
        "linalg_solve(a, b; left)",
        "out, lu, pivots, info = solution of a out = b, and the LU factors of a",
        "_linalg_solve_ex",
    ),
    custom_op("linalg_inv(a)", "out, info = inverse", "linalg_inv_ex"),
    custom_op("linalg_det(a)", "out, lu, pivots = determinant and the LU factors", "_linalg_det"),
    custom_op(
        "linalg_slogdet(a)",
        "sign, logarithm, lu, pivots = sign and log of the absolute determinant, and the LU factors",
        "_linalg_slogdet",
    ),
    custom_op("linalg_cholesky(a; upper)", "out, info = Cholesky factor", "linalg_cholesky_ex cholesky cholesky.out"),
    custom_op(
        "cholesky_inverse(factor; upper)",
        "out = inverse of the matrix with this Cholesky factor",
        "cholesky_inverse cholesky_inverse.out",
    ),
    custom_op(
        "cholesky_solve(b, factor; upper)",
        "out = solution of a out = b from the Cholesky factor of a",
        "_cholesky_solve_helper",
    ),
    custom_op(
        "linalg_ldl_factor(a; hermitian)",
        "ld, pivots, info = packed LDL factors of a symmetric or Hermitian matrix, and row exchanges",
        "linalg_ldl_factor_ex",
    ),
    custom_op(
        "linalg_ldl_solve(ld, pivots, b; hermitian)",
        "out = solution of a out = b from the LDL factors of a",
        "linalg_ldl_solve",
    ),
    custom_op(
        "linalg_solve_triangular(a, b; left, upper, transposed, unit)",
        "out = solution of a out = b with a triangle of a",
        "linalg_solve_triangular linalg_solve_triangular.out triangular_solve",
    ),
    custom_op("linalg_qr(a)", "q, r = QR factors; q is None if only r is needed", "linalg_qr"),
    custom_op("geqrf(a)", "out, tau = Householder reflections that triangularize a", "geqrf geqrf.a"),
    custom_op(
        "linalg_householder_product(reflections, tau)",
        "out = leading columns of the product of Householder reflections",
        "linalg_householder_product linalg_householder_product.out",
    ),
    custom_op(
        "ormqr(reflections, tau, other; left, transposed)",
        "out = other times the product of Householder reflections",
        "ormqr ormqr.out",
    ),
)
