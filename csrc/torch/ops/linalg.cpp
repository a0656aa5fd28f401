#include "ops/linalg.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/_linalg_check_errors.h>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using std::string_view;
using Pair = std::tuple<Tensor, Tensor>;

// Other operands go to the CPU tier.
bool is_supported(const Tensor& a) {
  const at::ScalarType dtype = c10::toRealValueType(a.scalar_type());
  return (dtype == at::kFloat || dtype == at::kDouble) && a.dim() >= 2;
}
bool is_supported(const Tensor& a, const Tensor& b) {
  return is_supported(a) && is_supported(b) && b.scalar_type() == a.scalar_type();
}
bool is_square(const Tensor& a) { return a.size(-1) == a.size(-2); }
at::IntArrayRef batch_of(const Tensor& a, int64_t trailing = 2) {
  return a.sizes().slice(0, static_cast<size_t>(a.dim() - trailing));
}

// Packed column-major matrices.
Tensor columns(at::IntArrayRef batch, int64_t m, int64_t n, const Tensor& like) {
  std::vector<int64_t> sizes(batch.begin(), batch.end());
  sizes.push_back(n);
  sizes.push_back(m);
  return empty(sizes, like.scalar_type(), like.device().index()).mT();
}
Tensor columns(at::IntArrayRef sizes, const Tensor& like) {
  const size_t n = sizes.size();
  return columns(sizes.slice(0, n - 2), sizes[n - 2], sizes[n - 1], like);
}
Tensor infos(const Tensor& a) { return empty(batch_of(a), at::kInt, a.device().index()); }

// A column-major stand-in for an output that is not: `finish` copies it over.
class ColumnOutput {
 public:
  explicit ColumnOutput(const Tensor& output)
      : output_(output), buffer_(output.mT().is_contiguous() ? output : columns(output.sizes(), output)) {}
  hp::View view() const { return torch_adapter::view(buffer_); }
  void finish() const {
    if (!buffer_.is_same(output_)) copy_tensor(output_, buffer_, false);
  }

 private:
  const Tensor& output_;
  const Tensor buffer_;
};

hp::View view(const ContiguousOutput& output) { return torch_adapter::view(output.tensor()); }
hp::View view(const ColumnOutput& output) { return output.view(); }
using torch_adapter::view;

template <class... Outputs>
bool finish(const Outputs&... outputs) {
  (outputs.finish(), ...);
  return true;
}

void check(const Tensor& info, const char* name, const Tensor& a) {
  at::_linalg_check_errors(info, name, a.dim() == 2);
}

bool linalg_svd(const Overload& overload, const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& a,
                bool full_matrices, bool compute_uv, std::optional<string_view> driver) {
  if (!is_supported(a) || driver) return false;
  const ContiguousOutput values(s);
  const Tensor info = infos(a);
  if (!compute_uv) {
    if (!hp::ops::linalg_svd(overload, device_holding(a), {}, view(values), {}, view(info), view(a), false, false))
      return false;
    values.finish();
  } else {
    const ColumnOutput left(u), right(vh);
    if (!hp::ops::linalg_svd(overload, device_holding(a), view(left), view(values), view(right), view(info), view(a),
                             full_matrices, true)) {
      return false;
    }
    finish(left, values, right);
  }
  check(info, "linalg.svd", a);
  return true;
}

bool linalg_eigh(const Overload& overload, const Tensor& values, const Tensor& vectors, const Tensor& a,
                 string_view uplo, bool compute_v) {
  if (!is_supported(a)) return false;
  const ContiguousOutput sorted(values);
  const Tensor info = infos(a), result = compute_v ? columns(a.sizes(), a) : Tensor();
  const bool upper = uplo == "U" || uplo == "u";
  if (!hp::ops::linalg_eigh(overload, device_holding(a), view(sorted), view(result), view(info), view(a), upper,
                            compute_v)) {
    return false;
  }
  sorted.finish();
  if (compute_v) copy_tensor(vectors, result, false);
  check(info, "linalg.eigh", a);
  return true;
}

bool linalg_lu_factor(const Overload& overload, const Tensor& lu, const Tensor& pivots, const Tensor& info,
                      const Tensor& a, bool pivot, bool check_errors) {
  if (!is_supported(a)) return false;
  const ColumnOutput factors(lu);
  const ContiguousOutput exchanged(pivots), codes(info);
  if (!hp::ops::linalg_lu_factor(overload, device_holding(a), view(factors), view(exchanged), view(codes), view(a),
                                 pivot)) {
    return false;
  }
  finish(factors, exchanged, codes);
  if (check_errors) check(info, "torch.linalg.lu_factor_ex", a);
  return true;
}

