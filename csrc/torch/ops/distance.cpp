#include "ops/distance.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

// Two batches of rows, broadcast and flattened.
struct Batches {
  Batches(const Tensor& x1, const Tensor& x2)
      : sizes(at::infer_size(x1.sizes().slice(0, x1.dim() - 2), x2.sizes().slice(0, x2.dim() - 2))) {}
  // As [batches, rows, columns], contiguous.
  Tensor flat(const Tensor& x) const {
    return x.expand(shape(x.size(-2), x.size(-1))).contiguous().reshape({-1, x.size(-2), x.size(-1)});
  }
  std::vector<int64_t> shape(int64_t rows, int64_t columns) const {
    std::vector<int64_t> result(sizes.begin(), sizes.end());
    result.push_back(rows);
    result.push_back(columns);
    return result;
  }
  const std::vector<int64_t> sizes;
};

bool compatible(const Tensor& x1, const Tensor& x2) {
  return is_single_or_double(x1) && x1.scalar_type() == x2.scalar_type() && x1.dim() >= 2 && x2.dim() >= 2 &&
         x1.size(-1) == x2.size(-1);
}

OptionalTensor cdist(const Overload& overload, const Tensor& x1, const Tensor& x2, double p,
                     std::optional<int64_t> compute_mode) {
  if (!compatible(x1, x2) || !(p >= 0) || compute_mode.value_or(0) < 0 || compute_mode.value_or(0) > 2) return {};
  const Batches batches(x1, x2);
  const auto shape = batches.shape(x1.size(-2), x2.size(-2));
  if (x1.size(-1) == 0) return at::zeros(shape, x1.options());
  Tensor out = empty(shape, x1.scalar_type(), x1.device().index());
  if (out.numel() == 0) return out;
  const Tensor a = batches.flat(x1), b = batches.flat(x2);
  if (!hp::ops::cdist(overload, device_holding(x1), view(out), view(a), view(b), p)) return {};
  return out;
}

OptionalTensor cdist_backward(const Overload& overload, const Tensor& grad, const Tensor& x1, const Tensor& x2,
                              double p, const Tensor& distances) {
  if (!compatible(x1, x2) || !(p >= 0)) return {};
  const Batches batches(x1, x2);
  const auto shape = batches.shape(x1.size(-2), x2.size(-2));
  for (const Tensor& tensor : {grad, distances}) {
    if (tensor.scalar_type() != x1.scalar_type() || tensor.sizes() != at::IntArrayRef(shape)) return {};
  }
  if (grad.numel() == 0 || x1.size(-1) == 0) return at::zeros_like(x1);
  Tensor out = empty(batches.shape(x1.size(-2), x1.size(-1)), x1.scalar_type(), x1.device().index());
  const Tensor a = batches.flat(x1), b = batches.flat(x2), g = grad.contiguous(), c = distances.contiguous();
  if (!hp::ops::cdist_backward(overload, device_holding(x1), view(out), view(g), view(a), view(b), view(c), p))
    return {};
  return out;
}

OptionalTensor pdist(const Overload& overload, const Tensor& self, double p) {
  if (!is_single_or_double(self) || self.dim() != 2 || !(p >= 0)) return {};
  const int64_t n = self.size(0), pairs = n < 2 ? 0 : n * (n - 1) / 2;
  if (self.size(1) == 0) return at::zeros({pairs}, self.options());
  Tensor out = empty({pairs}, self.scalar_type(), self.device().index());
  if (pairs == 0) return out;
  const Tensor from = self.contiguous();
  if (!hp::ops::pdist(overload, device_holding(self), view(out), view(from), p)) return {};
  return out;
}

OptionalTensor pdist_backward(const Overload& overload, const Tensor& grad, const Tensor& self, double p,
                              const Tensor& distances) {
  if (!is_single_or_double(self) || self.dim() != 2 || !(p >= 0) || grad.scalar_type() != self.scalar_type() ||
      distances.scalar_type() != self.scalar_type() || grad.sizes() != distances.sizes())
    return {};
  if (grad.numel() == 0 || self.numel() == 0) return at::zeros_like(self);
  if (grad.numel() != self.size(0) * (self.size(0) - 1) / 2) return {};
  Tensor out = empty(self.sizes(), self.scalar_type(), self.device().index());
  const Tensor from = self.contiguous(), g = grad.contiguous(), c = distances.contiguous();
  if (!hp::ops::pdist_backward(overload, device_holding(self), view(out), view(g), view(from), view(c), p)) return {};
  return out;
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/distance.inc"
