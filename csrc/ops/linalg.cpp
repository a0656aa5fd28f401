#include "ops/linalg.h"

#include <algorithm>
#include <vector>

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"
#include "core/tensor/copy_views.h"

namespace hp::ops {
namespace {

int64_t rows(const View& matrix) { return matrix.sizes[matrix.ndim - 2]; }
int64_t columns(const View& matrix) { return matrix.sizes[matrix.ndim - 1]; }
int64_t batch(const View& tensor, int trailing = 2) {
  int64_t count = 1;
  for (int d = 0; d + trailing < tensor.ndim; ++d) count *= tensor.sizes[d];
  return count;
}

bool can_factor(const OpBinding& binding, const View& a) {
  return binding.portable_allowed && (a.dtype == DType::kF32 || a.dtype == DType::kF64 || is_complex(a.dtype));
}

// A view that owns its sizes and strides.
struct OwnedView {
  void* data;
  DType dtype;
  std::vector<int64_t> sizes, strides;

  OwnedView(const View& view)
      : data(view.data),
        dtype(view.dtype),
        sizes(view.sizes, view.sizes + view.ndim),
        strides(view.strides, view.strides + view.ndim) {}
  operator View() const { return {data, dtype, static_cast<int>(sizes.size()), sizes.data(), strides.data()}; }
};

OwnedView transposed(const View& matrix, bool enabled = true) {
  OwnedView result(matrix);
  if (!enabled) return result;
  std::swap(result.sizes[matrix.ndim - 1], result.sizes[matrix.ndim - 2]);
  std::swap(result.strides[matrix.ndim - 1], result.strides[matrix.ndim - 2]);
  return result;
}

OwnedView first_columns(const View& matrix, int64_t count) {
  OwnedView result(matrix);
  result.sizes.back() = count;
  return result;
}

// Expands the tensor to the batch of the matrices `like`, keeping its last `trailing` dimensions.
OwnedView expanded(const View& tensor, const View& like, int trailing) {
  OwnedView result(like);
  result.data = tensor.data;
  result.dtype = tensor.dtype;
  result.sizes.resize(like.ndim - 2 + trailing);
  result.strides.assign(result.sizes.size(), 0);
  const int missing = static_cast<int>(result.sizes.size()) - tensor.ndim;
  for (int d = 0; d < tensor.ndim; ++d) {
    const bool own = d + trailing >= tensor.ndim;
    if (own) result.sizes[d + missing] = tensor.sizes[d];
    result.strides[d + missing] = own || tensor.sizes[d] != 1 ? tensor.strides[d] : 0;
  }
  return result;
}

// Scratch memory that is never empty, so its address is valid.
struct Memory : Scratch {
  Memory(Device& device, int64_t elements, DType dtype)
      : Scratch(device, std::max<int64_t>(elements, 1) * info(dtype).bytes) {}
};

// Packed column-major matrices in scratch memory, with the batch of `like`.
class Buffer {
 public:
  Buffer(Device& device, const View& like, int64_t rows, int64_t columns)
      : memory_(device, batch(like) * rows * columns, like.dtype), shape_(like) {
    const int n = like.ndim;
    shape_.data = memory_.get();
    shape_.sizes[n - 2] = rows;
    shape_.sizes[n - 1] = columns;
    shape_.strides[n - 2] = 1;
    shape_.strides[n - 1] = rows;
    int64_t step = rows * columns;
    for (int d = n - 3; d >= 0; --d) shape_.strides[d] = step, step *= shape_.sizes[d];
  }
  View view() const { return shape_; }
  void* data() const { return memory_.get(); }

 private:
  Memory memory_;
  OwnedView shape_;
};

// The kernels of linalg.c, each on a batch of packed matrices. Functions return false if the device has no such kernel.
class Kernels {
 public:
  Kernels(const OpBinding& binding, Device& device, DType dtype, int64_t batch)
      : scope_(binding), op_(binding.op), device_(device), dtype_(dtype), batch_(batch) {}
  // The same operator call, for matrices with another batch.
  Kernels(const Kernels& other, int64_t batch) : Kernels(other) { batch_ = batch; }
  bool done() const { return scope_.done(); }

