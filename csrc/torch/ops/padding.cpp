#include "ops/padding.h"

#include <algorithm>

#include "ops/complex_parts.h"
#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using PadFunction = bool (*)(const OpBinding&, Device&, const View&, const View&, const int64_t*, int64_t);

// Sizes are final.
bool run(PadFunction function, const Overload& overload, const Tensor& out, const Tensor& self,
         at::IntArrayRef padding) {
  if (out.numel() == 0) return true;
  const Tensor source = self.contiguous();
  const ContiguousOutput target(out);
  if (!function(overload, device_holding(self), view(target.tensor()), view(source), padding.data(),
                static_cast<int64_t>(padding.size())))
    return false;
  target.finish();
  return true;
}

// For overloads without a structured shape rule: the padded sizes, or nothing if torch rejects them.
std::optional<std::vector<int64_t>> padded(const Tensor& self, at::IntArrayRef padding, bool reflects) {
  const auto rank = static_cast<int64_t>(padding.size() / 2);
  if (padding.size() % 2 != 0 || rank == 0 || (self.dim() != rank + 1 && self.dim() != rank + 2)) return std::nullopt;
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end());
  // As in torch, the batch may be empty, but not the channels or the image.
  const bool batched = self.dim() == rank + 2;
  if (std::find(sizes.begin() + (batched ? 1 : 0), sizes.end(), 0) != sizes.end()) return std::nullopt;
  for (int64_t a = 0; a < rank; ++a) {
    int64_t& size = sizes[self.dim() - 1 - a];
    const int64_t before = padding[2 * a], after = padding[2 * a + 1];
    if (reflects && (before >= size || after >= size)) return std::nullopt;
    size += before + after;
    if (size < 1) return std::nullopt;
  }
  return sizes;
}

OptionalTensor pad(PadFunction function, const Overload& overload, const Tensor& self, at::IntArrayRef padding,
                   bool reflects) {
  const auto sizes = padded(self, padding, reflects);
  if (!sizes) return std::nullopt;
  Tensor out = empty(*sizes, self.scalar_type(), self.device().index());
  if (!run(function, overload, out, self, padding)) return std::nullopt;
  return out;
}

bool run_backward(PadFunction function, const Overload& overload, const Tensor& out, const Tensor& grad,
                  at::IntArrayRef padding) {
  if (!grad.is_complex()) return run(function, overload, out, grad, padding);
  return run(function, overload, at::real(out), at::real(grad), padding) &&
         run(function, overload, at::imag(out), at::imag(grad), padding);
}

OptionalTensor pad_backward(PadFunction function, const Overload& overload, const Tensor& grad, const Tensor& self,
                            at::IntArrayRef padding, bool reflects) {
  const auto sizes = padded(self, padding, reflects);
  if (!sizes || grad.sizes() != *sizes) return std::nullopt;
  Tensor out = empty(self.sizes(), grad.scalar_type(), self.device().index());
  if (!run_backward(function, overload, out, grad, padding)) return std::nullopt;
  return out;
}

// ---- Structured, functional, and unstructured out= overloads

bool reflection_pad(const Overload& overload, const Tensor& first, const Tensor& second, at::IntArrayRef padding) {
  return run(hp::ops::reflection_pad, overload, first, second, padding);
}
OptionalTensor reflection_pad(const Overload& overload, const Tensor& self, at::IntArrayRef padding) {
  return pad(hp::ops::reflection_pad, overload, self, padding, true);
}
bool reflection_pad(const Overload& overload, const Tensor& self, at::IntArrayRef padding, const Tensor& out) {
  return resize_and_copy(out, reflection_pad(overload, self, padding));
}

bool replication_pad(const Overload& overload, const Tensor& out, const Tensor& self, at::IntArrayRef padding) {
  return run(hp::ops::replication_pad, overload, out, self, padding);
}

bool reflection_pad_backward(const Overload& overload, const Tensor& grad_input, const Tensor& grad,
                             const Tensor& /*self*/, at::IntArrayRef padding) {
  return run_backward(hp::ops::reflection_pad_backward, overload, grad_input, grad, padding);
}
OptionalTensor reflection_pad_backward(const Overload& overload, const Tensor& grad, const Tensor& self,
                                       at::IntArrayRef padding) {
  return pad_backward(hp::ops::reflection_pad_backward, overload, grad, self, padding, true);
}
bool reflection_pad_backward(const Overload& overload, const Tensor& grad, const Tensor& self, at::IntArrayRef padding,
                             const Tensor& grad_input) {
  return resize_and_copy(grad_input, reflection_pad_backward(overload, grad, self, padding));
}

bool replication_pad_backward(const Overload& overload, const Tensor& grad_input, const Tensor& grad,
                              const Tensor& /*self*/, at::IntArrayRef padding) {
  return run_backward(hp::ops::replication_pad_backward, overload, grad_input, grad, padding);
}
OptionalTensor replication_pad_backward(const Overload& overload, const Tensor& grad, const Tensor& self,
                                        at::IntArrayRef padding) {
  return pad_backward(hp::ops::replication_pad_backward, overload, grad, self, padding, false);
}
bool replication_pad_backward(const Overload& overload, const Tensor& grad, const Tensor& self, at::IntArrayRef padding,
                              const Tensor& grad_input) {
  return resize_and_copy(grad_input, replication_pad_backward(overload, grad, self, padding));
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/padding.inc"
