#include "ops/reduction.h"

#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>

#include "ops/dim_mask.h"
#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using OptionalDtype = std::optional<at::ScalarType>;

bool sum(const Overload& overload, const Tensor& out, const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim,
         OptionalDtype /*dtype*/) {
  return hp::ops::sum(overload, device_holding(self), view(out), view(self), dim_mask(self, dims), keepdim);
}

bool mean(const Overload& overload, const Tensor& out, const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim,
          OptionalDtype /*dtype*/) {
  if (at::isIntegralType(out.scalar_type(), true)) return false;  // the CPU tier raises torch's error
  return hp::ops::mean(overload, device_holding(self), view(out), view(self), dim_mask(self, dims), keepdim);
}

// Complex products: multiplies the halves until one element is left.
Tensor folded_product(const Overload& overload, const Tensor& self, int64_t dim) {
  PortableScope scope(overload);
  Tensor rest = self;
  while (rest.size(dim) > 1) {
    const int64_t size = rest.size(dim), half = size / 2;
    Tensor product = at::mul(rest.narrow(dim, 0, half), rest.narrow(dim, half, half));
    if (size % 2 != 0) product.narrow(dim, 0, 1).mul_(rest.narrow(dim, size - 1, 1));
    rest = std::move(product);
  }
  scope.done();
  // An empty product is 1.
  return rest.size(dim) == 1 ? rest.select(dim, 0) : rest.sum(dim).fill_(1);
}

bool prod(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, bool keepdim,
          OptionalDtype /*dtype*/) {
  if (out.is_complex() && overload.portable_allowed) {
    const Tensor source = self.dim() == 0 ? self.unsqueeze(0) : self;
    dim = at::maybe_wrap_dim(dim, source.dim());
    const Tensor product = folded_product(overload, source.to(out.scalar_type()), dim);
    copy_tensor(keepdim && self.dim() > 0 ? out.select(dim, 0) : out, product, false);
    return true;
  }
  return hp::ops::prod(overload, device_holding(self), view(out), view(self), dim_mask(self, dim), keepdim);
}

OptionalTensor prod(const Overload& overload, const Tensor& self, OptionalDtype dtype) {
  const Tensor out = empty({}, at::native::get_dtype_from_self(self, dtype, true), self.device().index());
  if (out.is_complex()) {
    if (!overload.portable_allowed) return {};
    return folded_product(overload, self.to(out.scalar_type()).reshape({-1}), 0);
  }
  if (!hp::ops::prod(overload, device_holding(self), view(out), view(self), all_dims_mask(self), false)) return {};
  return out;
}

// Shared by both overloads, after torch has checked shape and dtype.
bool nansum_into(const Overload& overload, const Tensor& out, const Tensor& self, uint64_t dims, bool keepdim) {
  auto& reduce = at::isIntegralType(self.scalar_type(), true) ? hp::ops::sum : hp::ops::nansum;
  return reduce(overload, device_holding(self), view(out), view(self), dims, keepdim);
}

OptionalTensor nansum(const Overload& overload, const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim,
                      OptionalDtype dtype) {
  const uint64_t mask = dim_mask(self, dims);
  const Tensor out = empty(reduced_shape(self, mask, keepdim), at::native::get_dtype_from_self(self, dtype, true),
                           self.device().index());
  if (!nansum_into(overload, out, self, mask, keepdim)) return {};
  return out;
}

bool nansum(const Overload& overload, const Tensor& self, at::OptionalIntArrayRef dims, bool keepdim,
            OptionalDtype dtype, const Tensor& out) {
  if (dtype && *dtype != out.scalar_type()) return false;
  if (at::isIntegralType(out.scalar_type(), true) && !at::isIntegralType(self.scalar_type(), true)) return false;
  const uint64_t mask = dim_mask(self, dims);
  at::native::resize_output(out, reduced_shape(self, mask, keepdim));
  return nansum_into(overload, out, self, mask, keepdim);
}

// amax, and max without dimensions.
template <auto kReduce>
bool extreme(const Overload& overload, const Tensor& out, const Tensor& self, at::IntArrayRef dims, bool keepdim) {
  return kReduce(overload, device_holding(self), view(out), view(self), dim_mask(self, dims), keepdim);
}
template <auto kReduce>
OptionalTensor extreme(const Overload& overload, const Tensor& self) {
  if (self.numel() == 0) return {};  // the CPU tier raises torch's error
  const Tensor out = empty({}, self.scalar_type(), self.device().index());
  if (!kReduce(overload, device_holding(self), view(out), view(self), all_dims_mask(self), false)) return {};
  return out;
}
template <auto kReduce>
bool extreme(const Overload& overload, const Tensor& self, const Tensor& out) {
  if (self.numel() == 0 || out.scalar_type() != self.scalar_type()) return false;  // the CPU tier raises torch's error
  at::native::resize_output(out, {});
  return kReduce(overload, device_holding(self), view(out), view(self), all_dims_mask(self), false);
}
auto amax(const auto&... args) { return extreme<&hp::ops::amax>(args...); }
auto amin(const auto&... args) { return extreme<&hp::ops::amin>(args...); }