bool lu_unpack(const Overload& overload, const Tensor& p, const Tensor& l, const Tensor& u, const Tensor& lu,
               const Tensor& pivots, bool unpack_data, bool unpack_pivots) {
  if (!is_supported(lu)) return false;
  const Tensor first = unpack_pivots ? columns(p.sizes(), lu) : Tensor();
  const Tensor second = unpack_data ? columns(l.sizes(), lu) : Tensor();
  const Tensor third = unpack_data ? columns(u.sizes(), lu) : Tensor();
  if (!hp::ops::lu_unpack(overload, device_holding(lu), view(first), view(second), view(third), view(lu),
                          view(pivots))) {
    return false;
  }
  if (unpack_pivots) copy_tensor(p, first, false);
  if (unpack_data) {
    copy_tensor(l, second, false);
    copy_tensor(u, third, false);
  }
  return true;
}

bool linalg_lu(const Overload& overload, const Tensor& p, const Tensor& l, const Tensor& u, const Tensor& a,
               bool pivot) {
  if (!is_supported(a)) return false;
  const Tensor order = pivot ? columns(p.sizes(), a) : Tensor();
  const ColumnOutput lower(l), upper(u);
  if (!hp::ops::linalg_lu(overload, device_holding(a), view(order), view(lower), view(upper), view(a))) return false;
  if (pivot) copy_tensor(p, order, false);
  return finish(lower, upper);
}

bool linalg_lu_solve(const Overload& overload, const Tensor& result, const Tensor& lu, const Tensor& pivots,
                     const Tensor& b, bool left, bool adjoint) {
  if (!is_supported(lu, b)) return false;
  const ColumnOutput x(result);
  return hp::ops::linalg_lu_solve(overload, device_holding(lu), view(x), view(lu), view(pivots), view(b), left,
                                  adjoint) &&
         finish(x);
}

bool linalg_solve(const Overload& overload, const Tensor& result, const Tensor& lu, const Tensor& pivots,
                  const Tensor& info, const Tensor& a, const Tensor& b, bool left, bool check_errors) {
  if (!is_supported(a) || b.scalar_type() != a.scalar_type()) return false;
  const bool is_vector = b.dim() == 1 || (a.dim() - 1 == b.dim() && b.sizes() == batch_of(a, 1));
  const Tensor target = is_vector ? result.unsqueeze(-1) : result, right = is_vector ? b.unsqueeze(-1) : b;
  const ColumnOutput x(target), factors(lu);
  const ContiguousOutput exchanged(pivots), codes(info);
  if (!hp::ops::linalg_solve(overload, device_holding(a), view(x), view(factors), view(exchanged), view(codes), view(a),
                             view(right), left)) {
    return false;
  }
  finish(x, factors, exchanged, codes);
  if (check_errors) check(info, "torch.linalg.solve_ex", a);
  return true;
}

bool linalg_inv(const Overload& overload, const Tensor& inverse, const Tensor& info, const Tensor& a,
                bool check_errors) {
  if (!is_supported(a)) return false;
  const ColumnOutput x(inverse);
  const ContiguousOutput codes(info);
  if (!hp::ops::linalg_inv(overload, device_holding(a), view(x), view(codes), view(a))) return false;
  finish(x, codes);
  if (check_errors) check(info, "linalg.inv_ex", a);
  return true;
}

// The derivative of det expects the factors of the transpose if `a` is contiguous and real.
bool of_transpose(const Tensor& a) { return a.is_contiguous() && !a.is_complex(); }

bool linalg_det(const Overload& overload, const Tensor& result, const Tensor& lu, const Tensor& pivots,
                const Tensor& a) {
  if (!is_supported(a)) return false;
  const ContiguousOutput value(result), exchanged(pivots);
  const ColumnOutput factors(lu);
  const Tensor factored = of_transpose(a) ? a.mT() : a;
  return hp::ops::linalg_det(overload, device_holding(a), view(value), view(factors), view(exchanged),
                             view(factored)) &&
         finish(value, factors, exchanged);
}

