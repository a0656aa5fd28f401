// Dense linear algebra, for float32 and float64. The last two dimensions of a view are a matrix, those before a batch.
// Matrices that are written lie packed, column after column; vectors are contiguous, pivots and info have the dtype
// int32 and LAPACK's values. Matrices that are read have any strides, and batches that can be expanded to the result's.
#pragma once

#include "../core/service.h"

namespace hp::ops {

// a = u diag(s) vh; `full`: u and vh are square. Without vectors, u and vh are not touched.
bool linalg_svd(const Service& service, Device& device, const View& u, const View& s, const View& vh, const View& info,
                const View& a, bool full, bool compute_vectors);

// a = vectors diag(values) vectors', from one triangle of a.
bool linalg_eigh(const Service& service, Device& device, const View& values, const View& vectors, const View& info,
                 const View& a, bool upper, bool compute_vectors);

// p l u = a, with l and u in one matrix.
bool linalg_lu_factor(const Service& service, Device& device, const View& lu, const View& pivots, const View& info,
                      const View& a, bool pivot);

// p, l and u of such a matrix; undefined views are left out.
bool lu_unpack(const Service& service, Device& device, const View& p, const View& l, const View& u, const View& lu,
               const View& pivots);

// Both; p is undefined where rows are not exchanged.
bool linalg_lu(const Service& service, Device& device, const View& p, const View& l, const View& u, const View& a);

// op(a) result = b, or result op(a) = b where a is not on the left; op transposes with `adjoint`.
bool linalg_lu_solve(const Service& service, Device& device, const View& result, const View& lu, const View& pivots,
                     const View& b, bool left, bool adjoint);

// The same from a itself, with its factors.
bool linalg_solve(const Service& service, Device& device, const View& result, const View& lu, const View& pivots,
                  const View& info, const View& a, const View& b, bool left);

bool linalg_inv(const Service& service, Device& device, const View& inverse, const View& info, const View& a);

bool linalg_det(const Service& service, Device& device, const View& result, const View& lu, const View& pivots,
                const View& a);
bool linalg_slogdet(const Service& service, Device& device, const View& sign, const View& logarithm, const View& lu,
                    const View& pivots, const View& a);

bool linalg_cholesky(const Service& service, Device& device, const View& factor, const View& info, const View& a,
                     bool upper);
bool cholesky_inverse(const Service& service, Device& device, const View& result, const View& factor, bool upper);
bool cholesky_solve(const Service& service, Device& device, const View& result, const View& b, const View& factor,
                    bool upper);

// l d l' = a, with l and d in one matrix, from the lower triangle of a. The prime is the adjoint if `hermitian`, else
// the transpose.
bool linalg_ldl_factor(const Service& service, Device& device, const View& ld, const View& pivots, const View& info,
                       const View& a, bool hermitian);
bool linalg_ldl_solve(const Service& service, Device& device, const View& result, const View& ld, const View& pivots,
                      const View& b, bool hermitian);

// As linalg_lu_solve, with a triangle of a; `unit`: its diagonal counts as ones.
bool linalg_solve_triangular(const Service& service, Device& device, const View& result, const View& a, const View& b,
                             bool left, bool upper, bool transposed, bool unit);

// q is undefined where only r is wanted; it has as many columns as r has rows.
bool linalg_qr(const Service& service, Device& device, const View& q, const View& r, const View& a);

bool geqrf(const Service& service, Device& device, const View& reflections, const View& tau, const View& a);
bool linalg_householder_product(const Service& service, Device& device, const View& result, const View& reflections,
                                const View& tau);
bool ormqr(const Service& service, Device& device, const View& result, const View& reflections, const View& tau,
           const View& other, bool left, bool transposed);

}  // namespace hp::ops
