#include "ops/fft.h"

#include <ATen/WrapDimUtils.h>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using Dims = c10::SmallVector<int64_t, 8>;

// Wrapped dimensions; nothing if torch would raise an error.
std::optional<Dims> wrapped(const Tensor& self, at::IntArrayRef dims) {
  Dims result;
  for (int64_t dim : dims) {
    if (dim < -self.dim() || dim >= self.dim()) return {};
    dim = at::maybe_wrap_dim(dim, self.dim());
    if (self.size(dim) < 1 || std::find(result.begin(), result.end(), dim) != result.end()) return {};
    result.push_back(dim);
  }
  if (result.empty()) return {};
  return result;
}

OptionalTensor fft_c2c(const Overload& overload, const Tensor& self, at::IntArrayRef dim, int64_t normalization,
                       bool forward) {
  const auto dims = wrapped(self, dim);
  if (!dims || !self.is_complex() || self.scalar_type() == at::kComplexHalf) return {};
  Tensor out = empty(self.sizes(), self.scalar_type(), self.device().index());
  if (out.numel() == 0) return out;
  const Tensor from = self.contiguous();
  if (!hp::ops::fft_c2c(overload, device_holding(self), view(out), view(from), dims->data(),
                        static_cast<int64_t>(dims->size()), normalization, forward))
    return {};
  return out;
}

OptionalTensor fft_r2c(const Overload& overload, const Tensor& self, at::IntArrayRef dim, int64_t normalization,
                       bool onesided) {
  const auto dims = wrapped(self, dim);
  if (!dims || (self.scalar_type() != at::kFloat && self.scalar_type() != at::kDouble)) return {};
  Dims sizes(self.sizes().begin(), self.sizes().end());
  if (onesided) sizes[dims->back()] = sizes[dims->back()] / 2 + 1;
  Tensor out = empty(sizes, at::toComplexType(self.scalar_type()), self.device().index());
  if (out.numel() == 0) return out;
  const Tensor from = self.contiguous();
  if (!hp::ops::fft_r2c(overload, device_holding(self), view(out), view(from), dims->data(),
                        static_cast<int64_t>(dims->size()), normalization, onesided))
    return {};
  return out;
}

OptionalTensor fft_c2r(const Overload& overload, const Tensor& self, at::IntArrayRef dim, int64_t normalization,
                       int64_t last_dim_size) {
  const auto dims = wrapped(self, dim);
  if (!dims || !self.is_complex() || self.scalar_type() == at::kComplexHalf) return {};
  if (last_dim_size < 1 || self.size(dims->back()) < last_dim_size / 2 + 1) return {};
  Dims sizes(self.sizes().begin(), self.sizes().end());
  sizes[dims->back()] = last_dim_size;
  Tensor out = empty(sizes, at::toRealValueType(self.scalar_type()), self.device().index());
  if (out.numel() == 0) return out;
  const Tensor from = self.contiguous();
  if (!hp::ops::fft_c2r(overload, device_holding(self), view(out), view(from), dims->data(),
                        static_cast<int64_t>(dims->size()), normalization))
    return {};
  return out;
}

bool fft_c2c(const Overload& overload, const Tensor& self, at::IntArrayRef dim, int64_t normalization, bool forward,
             const Tensor& out) {
  return resize_and_copy(out, fft_c2c(overload, self, dim, normalization, forward));
}
bool fft_r2c(const Overload& overload, const Tensor& self, at::IntArrayRef dim, int64_t normalization, bool onesided,
             const Tensor& out) {
  return resize_and_copy(out, fft_r2c(overload, self, dim, normalization, onesided));
}
bool fft_c2r(const Overload& overload, const Tensor& self, at::IntArrayRef dim, int64_t normalization,
             int64_t last_dim_size, const Tensor& out) {
  return resize_and_copy(out, fft_c2r(overload, self, dim, normalization, last_dim_size));
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/fft.inc"
