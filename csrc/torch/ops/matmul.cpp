#include "ops/matmul.h"

#include <ATen/ScalarOps.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/conj_physical.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using hp::ops::Factor;

// torch leaves resolving the lazy bits of operands to the product.
bool lazy(const Tensor& tensor) { return tensor.is_conj() || tensor.is_neg(); }
Tensor resolved(const Tensor& tensor) { return tensor.resolve_conj().resolve_neg(); }

bool matmul(const Overload& overload, const Tensor& out, const Tensor& self, const Tensor& mat2) {
  check_same_device(overload, {&self, &mat2, &out});
  if (lazy(out)) return false;
  if (out.numel() == 0) return true;
  if (self.numel() == 0) {
    out.zero_();  // an empty sum
    return true;
  }
  if (lazy(self) || lazy(mat2)) return matmul(overload, out, resolved(self), resolved(mat2));
  return hp::ops::matmul(overload, device_holding(out), view(out), view(self), view(mat2));
}

// Nothing if the number is complex or torch would raise an error.
std::optional<Factor> factor(const at::Scalar& value, at::ScalarType dtype) {
  if (value.isComplex()) return std::nullopt;
  if (at::isFloatingType(dtype)) return Factor{value.toDouble(), 0};
  // For integers torch truncates fractions.
  if (!representable(value, dtype)) return std::nullopt;
  return Factor{0, value.to<int64_t>()};
}
bool is_zero(Factor value) { return value.real == 0 && value.integer == 0; }

// A view that owns its sizes and strides.
struct Shaped {
  View view;
  std::array<int64_t, 3> sizes, strides;
};

// Broadcasts `tensor` to the sizes of `like`; false if it cannot be.
bool broadcast(const Tensor& tensor, const View& like, Shaped& shaped) {
  const int64_t missing = like.ndim - tensor.dim();
  if (missing < 0) return false;
  for (int d = 0; d < like.ndim; ++d) {
    const bool there = d >= missing;
    const int64_t size = there ? tensor.size(d - missing) : 1;
    if (size != like.sizes[d] && size != 1) return false;
    shaped.sizes[d] = like.sizes[d];
    shaped.strides[d] = there && size != 1 ? tensor.stride(d - missing) : 0;
  }
  shaped.view = {const_cast<void*>(tensor.const_data_ptr()), to_core(tensor.scalar_type()), like.ndim,
                 shaped.sizes.data(), shaped.strides.data()};
  return true;
}

// A vector as a matrix with one column.
void as_column(const Tensor& vector, Shaped& shaped) {
  shaped.sizes = {vector.size(0), 1, 0};
  shaped.strides = {vector.stride(0), 1, 0};
  shaped.view = {const_cast<void*>(vector.const_data_ptr()), to_core(vector.scalar_type()), 2, shaped.sizes.data(),
                 shaped.strides.data()};
}

const hp::Kernel* vendor_product() {
  static const KernelSlot& slot = KernelRegistry::slot(runtime(), "matmul");
  return slot.get();
}

// The product alone, as a step of another operator.
bool inner_product(const Overload& overload, const Tensor& out, const Tensor& a, const Tensor& b) {
  Device& device = device_holding(out);
  if (hp::call_vendor(overload.op, vendor_product(), device, {output(view(out)), input(view(a)), input(view(b))})) {
    return true;
  }
  PortableScope scope(overload);
  return hp::ops::launch_matmul(overload, device, view(out), {}, view(a), view(b), {}, {}) && scope.done();
}

std::vector<int64_t> product_sizes(const Tensor& self, const Tensor& mat2) {
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes.back() = mat2.size(-1);
  return sizes;
}

