#include "../../ops/indexing.h"

#include <ATen/WrapDimUtils.h>

#include "../custom.h"

namespace hp::torch_adapter::ops {
namespace {

bool gather(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index,
            bool /*sparse_grad*/) {
  if (out.numel() == 0) return true;
  return hp::ops::gather(overload, device_holding(self), view(out), view(self), view(index),
                         at::maybe_wrap_dim(dim, self.dim()));
}

std::optional<Tensor> embedding(const Overload& overload, const Tensor& weight, const Tensor& indices,
                                int64_t /*padding_idx*/, bool /*scale_grad_by_freq*/, bool /*sparse*/) {
  if (weight.dim() != 2) return std::nullopt;  // torch's own error
  std::vector<int64_t> sizes(indices.sizes().begin(), indices.sizes().end());
  sizes.push_back(weight.size(1));
  Tensor out = empty(sizes, weight.scalar_type(), weight.device().index());
  if (out.numel() == 0) return out;
  const Tensor rows = weight.contiguous(), places = indices.contiguous();
  if (!hp::ops::embedding(overload, device_holding(weight), view(out), view(rows), view(places))) return std::nullopt;
  return out;
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/indexing.inc"