  bool copy(const View& to, const View& from) const { return to.numel() == 0 || copy_portable(op_, device_, to, from); }
  // Copies the vectors, expanded to the batch of the matrices `like`, into dense memory.
  bool copy_vectors(const Memory& to, const View& from, const View& like) const {
    const OwnedView source = expanded(from, like, 1);
    OwnedView target = source;
    target.data = to.get();
    dense_strides(target, target.strides.data());
    return copy(target, source);
  }

  // Conjugates in place; does nothing for real dtypes or if not `enabled`.
  bool conjugate(const Buffer& x, bool enabled = true) const {
    static KernelTemplate kernels("linalg:conjugate", {"T"});
    if (!enabled || !is_complex(dtype_)) return true;
    TemplateCall call(kernels, device_, {dtype_});
    const int64_t elements = x.view().numel();
    return call.pointer(x.data()).integer(elements).launch_elements(op_, elements);
  }

  bool lu(void* a, const void* pivots, const void* info, int64_t m, int64_t n, bool pivot) const {
    static KernelTemplate kernels("linalg:lu", {"T"}, {"PIVOT"});
    TemplateCall call(kernels, device_, {dtype_}, {pivot});
    return run(call.pointer(a).pointer(pivots).pointer(info).integer(m).integer(n));
  }
  bool swap_rows(void* x, const void* pivots, int64_t n, int64_t width, int64_t steps, bool back) const {
    static KernelTemplate kernels("linalg:swap_rows", {"T"}, {"BACK"});
    TemplateCall call(kernels, device_, {dtype_}, {back});
    return run(call.pointer(x).pointer(pivots).integer(n).integer(width).integer(steps));
  }
  bool triangular(void* x, const void* a, int64_t n, int64_t width, bool upper, bool transposed, bool unit) const {
    static KernelTemplate kernels("linalg:triangular", {"T"}, {"UPPER", "TRANS", "UNIT"});
    TemplateCall call(kernels, device_, {dtype_}, {upper, transposed, unit});
    return run(call.pointer(x).pointer(a).integer(n).integer(width));
  }
  bool identity(void* x, int64_t m, int64_t n) const {
    static KernelTemplate kernels("linalg:identity", {"T"});
    TemplateCall call(kernels, device_, {dtype_});
    return run(call.pointer(x).integer(m).integer(n));
  }
  bool triangle(const View& to, const View& from, bool upper, bool unit) const {
    static KernelTemplate kernels("linalg:triangle", {"T"}, {"UPPER", "UNIT"});
    TemplateCall call(kernels, device_, {dtype_}, {upper, unit});
    call.arg(to).arg(from).integer(rows(to)).integer(columns(to)).integer(rows(from)).integer(columns(from));
    return run(call);
  }
  bool determinant(const View& first, const View& second, const void* lu, const View& pivots, int64_t n) const {
    static KernelTemplate kernels("linalg:determinant", {"T"}, {"LOGARITHM"});
    TemplateCall call(kernels, device_, {dtype_}, {second.defined()});
    return call.arg(first).arg(second).pointer(lu).arg(pivots).integer(n).integer(batch_).launch_elements(op_, batch_);
  }
  bool cholesky(void* a, const void* info, int64_t n) const {
    static KernelTemplate kernels("linalg:cholesky", {"T"});
    TemplateCall call(kernels, device_, {dtype_});
    return run(call.pointer(a).pointer(info).integer(n));
  }
  bool reflections(void* a, const void* tau, int64_t m, int64_t n) const {
    static KernelTemplate kernels("linalg:reflections", {"T"});
    TemplateCall call(kernels, device_, {dtype_});
    return run(call.pointer(a).pointer(tau).integer(m).integer(n));
  }
  bool reflections_product(void* q, const void* tau, int64_t m, int64_t n, int64_t count) const {
    static KernelTemplate kernels("linalg:reflections_product", {"T"});
    TemplateCall call(kernels, device_, {dtype_});
    return run(call.pointer(q).pointer(tau).integer(m).integer(n).integer(count));
  }
  bool reflect(void* x, const View& a, const void* tau, int64_t width, int64_t count, bool transposed) const {
    static KernelTemplate kernels("linalg:reflect", {"T"}, {"TRANS"});
    TemplateCall call(kernels, device_, {dtype_}, {transposed});
    call.pointer(x).arg(a).pointer(tau).integer(rows(a)).integer(width).integer(columns(a)).integer(count);
    return run(call);
  }