bool linalg_slogdet(const Overload& overload, const Tensor& sign, const Tensor& logabsdet, const Tensor& lu,
                    const Tensor& pivots, const Tensor& a) {
  if (!is_supported(a)) return false;
  const ContiguousOutput signs(sign), logarithms(logabsdet), exchanged(pivots);
  const ColumnOutput factors(lu);
  const Tensor factored = of_transpose(a) ? a.mT() : a;
  return hp::ops::linalg_slogdet(overload, device_holding(a), view(signs), view(logarithms), view(factors),
                                 view(exchanged), view(factored)) &&
         finish(signs, logarithms, factors, exchanged);
}

bool linalg_cholesky(const Overload& overload, const Tensor& factor, const Tensor& info, const Tensor& a, bool upper,
                     bool check_errors) {
  if (!is_supported(a)) return false;
  const ColumnOutput result(factor);
  const ContiguousOutput codes(info);
  if (!hp::ops::linalg_cholesky(overload, device_holding(a), view(result), view(codes), view(a), upper)) return false;
  finish(result, codes);
  if (check_errors) check(info, "linalg.cholesky_ex", a);
  return true;
}

std::optional<Tensor> linalg_cholesky(const Overload& overload, const Tensor& a, bool upper) {
  if (!is_supported(a) || !is_square(a)) return std::nullopt;
  const Tensor result = columns(a.sizes(), a), info = infos(a);
  if (!hp::ops::linalg_cholesky(overload, device_holding(a), view(result), view(info), view(a), upper))
    return std::nullopt;
  check(info, "cholesky", a);
  return result;
}

bool linalg_cholesky(const Overload& overload, const Tensor& a, bool upper, Tensor& out) {
  return out.scalar_type() == a.scalar_type() && resize_and_copy(out, linalg_cholesky(overload, a, upper));
}

std::optional<Tensor> cholesky_inverse(const Overload& overload, const Tensor& factor, bool upper) {
  if (!is_supported(factor) || !is_square(factor)) return std::nullopt;
  const Tensor result = columns(factor.sizes(), factor);
  if (!hp::ops::cholesky_inverse(overload, device_holding(factor), view(result), view(factor), upper))
    return std::nullopt;
  return result;
}

bool cholesky_inverse(const Overload& overload, const Tensor& factor, bool upper, Tensor& out) {
  return out.scalar_type() == factor.scalar_type() && resize_and_copy(out, cholesky_inverse(overload, factor, upper));
}

std::optional<Tensor> cholesky_solve(const Overload& overload, const Tensor& b, const Tensor& factor, bool upper) {
  if (!is_supported(b, factor)) return std::nullopt;
  const Tensor result = columns(b.sizes(), b);
  if (!hp::ops::cholesky_solve(overload, device_holding(b), view(result), view(b), view(factor), upper))
    return std::nullopt;
  return result;
}

bool linalg_ldl_factor(const Overload& overload, const Tensor& ld, const Tensor& pivots, const Tensor& info,
                       const Tensor& a, bool hermitian, bool check_errors) {
  if (!is_supported(a)) return false;
  const ColumnOutput factors(ld);
  const ContiguousOutput exchanged(pivots), codes(info);
  if (!hp::ops::linalg_ldl_factor(overload, device_holding(a), view(factors), view(exchanged), view(codes), view(a),
                                  hermitian)) {
    return false;
  }
  finish(factors, exchanged, codes);
  if (check_errors) check(info, "torch.linalg.ldl_factor_ex", a);
  return true;
}

bool linalg_ldl_solve(const Overload& overload, const Tensor& result, const Tensor& ld, const Tensor& pivots,
                      const Tensor& b, bool hermitian) {
  if (!is_supported(ld, b)) return false;
  const ColumnOutput x(result);
  return hp::ops::linalg_ldl_solve(overload, device_holding(ld), view(x), view(ld), view(pivots), view(b), hermitian) &&
         finish(x);
}

std::optional<Tensor> linalg_solve_triangular(const Overload& overload, const Tensor& a, const Tensor& b, bool upper,
                                              bool left, bool unitriangular) {
  if (!is_supported(a, b) || !is_square(a) || a.size(-1) != b.size(left ? -2 : -1)) return std::nullopt;
  const auto batch = at::infer_size(batch_of(a), batch_of(b));
  const Tensor result = columns(batch, b.size(-2), b.size(-1), b);
  // torch leaves conjugation to this operator.
  const Tensor matrix = a.resolve_conj(), right = b.resolve_conj();
  if (!hp::ops::linalg_solve_triangular(overload, device_holding(a), view(result), view(matrix), view(right), left,
                                        upper, false, unitriangular)) {
    return std::nullopt;
  }
  return result;
}

