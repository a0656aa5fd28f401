// Dense linear algebra in float32, float64 and their complex dtypes. The last two dimensions of a view are a matrix,
// the others a batch. Outputs are packed column-major matrices and contiguous vectors; pivots and info are int32 with
// LAPACK's values. Inputs have any strides, and batches that broadcast to the result's.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

// a = u diag(s) vh. `full`: u and vh are square. Without compute_vectors, u and vh are not written.
bool linalg_svd(const OpBinding& binding, Device& device, const View& u, const View& s, const View& vh,
                const View& info, const View& a, bool full, bool compute_vectors);

// a = vectors diag(values) vectors', reading one triangle of a.
bool linalg_eigh(const OpBinding& binding, Device& device, const View& values, const View& vectors, const View& info,
                 const View& a, bool upper, bool compute_vectors);

// a = p l u, with l and u packed into one matrix.
bool linalg_lu_factor(const OpBinding& binding, Device& device, const View& lu, const View& pivots, const View& info,
                      const View& a, bool pivot);

// Unpacks p, l and u from linalg_lu_factor's result; undefined outputs are skipped.
bool lu_unpack(const OpBinding& binding, Device& device, const View& p, const View& l, const View& u, const View& lu,
               const View& pivots);

// lu_factor and lu_unpack; p is undefined without pivoting.
bool linalg_lu(const OpBinding& binding, Device& device, const View& p, const View& l, const View& u, const View& a);

// Solves op(a) result = b, or result op(a) = b if not `left`; op is the adjoint if `adjoint`.
bool linalg_lu_solve(const OpBinding& binding, Device& device, const View& result, const View& lu, const View& pivots,
                     const View& b, bool left, bool adjoint);

// Solves with `a` itself, and returns its factors.
bool linalg_solve(const OpBinding& binding, Device& device, const View& result, const View& lu, const View& pivots,
                  const View& info, const View& a, const View& b, bool left);

bool linalg_inv(const OpBinding& binding, Device& device, const View& inverse, const View& info, const View& a);

bool linalg_det(const OpBinding& binding, Device& device, const View& result, const View& lu, const View& pivots,
                const View& a);
bool linalg_slogdet(const OpBinding& binding, Device& device, const View& sign, const View& logarithm, const View& lu,
                    const View& pivots, const View& a);

bool linalg_cholesky(const OpBinding& binding, Device& device, const View& factor, const View& info, const View& a,
                     bool upper);
bool cholesky_inverse(const OpBinding& binding, Device& device, const View& result, const View& factor, bool upper);
bool cholesky_solve(const OpBinding& binding, Device& device, const View& result, const View& b, const View& factor,
                    bool upper);

// a = l d l', with l and d packed into one matrix, reading the lower triangle of a. l' is the adjoint if `hermitian`,
// else the transpose.
bool linalg_ldl_factor(const OpBinding& binding, Device& device, const View& ld, const View& pivots, const View& info,
                       const View& a, bool hermitian);
bool linalg_ldl_solve(const OpBinding& binding, Device& device, const View& result, const View& ld, const View& pivots,
                      const View& b, bool hermitian);

// As linalg_lu_solve, with one triangle of a. `unit`: the diagonal is taken as ones.
bool linalg_solve_triangular(const OpBinding& binding, Device& device, const View& result, const View& a, const View& b,
                             bool left, bool upper, bool transposed, bool unit);

// q has as many columns as r has rows; undefined to compute r only.
bool linalg_qr(const OpBinding& binding, Device& device, const View& q, const View& r, const View& a);

bool geqrf(const OpBinding& binding, Device& device, const View& reflections, const View& tau, const View& a);
bool linalg_householder_product(const OpBinding& binding, Device& device, const View& result, const View& reflections,
                                const View& tau);
bool ormqr(const OpBinding& binding, Device& device, const View& result, const View& reflections, const View& tau,
           const View& other, bool left, bool transposed);

}  // namespace hp::ops
