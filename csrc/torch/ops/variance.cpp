#include "ops/variance.h"

#include <ATen/ops/add.h>

#include "ops/complex_parts.h"
#include "ops/dim_mask.h"
#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using Correction = std::optional<at::Scalar>;

bool takes(const Tensor& self, const Correction& correction) {
  return at::isFloatingType(c10::toRealValueType(self.scalar_type())) && to_core(self.scalar_type()) != DType::kNone &&
         !(correction && correction->isComplex());
}

double degrees_lost(const char* name, const Tensor& self, const Tensor& out, const Correction& correction) {
  const double lost = correction ? correction->toDouble() : 1;
  if (out.numel() > 0 && static_cast<double>(self.numel() / out.numel()) <= lost) {
    TORCH_WARN(name,
               "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
               "(input numel divided by output numel).");
  }
  return lost;
}

// The variance of complex numbers is the sum of the variances of their parts.
Tensor together(const Tensor& re, const Tensor& im, bool root) {
  Tensor sum = at::add(re, im);
  return root ? sum.sqrt_() : sum;
}

template <auto kReduce>
bool spread_into(const char* name, const Overload& overload, const Tensor& out, const Tensor& self, uint64_t dims,
                 const Correction& correction, bool keepdim) {
  return kReduce(overload, device_holding(self), view(out), view(self), dims, degrees_lost(name, self, out, correction),
                 keepdim);
}

template <auto kReduce>
OptionalTensor spread(const char* name, const Overload& overload, const Tensor& self, at::OptionalIntArrayRef dims,
                      const Correction& correction, bool keepdim) {
  if (!takes(self, correction)) return {};
  if (self.is_complex()) {
    const auto re = spread<&hp::ops::var>(name, overload, at::real(self), dims, correction, keepdim);
    const auto im = spread<&hp::ops::var>(name, overload, at::imag(self), dims, correction, keepdim);
    if (!re || !im) return {};
    return together(*re, *im, kReduce == &hp::ops::std);
  }
  const uint64_t mask = dim_mask(self, dims);
  const Tensor out = empty(reduced_shape(self, mask, keepdim), self.scalar_type(), self.device().index());
  if (!spread_into<kReduce>(name, overload, out, self, mask, correction, keepdim)) return {};
  return out;
}

template <auto kReduce>
bool spread(const char* name, const Overload& overload, const Tensor& self, at::OptionalIntArrayRef dims,
            const Correction& correction, bool keepdim, const Tensor& out) {
  if (!takes(self, correction) || !at::isFloatingType(out.scalar_type())) return false;
  if (self.is_complex()) {
    if (out.scalar_type() != c10::toRealValueType(self.scalar_type())) return false;
    return resize_and_copy(out, spread<kReduce>(name, overload, self, dims, correction, keepdim));
  }
  const uint64_t mask = dim_mask(self, dims);
  at::native::resize_output(out, reduced_shape(self, mask, keepdim));
  return spread_into<kReduce>(name, overload, out, self, mask, correction, keepdim);
}
auto var(const auto&... args) { return spread<&hp::ops::var>("var", args...); }
auto std(const auto&... args) { return spread<&hp::ops::std>("std", args...); }

template <auto kReduce>
std::optional<std::tuple<Tensor, Tensor>> with_mean(const char* name, const Overload& overload, const Tensor& self,
                                                    at::OptionalIntArrayRef dims, const Correction& correction,
                                                    bool keepdim) {
  if (!takes(self, correction)) return {};
  if (self.is_complex()) {
    const auto re = with_mean<&hp::ops::var_mean>(name, overload, at::real(self), dims, correction, keepdim);
    const auto im = with_mean<&hp::ops::var_mean>(name, overload, at::imag(self), dims, correction, keepdim);
    if (!re || !im) return {};
    return std::make_tuple(together(std::get<0>(*re), std::get<0>(*im), kReduce == &hp::ops::std_mean),
                           at::complex(std::get<1>(*re), std::get<1>(*im)));
  }
  const uint64_t mask = dim_mask(self, dims);
  Tensor out = empty(reduced_shape(self, mask, keepdim), self.scalar_type(), self.device().index());
  Tensor mean = output_like(out);
  if (!kReduce(overload, device_holding(self), view(out), view(mean), view(self), mask,
               degrees_lost(name, self, out, correction), keepdim)) {
    return {};
  }
  return std::make_tuple(std::move(out), std::move(mean));
}
auto var_mean(const auto&... args) { return with_mean<&hp::ops::var_mean>("var_mean", args...); }
auto std_mean(const auto&... args) { return with_mean<&hp::ops::std_mean>("std_mean", args...); }

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/variance.inc"
