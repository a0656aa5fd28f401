"""Dense linear algebra: factorisations, solutions, eigenvalues. Matrices that are written lie column after column."""

from hardpoint.ops import Op, Overload


def linalg(name: str, inputs: str, doc: str, *aten: str, attributes: tuple[str, ...] = ()) -> Op:
    """For float32, float64, complex64 and complex128. ``pivots`` and ``info`` are int32, as LAPACK has them."""
    return Op(name, "custom", tuple(inputs.split()), doc, dict.fromkeys(aten, Overload()), attributes=attributes)


OPS = (
    linalg(
        "linalg_svd",
        "a",
        "u, s, vh, info = singular values and vectors: a = u diag(s) vh",
        "_linalg_svd",
        attributes=("full", "compute_vectors"),
    ),
    linalg(
        "linalg_eigh",
        "a",
        "values, vectors, info = eigenvalues and eigenvectors of a Hermitian matrix, of which one triangle is read",
        "_linalg_eigh",
        attributes=("upper", "compute_vectors"),
    ),
    linalg(
        "linalg_lu_factor",
        "a",
        "lu, pivots, info = LU factors in one matrix, and the rows that were exchanged",
        "linalg_lu_factor_ex",
        attributes=("pivot",),
    ),
    linalg("lu_unpack", "lu pivots", "p, l, u = the factors one by one; None where one is not wanted", "lu_unpack"),
    linalg("linalg_lu", "a", "p, l, u = LU factors; p is None if no rows are to be exchanged", "linalg_lu"),
    linalg(
        "linalg_lu_solve",
        "lu pivots b",
        "out = solution of a out = b from the LU factors of a",
        "linalg_lu_solve",
        attributes=("left", "adjoint"),
    ),
    linalg(
        "linalg_solve",
        "a b",
        "out, lu, pivots, info = solution of a out = b, and the LU factors of a",
        "_linalg_solve_ex",
        attributes=("left",),
    ),
    linalg("linalg_inv", "a", "out, info = inverse", "linalg_inv_ex"),
    linalg("linalg_det", "a", "out, lu, pivots = determinant, and the LU factors behind it", "_linalg_det"),
    linalg(
        "linalg_slogdet",
        "a",
        "sign, logarithm, lu, pivots = the determinant's sign, its size's logarithm, and the LU factors behind them",
        "_linalg_slogdet",
    ),
    linalg(
        "linalg_cholesky",
        "a",
        "out, info = Cholesky factor",
        *("linalg_cholesky_ex", "cholesky", "cholesky.out"),
        attributes=("upper",),
    ),
    linalg(
        "cholesky_inverse",
        "factor",
        "out = inverse of the matrix with this Cholesky factor",
        *("cholesky_inverse", "cholesky_inverse.out"),
        attributes=("upper",),
    ),
    linalg(
        "cholesky_solve",
        "b factor",
        "out = solution of a out = b from the Cholesky factor of a",
        "_cholesky_solve_helper",
        attributes=("upper",),
    ),
    linalg(
        "linalg_ldl_factor",
        "a",
        "ld, pivots, info = LDL factors of a symmetric or Hermitian matrix in one, and the rows that were exchanged",
        "linalg_ldl_factor_ex",
        attributes=("hermitian",),
    ),
    linalg(
        "linalg_ldl_solve",
        "ld pivots b",
        "out = solution of a out = b from the LDL factors of a",
        "linalg_ldl_solve",
        attributes=("hermitian",),
    ),
    linalg(
        "linalg_solve_triangular",
        "a b",
        "out = solution of a out = b with a triangle of a",
        *("linalg_solve_triangular", "linalg_solve_triangular.out", "triangular_solve"),
        attributes=("left", "upper", "transposed", "unit"),
    ),
    linalg("linalg_qr", "a", "q, r = QR factors; q is None if only r is wanted", "linalg_qr"),
    linalg("geqrf", "a", "out, tau = Householder reflections that make a triangular", *("geqrf", "geqrf.a")),
    linalg(
        "linalg_householder_product",
        "reflections tau",
        "out = first columns of the product of Householder reflections",
        *("linalg_householder_product", "linalg_householder_product.out"),
    ),
    linalg(
        "ormqr",
        "reflections tau other",
        "out = other times the product of Householder reflections",
        *("ormqr", "ormqr.out"),
        attributes=("left", "transposed"),
    ),
)