// aten::mm.dtype and bmm.dtype. Invalid calls are declined; the decomposition names the reason.
bool can_widen(const Tensor& self, const Tensor& mat2, at::ScalarType dtype) {
  const at::ScalarType from = self.scalar_type();
  const bool half = from == at::kHalf || from == at::kBFloat16;
  const int64_t rank = self.dim();
  return mat2.scalar_type() == from && (dtype == from || (half && dtype == at::kFloat)) && all_on_device(self, mat2) &&
         (rank == 2 || rank == 3) && mat2.dim() == rank && self.size(-1) == mat2.size(-2) &&
         (rank == 2 || self.size(0) == mat2.size(0));
}
void widen(const Overload& overload, const Tensor& out, const Tensor& self, const Tensor& mat2) {
  if (out.scalar_type() != self.scalar_type() && self.numel() != 0 && out.numel() != 0 && !lazy(self) && !lazy(mat2)) {
    Device& device = device_holding(out);
    const View to = view(out), left = view(self), right = view(mat2);
    // A vendor's product of converted operands is faster than the portable kernel.
    if (vendor_product() != nullptr ? hp::call_vendor(overload, device, {output(to), input(left), input(right)})
                                    : hp::ops::matmul(overload, device, to, left, right)) {
      return;
    }
  }
  Tensor target = out;
  const Tensor left = self.to(out.scalar_type()), right = mat2.to(out.scalar_type());
  self.dim() == 2 ? at::mm_out(target, left, right) : at::bmm_out(target, left, right);
}
std::optional<Tensor> wide_matmul(const Overload& overload, const Tensor& self, const Tensor& mat2,
                                  at::ScalarType dtype) {
  if (!can_widen(self, mat2, dtype)) return std::nullopt;
  const Tensor out = empty(product_sizes(self, mat2), dtype, self.device().index());
  widen(overload, out, self, mat2);
  return out;
}
bool wide_matmul(const Overload& overload, const Tensor& self, const Tensor& mat2, at::ScalarType dtype, Tensor& out) {
  if (!can_widen(self, mat2, dtype) || out.scalar_type() != dtype || out.device() != self.device()) return false;
  at::native::resize_output(out, product_sizes(self, mat2));
  widen(overload, out, self, mat2);
  return true;
}

// aten::_int_mm: int8 to int32.
bool multiply_bytes(const Overload& overload, const Tensor& out, const Tensor& self, const Tensor& mat2) {
  if (out.numel() == 0) return true;
  if (self.numel() == 0) {
    out.zero_();
    return true;
  }
  return hp::ops::matmul(overload, device_holding(out), view(out), view(self), view(mat2));
}
bool byte_matrices(const Tensor& self, const Tensor& mat2) {
  return self.dim() == 2 && mat2.dim() == 2 && self.size(1) == mat2.size(0) && self.scalar_type() == at::kChar &&
         mat2.scalar_type() == at::kChar && self.device() == mat2.device();
}
std::optional<Tensor> wide_matmul(const Overload& overload, const Tensor& self, const Tensor& mat2) {
  if (!byte_matrices(self, mat2)) return std::nullopt;
  Tensor out = empty(product_sizes(self, mat2), at::kInt, self.device().index());
  return multiply_bytes(overload, out, self, mat2) ? std::optional<Tensor>(out) : std::nullopt;
}
bool wide_matmul(const Overload& overload, const Tensor& self, const Tensor& mat2, Tensor& out) {
  if (!byte_matrices(self, mat2) || out.scalar_type() != at::kInt || out.device() != self.device()) return false;
  at::native::resize_output(out, product_sizes(self, mat2));
  return multiply_bytes(overload, out, self, mat2);
}

// Complex numbers: the product first, the rest pointwise.
bool complex_addmm(const Overload& overload, const Tensor& out, const Tensor& self, const Tensor& mat1,
                   const Tensor& mat2, const at::Scalar& beta, const at::Scalar& alpha) {
  const bool vector = mat2.dim() == 1;
  const Tensor right = vector ? mat2.unsqueeze(1) : mat2;
  Tensor product =
      empty(vector ? at::IntArrayRef({out.size(0), 1}) : out.sizes(), out.scalar_type(), out.device().index());
  if (mat1.numel() == 0) {
    product.zero_();
  } else if (!inner_product(overload, product, mat1, right)) {
    return false;
  }
  if (vector) product = product.squeeze(1);
  Tensor target = out;
  if (beta.toComplexDouble() == 0.0) {
    at::mul_out(target, product, at::native::wrapped_scalar_tensor(alpha));
  } else {
    at::add_out(target, beta.equal(1) ? self : at::mul(self, beta), product, alpha);
  }
  return true;
}

// Matrices, batches of matrices, or a matrix and a vector.
bool addmm(const Overload& overload, const Tensor& out, const Tensor& self, const Tensor& mat1, const Tensor& mat2,
           const at::Scalar& beta, const at::Scalar& alpha) {
  check_same_device(overload, {&self, &mat1, &mat2, &out});
  if (lazy(out)) return false;
  if (lazy(self) || lazy(mat1) || lazy(mat2)) {
    return addmm(overload, out, resolved(self), resolved(mat1), resolved(mat2), beta, alpha);
  }
  const at::ScalarType dtype = out.scalar_type();
  if (self.scalar_type() != dtype || mat1.scalar_type() != dtype || mat2.scalar_type() != dtype) return false;
  if (out.is_complex() && out.numel() != 0) return complex_addmm(overload, out, self, mat1, mat2, beta, alpha);
  const std::optional<Factor> b = factor(beta, dtype), a = factor(alpha, dtype);
  if (!a || !b) return false;
  const bool vector = mat2.dim() == 1;
  Shaped out_column, right_column, more;
  if (vector) {
    as_column(out, out_column);
    as_column(mat2, right_column);
  }
  const View to = vector ? out_column.view : view(out), right = vector ? right_column.view : view(mat2);
  // A vector is broadcast along the rows, as a column.
  const Tensor addend = vector && self.dim() == 1 ? self.unsqueeze(1) : self;
  if (!broadcast(addend, to, more)) return false;
  if (out.numel() == 0) return true;
  return hp::ops::addmm(overload, vendor_product(), device_holding(out), to, is_zero(*b) ? View{} : more.view,
                        view(mat1), right, *b, *a);
}