// Over all elements, one dimension, or several; an empty list of several means none.
template <auto kReduce>
bool truth_along(const Overload& overload, const Tensor& out, const Tensor& self, uint64_t dims, bool keepdim) {
  // A complex number is true if either part is nonzero.
  const Tensor source = self.is_complex() ? at::ne(self, 0) : self;
  return kReduce(overload, device_holding(self), view(out), view(source), dims, keepdim);
}
template <auto kReduce>
bool truth(const Overload& overload, const Tensor& out, const Tensor& self) {
  return truth_along<kReduce>(overload, out, self, all_dims_mask(self), false);
}
template <auto kReduce>
bool truth(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, bool keepdim) {
  return truth_along<kReduce>(overload, out, self, dim_mask(self, dim), keepdim);
}
template <auto kReduce>
bool truth(const Overload& overload, const Tensor& out, const Tensor& self, at::OptionalIntArrayRef dims,
           bool keepdim) {
  const uint64_t mask = dims && dims->empty() ? 0 : dim_mask(self, dims);
  return truth_along<kReduce>(overload, out, self, mask, keepdim);
}
auto any(const auto&... args) { return truth<&hp::ops::any>(args...); }
auto all(const auto&... args) { return truth<&hp::ops::all>(args...); }

bool vector_norm(const Overload& overload, const Tensor& out, const Tensor& self, const at::Scalar& ord,
                 at::OptionalIntArrayRef dims, bool keepdim, OptionalDtype /*dtype*/) {
  if (ord.isComplex()) return false;
  const Tensor source = self.is_complex() ? at::abs(self) : self;
  return hp::ops::vector_norm(overload, device_holding(self), view(out), view(source), ord.toDouble(),
                              dim_mask(self, dims), keepdim);
}
bool vector_norm(const Overload& overload, const Tensor& out, const Tensor& self, const std::optional<at::Scalar>& ord,
                 at::IntArrayRef dims, bool keepdim, OptionalDtype dtype = {}) {
  return vector_norm(overload, out, self, ord.value_or(2), at::OptionalIntArrayRef(dims), keepdim, dtype);
}

bool aminmax(const Overload& overload, const Tensor& smallest, const Tensor& largest, const Tensor& self,
             std::optional<int64_t> dim, bool keepdim) {
  return hp::ops::aminmax(overload, device_holding(self), view(smallest), view(largest), view(self),
                          dim ? dim_mask(self, *dim) : all_dims_mask(self), keepdim);
}
std::optional<std::tuple<Tensor, Tensor>> aminmax(const Overload& overload, const Tensor& self, int64_t dim,
                                                  bool keepdim) {
  const uint64_t mask = dim_mask(self, dim);
  if (self.numel() == 0) return {};
  const auto shape = reduced_shape(self, mask, keepdim);
  Tensor smallest = empty(shape, self.scalar_type(), self.device().index()), largest = output_like(smallest);
  if (!aminmax(overload, smallest, largest, self, std::optional<int64_t>(dim), keepdim)) return {};
  return std::make_tuple(std::move(smallest), std::move(largest));
}
std::optional<std::tuple<Tensor, Tensor>> aminmax(const Overload& overload, const Tensor& self) {
  if (self.numel() == 0) return {};
  Tensor smallest = empty({}, self.scalar_type(), self.device().index()), largest = output_like(smallest);
  if (!aminmax(overload, smallest, largest, self, std::nullopt, false)) return {};
  return std::make_tuple(std::move(smallest), std::move(largest));
}

OptionalTensor trace(const Overload& overload, const Tensor& self) {
  if (self.dim() != 2) return {};  // the CPU tier raises torch's error
  const Tensor out = empty({}, at::native::get_dtype_from_self(self, {}, true), self.device().index());
  if (!hp::ops::trace(overload, device_holding(self), view(out), view(self))) return {};
  return out;
}

std::optional<bool> equal(const Overload& overload, const Tensor& self, const Tensor& other) {
  if (self.scalar_type() != other.scalar_type() || self.device() != other.device()) return {};  // torch's own error
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  const Tensor out = empty({}, at::kBool, self.device().index()), a = self.contiguous(), b = other.contiguous();
  if (!hp::ops::equal(overload, device_holding(self), view(out), view(a), view(b))) return {};
  return out.item<bool>();
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/reduction.inc"
