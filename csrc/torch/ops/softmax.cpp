#include "ops/softmax.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/where.h>

#include <limits>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

bool forward(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, bool logarithm) {
  if (out.numel() == 0) return true;
  const Tensor source = self.contiguous();
  const ContiguousOutput target(out);
  if (!hp::ops::softmax(overload, device_holding(self), view(target.tensor()), view(source),
                        at::maybe_wrap_dim(dim, self.dim()), logarithm)) {
    return false;
  }
  target.finish();
  return true;
}

bool backward(const Overload& overload, const Tensor& out, const Tensor& grad, const Tensor& output, int64_t dim,
              bool logarithm) {
  if (out.numel() == 0) return true;
  const Tensor dense_grad = grad.contiguous(), dense_output = output.contiguous();
  const ContiguousOutput target(out);
  if (!hp::ops::softmax_backward(overload, device_holding(grad), view(target.tensor()), view(dense_grad),
                                 view(dense_output), at::maybe_wrap_dim(dim, grad.dim()), logarithm)) {
    return false;
  }
  target.finish();
  return true;
}

bool softmax(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, bool /*half_to_float*/) {
  return forward(overload, out, self, dim, false);
}
bool log_softmax(const Overload& overload, const Tensor& out, const Tensor& self, int64_t dim, bool /*half_to_float*/) {
  return forward(overload, out, self, dim, true);
}
bool softmax_backward(const Overload& overload, const Tensor& out, const Tensor& grad, const Tensor& output,
                      int64_t dim, at::ScalarType /*input_dtype*/) {
  return backward(overload, out, grad, output, dim, false);
}
bool log_softmax_backward(const Overload& overload, const Tensor& out, const Tensor& grad, const Tensor& output,
                          int64_t dim, at::ScalarType /*input_dtype*/) {
  return backward(overload, out, grad, output, dim, true);
}

std::optional<Tensor> logsumexp(const Overload& overload, const Tensor& self, at::IntArrayRef dim, bool keepdim) {
  if (self.is_complex()) return std::nullopt;
  const at::ScalarType dtype = at::isFloatingType(self.scalar_type()) ? self.scalar_type() : at::kFloat;
  const auto reduced = at::dim_list_to_bitset(at::OptionalIntArrayRef(dim), self.dim());
  std::vector<int64_t> order, sizes, row_shape;
  int64_t n = 1;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (reduced[d]) {
      n *= self.size(d);
      if (keepdim) sizes.push_back(1);
    } else {
      order.push_back(d);
      row_shape.push_back(self.size(d));
      sizes.push_back(self.size(d));
    }
  }
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (reduced[d]) order.push_back(d);
  }
  if (n == 0) return std::nullopt;
  Tensor out = empty(sizes, dtype, self.device().index());
  if (out.numel() == 0) return out;
  row_shape.push_back(n);
  const Tensor rows = self.to(dtype).permute(order).reshape(row_shape).contiguous();
  const Tensor flat = out.view(at::IntArrayRef(row_shape).slice(0, row_shape.size() - 1));
  if (!hp::ops::logsumexp(overload, device_holding(self), view(flat), view(rows))) return std::nullopt;
  return out;
}

bool logsumexp(const Overload& overload, const Tensor& self, at::IntArrayRef dim, bool keepdim, Tensor& out) {
  if (!at::isFloatingType(out.scalar_type())) return false;
  const std::optional<Tensor> result = logsumexp(overload, self, dim, keepdim);
  if (!result) return false;
  write_output(out, *result);
  return true;
}

// A mask that broadcasts over `self`. mask_type: 0 for two sequences, 1 for the padding of each batch, 2 for self's
// shape.
std::optional<Tensor> broad_mask(const Tensor& self, const Tensor& mask, std::optional<int64_t> mask_type) {
  if (mask.scalar_type() != at::kBool) return std::nullopt;
  if (mask.sizes() == self.sizes()) return mask;
  if (!mask_type || self.dim() != 4 || mask.dim() != 2) return std::nullopt;
  if (*mask_type == 0 && mask.size(0) == self.size(2) && mask.size(1) == self.size(3)) return mask;
  if (*mask_type == 1 && mask.size(0) == self.size(0) && mask.size(1) == self.size(3)) {
    return mask.view({mask.size(0), 1, 1, mask.size(1)});
  }
  return std::nullopt;
}

std::optional<Tensor> masked_softmax(const Overload& overload, const Tensor& self, const Tensor& mask,
                                     std::optional<int64_t> dim, std::optional<int64_t> mask_type) {
  const std::optional<Tensor> broad = broad_mask(self, mask, mask_type);
  if (!broad || !at::isFloatingType(self.scalar_type())) return std::nullopt;
  Tensor out = at::_softmax(at::where(*broad, -std::numeric_limits<double>::infinity(), self), dim.value_or(-1), false);
  overload.op.count(Tier::kDecomposition);
  return out;
}

std::optional<Tensor> masked_softmax_backward(const Overload& overload, const Tensor& grad, const Tensor& output,
                                              const Tensor& mask, std::optional<int64_t> dim) {
  if (mask.sizes() != grad.sizes() || mask.scalar_type() != at::kBool) return std::nullopt;
  const Tensor inside =
      at::_softmax_backward_data(at::where(mask, 0, grad), output, dim.value_or(-1), output.scalar_type());
  Tensor out = at::where(mask, 0, inside);
  overload.op.count(Tier::kDecomposition);
  return out;
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/softmax.inc"