bool linalg_solve_triangular(const Overload& overload, const Tensor& a, const Tensor& b, bool upper, bool left,
                             bool unitriangular, Tensor& out) {
  return out.scalar_type() == a.scalar_type() &&
         resize_and_copy(out, linalg_solve_triangular(overload, a, b, upper, left, unitriangular));
}

// aten::triangular_solve
bool linalg_solve_triangular(const Overload& overload, const Tensor& solution, const Tensor& coefficient,
                             const Tensor& b, const Tensor& a, bool upper, bool transpose, bool unitriangular) {
  if (!is_supported(a, b) || a.layout() != at::kStrided) return false;
  const ColumnOutput x(solution);
  if (!hp::ops::linalg_solve_triangular(overload, device_holding(a), view(x), view(a), view(b), true, upper, transpose,
                                        unitriangular)) {
    return false;
  }
  if (!coefficient.is_same(a)) copy_tensor(coefficient, a, false);
  return finish(x);
}

bool linalg_qr(const Overload& overload, const Tensor& q, const Tensor& r, const Tensor& a, string_view mode) {
  if (!is_supported(a)) return false;
  const Tensor orthogonal = mode == "r" ? Tensor() : columns(q.sizes(), a);
  const ColumnOutput triangle(r);
  if (!hp::ops::linalg_qr(overload, device_holding(a), view(orthogonal), view(triangle), view(a))) return false;
  if (orthogonal.defined()) copy_tensor(q, orthogonal, false);
  return finish(triangle);
}

std::optional<Pair> geqrf(const Overload& overload, const Tensor& a) {
  if (!is_supported(a)) return std::nullopt;
  std::vector<int64_t> sizes(a.sizes().begin(), a.sizes().end() - 1);
  sizes.back() = std::min(a.size(-1), a.size(-2));
  const Tensor result = columns(a.sizes(), a), tau = empty(sizes, a.scalar_type(), a.device().index());
  if (!hp::ops::geqrf(overload, device_holding(a), view(result), view(tau), view(a))) return std::nullopt;
  return Pair(result, tau);
}

bool geqrf(const Overload& overload, const Tensor& self, Tensor& a, Tensor& tau) {
  if (a.scalar_type() != self.scalar_type() || tau.scalar_type() != self.scalar_type()) return false;
  const std::optional<Pair> result = geqrf(overload, self);
  return result && resize_and_copy(a, std::get<0>(*result)) && resize_and_copy(tau, std::get<1>(*result));
}

// Whether tau matches the reflections; if not, the CPU tier raises torch's error.
bool belongs(const Tensor& tau, const Tensor& reflections) {
  return tau.scalar_type() == reflections.scalar_type() && tau.dim() == reflections.dim() - 1 &&
         batch_of(tau, 1) == batch_of(reflections) &&
         tau.size(-1) <= std::min(reflections.size(-1), reflections.size(-2));
}

std::optional<Tensor> linalg_householder_product(const Overload& overload, const Tensor& reflections,
                                                 const Tensor& tau) {
  if (!is_supported(reflections) || reflections.size(-2) < reflections.size(-1) || !belongs(tau, reflections))
    return std::nullopt;
  const Tensor result = columns(reflections.sizes(), reflections);
  if (!hp::ops::linalg_householder_product(overload, device_holding(tau), view(result), view(reflections), view(tau)))
    return std::nullopt;
  return result;
}

bool linalg_householder_product(const Overload& overload, const Tensor& reflections, const Tensor& tau, Tensor& out) {
  return out.scalar_type() == tau.scalar_type() &&
         resize_and_copy(out, linalg_householder_product(overload, reflections, tau));
}

std::optional<Tensor> ormqr(const Overload& overload, const Tensor& reflections, const Tensor& tau, const Tensor& other,
                            bool left, bool transpose) {
  if (!is_supported(reflections, other) || !belongs(tau, reflections) || batch_of(other) != batch_of(reflections) ||
      other.size(left ? -2 : -1) != reflections.size(-2)) {
    return std::nullopt;
  }
  const Tensor result = columns(other.sizes(), other);
  if (!hp::ops::ormqr(overload, device_holding(tau), view(result), view(reflections), view(tau), view(other), left,
                      transpose)) {
    return std::nullopt;
  }
  return result;
}

bool ormqr(const Overload& overload, const Tensor& reflections, const Tensor& tau, const Tensor& other, bool left,
           bool transpose, Tensor& out) {
  return out.scalar_type() == tau.scalar_type() &&
         resize_and_copy(out, ormqr(overload, reflections, tau, other, left, transpose));
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/linalg.inc"