  bool ldl(void* a, const void* pivots, const void* info, int64_t n, bool hermitian) const {
    static KernelTemplate kernels("linalg:ldl", {"T"}, {"HERMITIAN"});
    TemplateCall call(kernels, device_, {dtype_}, {hermitian && is_complex(dtype_)});
    return run(call.pointer(a).pointer(pivots).pointer(info).integer(n));
  }
  bool ldl_solve(void* x, const void* a, const void* pivots, int64_t n, int64_t width, bool hermitian) const {
    static KernelTemplate kernels("linalg:ldl_solve", {"T"}, {"HERMITIAN"});
    TemplateCall call(kernels, device_, {dtype_}, {hermitian && is_complex(dtype_)});
    return run(call.pointer(x).pointer(a).pointer(pivots).integer(n).integer(width));
  }

  // Launches one work-group per matrix.
  bool run(TemplateCall& call) const { return call.launch(op_, batch_); }

 private:
  const PortableScope scope_;
  Operator& op_;
  Device& device_;
  const DType dtype_;
  int64_t batch_;
};

// Unpacks p, l and u from packed matrices.
bool unpack(const Kernels& kernels, const View& p, const View& l, const View& u, const View& lu, const void* pivots) {
  if (l.defined() && !(kernels.triangle(l, lu, false, true) && kernels.triangle(u, lu, true, false))) return false;
  const int64_t m = rows(lu), steps = std::min(m, columns(lu));
  return !p.defined() || (kernels.identity(p.data, m, m) && kernels.swap_rows(p.data, pivots, m, m, steps, true));
}

// Solves with the factors, as linalg_lu_solve.
bool solve(const Kernels& kernels, Device& device, const View& result, const View& lu, const View& pivots,
           const View& b, bool left, bool adjoint) {
  const int64_t n = columns(lu), width = left ? columns(result) : rows(result);
  const Buffer factors(device, result, n, n), x(device, result, n, width);
  const Memory exchanged(device, batch(result) * n, DType::kI32);
  const bool backwards = left ? adjoint : !adjoint;
  const View target = x.view();
  if (!kernels.copy(factors.view(), expanded(lu, result, 2)) || !kernels.copy_vectors(exchanged, pivots, result) ||
      !kernels.copy(target, transposed(expanded(b, result, 2), !left)) || !kernels.conjugate(factors, adjoint)) {
    return false;
  }
  const bool solved = backwards ? kernels.triangular(x.data(), factors.data(), n, width, true, true, false) &&
                                      kernels.triangular(x.data(), factors.data(), n, width, false, true, true) &&
                                      kernels.swap_rows(x.data(), exchanged.get(), n, width, n, true)
                                : kernels.swap_rows(x.data(), exchanged.get(), n, width, n, false) &&
                                      kernels.triangular(x.data(), factors.data(), n, width, false, false, true) &&
                                      kernels.triangular(x.data(), factors.data(), n, width, true, false, false);
  return solved && kernels.copy(result, transposed(target, !left));
}

// Solves in place with a Cholesky factor and its adjoint; x is n x width.
bool solve_cholesky(const Kernels& kernels, Device& device, const View& x, const View& factor, bool upper) {
  const int64_t n = rows(x), width = columns(x);
  const Buffer lower(device, x, n, n);
  return kernels.copy(lower.view(), transposed(expanded(factor, x, 2), upper)) && kernels.conjugate(lower, upper) &&
         kernels.triangular(x.data, lower.data(), n, width, false, false, false) && kernels.conjugate(lower) &&
         kernels.triangular(x.data, lower.data(), n, width, false, true, false);
}

// Writes the determinant to `first`, or its sign to `first` and its logarithm to `second`.
bool determinant(const OpBinding& binding, Device& device, const View& first, const View& second, const View& lu,
                 const View& pivots, const View& a) {
  if (!can_factor(binding, a)) return false;
  const Kernels kernels(binding, device, a.dtype, batch(a));
  const Memory info(device, batch(a), DType::kI32);
  return kernels.copy(lu, a) && kernels.lu(lu.data, pivots.data, info.get(), rows(a), rows(a), true) &&
         kernels.determinant(first, second, lu.data, pivots, rows(a)) && kernels.done();
}

}  // namespace

bool linalg_svd(const OpBinding& binding, Device& device, const View& u, const View& s, const View& vh,
                const View& info, const View& a, bool full, bool compute_vectors) {
  static KernelTemplate kernels("jacobi:svd", {"T"}, {"VECTORS"});
  if (call_vendor(
          binding, device,
          {output(u), output(s), output(vh), output(info), input(a), attribute(full), attribute(compute_vectors)})) {
    return true;
  }
  if (!can_factor(binding, a)) return false;
  TemplateCall call(kernels, device, {a.dtype}, {compute_vectors});
  if (!call.available()) return false;
  const bool tall = rows(a) >= columns(a);
  const int64_t m = std::max(rows(a), columns(a)), n = std::min(rows(a), columns(a)), count = batch(a);
  const int64_t vectors = !compute_vectors ? 0 : full ? m : n, square = compute_vectors ? n : 0;
  const Kernels steps(binding, device, a.dtype, count);
  const Buffer w(device, a, m, n), v(device, a, square, square), left(device, a, m, vectors),
      right(device, a, square, square);
  const Memory work(device, count * (m + n + vectors), a.dtype), order(device, count * (n + 1), DType::kI32);
  if (!steps.copy(w.view(), transposed(a, !tall))) return false;
  call.pointer(left.data()).arg(s).pointer(right.data()).arg(info).pointer(w.data()).pointer(v.data());
  call.pointer(work.get()).pointer(order.get()).integer(m).integer(n).integer(vectors);
  steps.run(call);
  if (!compute_vectors) return steps.done();
  const View first = tall ? left.view() : right.view(), second = tall ? right.view() : left.view();
  // vh is the adjoint of the right vectors. For a wide matrix, everything was computed for the transpose.
  return steps.conjugate(right) && steps.copy(u, first) && steps.copy(vh, transposed(second)) && steps.done();
}

bool linalg_eigh(const OpBinding& binding, Device& device, const View& values, const View& vectors, const View& info,
                 const View& a, bool upper, bool compute_vectors) {
  static KernelTemplate kernels("jacobi:eigh", {"T"}, {"UPPER", "VECTORS"});
  if (call_vendor(
          binding, device,
          {output(values), output(vectors), output(info), input(a), attribute(upper), attribute(compute_vectors)})) {
    return true;
  }
  if (!can_factor(binding, a)) return false;
  TemplateCall call(kernels, device, {a.dtype}, {upper, compute_vectors});
  if (!call.available()) return false;
  const int64_t n = columns(a), count = batch(a);
  const Kernels steps(binding, device, a.dtype, count);
  const Buffer w(device, a, n, n), v(device, a, n, compute_vectors ? n : 0);
  const Memory work(device, count * 5 * (n + 1), a.dtype), order(device, count * (n + 1), DType::kI32);
  if (!steps.copy(w.view(), a)) return false;
  call.arg(values).arg(vectors).arg(info).pointer(w.data()).pointer(v.data()).pointer(work.get());
  return steps.run(call.pointer(order.get()).integer(n)) && steps.done();
}

bool linalg_lu_factor(const OpBinding& binding, Device& device, const View& lu, const View& pivots, const View& info,
                      const View& a, bool pivot) {
  if (call_vendor(binding, device, {output(lu), output(pivots), output(info), input(a), attribute(pivot)})) return true;
  if (!can_factor(binding, a)) return false;
  const Kernels kernels(binding, device, a.dtype, batch(a));
  return kernels.copy(lu, a) && kernels.lu(lu.data, pivots.data, info.data, rows(a), columns(a), pivot) &&
         kernels.done();
}

bool lu_unpack(const OpBinding& binding, Device& device, const View& p, const View& l, const View& u, const View& lu,
               const View& pivots) {
  if (call_vendor(binding, device, {output(p), output(l), output(u), input(lu), input(pivots)})) return true;
  if (!can_factor(binding, lu)) return false;
  const Kernels kernels(binding, device, lu.dtype, batch(lu));
  const Buffer packed(device, lu, rows(lu), columns(lu));
  const Memory exchanged(device, pivots.numel(), DType::kI32);
  return kernels.copy(packed.view(), lu) && kernels.copy_vectors(exchanged, pivots, lu) &&
         unpack(kernels, p, l, u, packed.view(), exchanged.get()) && kernels.done();
}

bool linalg_lu(const OpBinding& binding, Device& device, const View& p, const View& l, const View& u, const View& a) {
  if (call_vendor(binding, device, {output(p), output(l), output(u), input(a)})) return true;
  if (!can_factor(binding, a)) return false;
  const Kernels kernels(binding, device, a.dtype, batch(a));
  const int64_t m = rows(a), n = columns(a);
  const Buffer lu(device, a, m, n);
  const Memory pivots(device, batch(a) * std::min(m, n), DType::kI32), info(device, batch(a), DType::kI32);
  return kernels.copy(lu.view(), a) && kernels.lu(lu.data(), pivots.get(), info.get(), m, n, p.defined()) &&
         unpack(kernels, p, l, u, lu.view(), pivots.get()) && kernels.done();
}

bool linalg_lu_solve(const OpBinding& binding, Device& device, const View& result, const View& lu, const View& pivots,
                     const View& b, bool left, bool adjoint) {
  if (call_vendor(binding, device,
                  {output(result), input(lu), input(pivots), input(b), attribute(left), attribute(adjoint)})) {
    return true;
  }
  if (!can_factor(binding, lu)) return false;
  const Kernels kernels(binding, device, lu.dtype, batch(result));
  return solve(kernels, device, result, lu, pivots, b, left, adjoint) && kernels.done();
}

bool linalg_solve(const OpBinding& binding, Device& device, const View& result, const View& lu, const View& pivots,
                  const View& info, const View& a, const View& b, bool left) {
  if (call_vendor(binding, device,
                  {output(result), output(lu), output(pivots), output(info), input(a), input(b), attribute(left)})) {
    return true;
  }
  if (!can_factor(binding, a)) return false;
  const Kernels kernels(binding, device, a.dtype, batch(result)), factor(kernels, batch(a));
  const int64_t n = rows(a);
  return factor.copy(lu, a) && factor.lu(lu.data, pivots.data, info.data, n, n, true) &&
         solve(kernels, device, result, lu, pivots, b, left, false) && kernels.done();
}

bool linalg_inv(const OpBinding& binding, Device& device, const View& inverse, const View& info, const View& a) {
  if (call_vendor(binding, device, {output(inverse), output(info), input(a)})) return true;
  if (!can_factor(binding, a)) return false;
  const Kernels kernels(binding, device, a.dtype, batch(a));
  const int64_t n = rows(a);
  const Buffer lu(device, a, n, n);
  const Memory pivots(device, batch(a) * n, DType::kI32);
  return kernels.copy(lu.view(), a) && kernels.lu(lu.data(), pivots.get(), info.data, n, n, true) &&
         kernels.identity(inverse.data, n, n) && kernels.swap_rows(inverse.data, pivots.get(), n, n, n, false) &&
         kernels.triangular(inverse.data, lu.data(), n, n, false, false, true) &&
         kernels.triangular(inverse.data, lu.data(), n, n, true, false, false) && kernels.done();
}

bool linalg_slogdet(const OpBinding& binding, Device& device, const View& sign, const View& logarithm, const View& lu,
                    const View& pivots, const View& a) {
  if (call_vendor(binding, device, {output(sign), output(logarithm), output(lu), output(pivots), input(a)})) {
    return true;
  }
  return determinant(binding, device, sign, logarithm, lu, pivots, a);
}

bool linalg_det(const OpBinding& binding, Device& device, const View& result, const View& lu, const View& pivots,
                const View& a) {
  if (call_vendor(binding, device, {output(result), output(lu), output(pivots), input(a)})) return true;
  return determinant(binding, device, result, {}, lu, pivots, a);
}

bool linalg_cholesky(const OpBinding& binding, Device& device, const View& factor, const View& info, const View& a,
                     bool upper) {
  if (call_vendor(binding, device, {output(factor), output(info), input(a), attribute(upper)})) return true;
  if (!can_factor(binding, a)) return false;
  const Kernels kernels(binding, device, a.dtype, batch(a));
  const int64_t n = rows(a);
  const Buffer lower(device, a, n, n);
  return kernels.copy(lower.view(), transposed(a, upper)) && kernels.conjugate(lower, upper) &&
         kernels.cholesky(lower.data(), info.data, n) && kernels.triangle(lower.view(), lower.view(), false, false) &&
         kernels.conjugate(lower, upper) && kernels.copy(transposed(factor, upper), lower.view()) && kernels.done();
}

bool cholesky_inverse(const OpBinding& binding, Device& device, const View& result, const View& factor, bool upper) {
  if (call_vendor(binding, device, {output(result), input(factor), attribute(upper)})) return true;
  if (!can_factor(binding, factor)) return false;
  const Kernels kernels(binding, device, factor.dtype, batch(factor));
  const int64_t n = rows(factor);
  const Buffer x(device, factor, n, n);
  return kernels.identity(x.data(), n, n) && solve_cholesky(kernels, device, x.view(), factor, upper) &&
         kernels.copy(result, x.view()) && kernels.done();
}

bool cholesky_solve(const OpBinding& binding, Device& device, const View& result, const View& b, const View& factor,
                    bool upper) {
  if (call_vendor(binding, device, {output(result), input(b), input(factor), attribute(upper)})) return true;
  if (!can_factor(binding, factor)) return false;
  const Kernels kernels(binding, device, factor.dtype, batch(result));
  return kernels.copy(result, expanded(b, result, 2)) && solve_cholesky(kernels, device, result, factor, upper) &&
         kernels.done();
}

bool linalg_ldl_factor(const OpBinding& binding, Device& device, const View& ld, const View& pivots, const View& info,
                       const View& a, bool hermitian) {
  if (call_vendor(binding, device, {output(ld), output(pivots), output(info), input(a), attribute(hermitian)})) {
    return true;
  }
  if (!can_factor(binding, a)) return false;
  const Kernels kernels(binding, device, a.dtype, batch(a));
  return kernels.copy(ld, a) && kernels.triangle(ld, ld, false, false) &&
         kernels.ldl(ld.data, pivots.data, info.data, rows(a), hermitian) && kernels.done();
}

bool linalg_ldl_solve(const OpBinding& binding, Device& device, const View& result, const View& ld, const View& pivots,
                      const View& b, bool hermitian) {
  if (call_vendor(binding, device, {output(result), input(ld), input(pivots), input(b), attribute(hermitian)})) {
    return true;
  }
  if (!can_factor(binding, ld)) return false;
  const Kernels kernels(binding, device, ld.dtype, batch(result));
  const int64_t n = rows(result);
  const Buffer factors(device, result, n, n);
  const Memory exchanged(device, batch(result) * n, DType::kI32);
  return kernels.copy(factors.view(), expanded(ld, result, 2)) && kernels.copy_vectors(exchanged, pivots, result) &&
         kernels.copy(result, expanded(b, result, 2)) &&
         kernels.ldl_solve(result.data, factors.data(), exchanged.get(), n, columns(result), hermitian) &&
         kernels.done();
}

bool linalg_solve_triangular(const OpBinding& binding, Device& device, const View& result, const View& a, const View& b,
                             bool left, bool upper, bool of_transpose, bool unit) {
  if (call_vendor(binding, device,
                  {output(result), input(a), input(b), attribute(left), attribute(upper), attribute(of_transpose),
                   attribute(unit)})) {
    return true;
  }
  if (!can_factor(binding, a)) return false;
  const Kernels kernels(binding, device, a.dtype, batch(result));
  const int64_t n = rows(a), width = left ? columns(result) : rows(result);
  const Buffer triangle(device, result, n, n), x(device, result, n, width);
  return kernels.copy(triangle.view(), expanded(a, result, 2)) &&
         kernels.copy(x.view(), transposed(expanded(b, result, 2), !left)) &&
         kernels.triangular(x.data(), triangle.data(), n, width, upper, of_transpose == left, unit) &&
         kernels.copy(result, transposed(x.view(), !left)) && kernels.done();
}

bool linalg_qr(const OpBinding& binding, Device& device, const View& q, const View& r, const View& a) {
  if (call_vendor(binding, device, {output(q), output(r), input(a)})) return true;
  if (!can_factor(binding, a)) return false;
  const Kernels kernels(binding, device, a.dtype, batch(a));
  const int64_t m = rows(a), n = columns(a), count = std::min(m, n);
  const Buffer w(device, a, m, n);
  const Memory tau(device, batch(a) * count, a.dtype);
  if (!kernels.copy(w.view(), a) || !kernels.reflections(w.data(), tau.get(), m, n)) return false;
  if (q.defined() && (!kernels.copy(first_columns(q, count), first_columns(w.view(), count)) ||
                      !kernels.reflections_product(q.data, tau.get(), m, columns(q), count))) {
    return false;
  }
  return kernels.triangle(r, w.view(), true, false) && kernels.done();
}

bool geqrf(const OpBinding& binding, Device& device, const View& reflections, const View& tau, const View& a) {
  if (call_vendor(binding, device, {output(reflections), output(tau), input(a)})) return true;
  if (!can_factor(binding, a)) return false;
  const Kernels kernels(binding, device, a.dtype, batch(a));
  return kernels.copy(reflections, a) && kernels.reflections(reflections.data, tau.data, rows(a), columns(a)) &&
         kernels.done();
}

bool linalg_householder_product(const OpBinding& binding, Device& device, const View& result, const View& reflections,
                                const View& tau) {
  if (call_vendor(binding, device, {output(result), input(reflections), input(tau)})) return true;
  if (!can_factor(binding, result)) return false;
  const Kernels kernels(binding, device, result.dtype, batch(result));
  const Memory factors(device, tau.numel(), tau.dtype);
  return kernels.copy_vectors(factors, tau, result) && kernels.copy(result, reflections) &&
         kernels.reflections_product(result.data, factors.get(), rows(result), columns(result),
                                     tau.sizes[tau.ndim - 1]) &&
         kernels.done();
}

bool ormqr(const OpBinding& binding, Device& device, const View& result, const View& reflections, const View& tau,
           const View& other, bool left, bool of_transpose) {
  if (call_vendor(
          binding, device,
          {output(result), input(reflections), input(tau), input(other), attribute(left), attribute(of_transpose)})) {
    return true;
  }
  if (!can_factor(binding, result)) return false;
  const Kernels kernels(binding, device, result.dtype, batch(result));
  const int64_t m = rows(reflections), width = left ? columns(result) : rows(result);
  const Buffer vectors(device, result, m, columns(reflections)), x(device, result, m, width);
  const Memory factors(device, tau.numel(), tau.dtype);
  return kernels.copy(vectors.view(), reflections) && kernels.copy_vectors(factors, tau, result) &&
         kernels.copy(x.view(), transposed(other, !left)) && kernels.conjugate(x, !left) &&
         kernels.reflect(x.data(), vectors.view(), factors.get(), width, tau.sizes[tau.ndim - 1],
                         of_transpose == left) &&
         kernels.conjugate(x, !left) && kernels.copy(result, transposed(x.view(), !left)) && kernels.done();
}

}  // namespace hp::ops