bool addmm(const Overload& overload, const Tensor& out, const Tensor& self, const Tensor& mat1, const Tensor& mat2,
           const at::Scalar& beta, const at::Scalar& alpha, bool use_gelu) {
  if (!addmm(overload, out, self, mat1, mat2, beta, alpha)) return false;
  Tensor activated = out;
  use_gelu ? at::gelu_(activated) : at::relu_(activated);
  return true;
}

// The sum over the batch as one product, with the batch folded into the inner dimension.
bool sum_of_products(const Overload& overload, const Tensor& out, const Tensor& self, const Tensor& batch1,
                     const Tensor& batch2, const at::Scalar& beta, const at::Scalar& alpha) {
  const Tensor left = batch1.transpose(0, 1).reshape({batch1.size(1), -1});
  const Tensor right = batch2.reshape({-1, batch2.size(2)});
  return addmm(overload, out, self, left, right, beta, alpha);
}
bool addable(const Tensor& self, const Tensor& batch1, const Tensor& batch2) {
  return batch1.dim() == 3 && batch2.dim() == 3 && batch1.size(0) == batch2.size(0) &&
         batch1.size(2) == batch2.size(1) && batch1.numel() != 0 && batch2.numel() != 0 && self.dim() <= 2;
}

// aten::addbmm
std::optional<Tensor> addmm(const Overload& overload, const Tensor& self, const Tensor& batch1, const Tensor& batch2,
                            const at::Scalar& beta, const at::Scalar& alpha) {
  if (!addable(self, batch1, batch2)) return std::nullopt;
  Tensor out = empty({batch1.size(1), batch2.size(2)}, batch1.scalar_type(), batch1.device().index());
  if (!sum_of_products(overload, out, self, batch1, batch2, beta, alpha)) return std::nullopt;
  return out;
}
bool addmm(const Overload& overload, const Tensor& self, const Tensor& batch1, const Tensor& batch2,
           const at::Scalar& beta, const at::Scalar& alpha, Tensor& out) {
  if (!addable(self, batch1, batch2)) return false;
  const std::array<int64_t, 2> sizes{batch1.size(1), batch2.size(2)};
  if (out.scalar_type() != batch1.scalar_type()) return false;
  out.resize_(sizes);  // without a warning, as in torch
  return sum_of_products(overload, out, self, batch1, batch2, beta, alpha);
}
bool addmm(const Overload& overload, Tensor& self, const Tensor& batch1, const Tensor& batch2, const at::Scalar& beta,
           const at::Scalar& alpha) {
  if (!addable(self, batch1, batch2)) return false;
  const std::array<int64_t, 2> sizes{batch1.size(1), batch2.size(2)};
  if (self.sizes() != at::IntArrayRef(sizes)) return false;
  return sum_of_products(overload, self, self, batch1, batch2, beta, alpha);
}

// A row, or its conjugate, times a column.
bool complex_dot(const Overload& overload, const Tensor& out, const Tensor& self, const Tensor& other, bool conjugate) {
  const Tensor row = (conjugate ? at::conj_physical(self) : self).unsqueeze(0);
  return inner_product(overload, out.view({1, 1}), row, other.unsqueeze(1));
}

// dot and vdot, which differ only for complex numbers.
std::optional<Tensor> dot(const Overload& overload, const Tensor& self, const Tensor& other, bool conjugate) {
  if (self.dim() != 1 || other.dim() != 1 || self.numel() != other.numel() ||
      self.scalar_type() != other.scalar_type() || self.device() != other.device())
    return std::nullopt;
  // As in torch, whose fallback for tensors without memory leaves out these two.
  if (self._is_zerotensor() || other._is_zerotensor()) return at::_efficientzerotensor({}, self.options());
  if (lazy(self) || lazy(other)) return dot(overload, resolved(self), resolved(other), conjugate);
  Tensor out = empty({}, self.scalar_type(), self.device().index());
  if (self.numel() == 0) return out.zero_();
  const bool done = self.is_complex()
                        ? complex_dot(overload, out, self, other, conjugate)
                        : hp::ops::dot(overload, device_holding(self), view(out), view(self), view(other));
  return done ? std::optional<Tensor>(out) : std::nullopt;
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/matmul.inc"
