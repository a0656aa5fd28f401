#include "ops/shape.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>

#include "ops/complex_parts.h"
#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

// ---- Whole tensors

// Legacy rule: cat skips 1-dim tensors without elements.
bool skipped(const Tensor& tensor) { return tensor.dim() == 1 && tensor.size(0) == 0; }

bool cat(const Overload& overload, const Tensor& out, const at::ITensorListRef& tensors, int64_t dim) {
  if (out.numel() == 0) return true;
  const int64_t axis = at::maybe_wrap_dim(dim, out.dim());
  c10::SmallVector<View, 16> parts;
  for (const Tensor& tensor : tensors) {
    if (!skipped(tensor)) parts.push_back(view(tensor));
  }
  return hp::ops::cat(overload, device_holding(out), view(out), parts.data(), static_cast<int64_t>(parts.size()), axis);
}

std::optional<Tensor> flip(const Overload& overload, const Tensor& self, at::IntArrayRef dims) {
  const auto chosen = at::dim_list_to_bitset(dims, self.dim());  // rejects repeated dimensions
  Tensor out = output_like(self);
  if (out.numel() == 0) return out;
  c10::SmallVector<int64_t, 8> axes;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (chosen[d]) axes.push_back(d);
  }
  if (!hp::ops::flip(overload, device_holding(self), view(out), view(self), axes.data(),
                     static_cast<int64_t>(axes.size())))
    return std::nullopt;
  return out;
}

std::optional<Tensor> roll(const Overload& overload, const Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  if (shifts.empty()) return std::nullopt;
  if (dims.empty()) {
    if (shifts.size() != 1) return std::nullopt;  // the CPU tier raises torch's error
    const Tensor flat = self.contiguous().view(-1);
    auto rolled = roll(overload, flat, shifts, {0});
    return rolled ? std::make_optional(rolled->view(self.sizes())) : std::nullopt;
  }
  if (shifts.size() != dims.size()) return std::nullopt;
  Tensor out = empty(self.sizes(), self.scalar_type(), self.device().index());
  if (out.numel() == 0) return out;
  c10::SmallVector<int64_t, 8> by(self.dim(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t d = at::maybe_wrap_dim(dims[i], self.dim()), size = self.size(d);
    by[d] = ((by[d] + shifts[i]) % size + size) % size;
  }
  if (!hp::ops::roll(overload, device_holding(self), view(out), view(self), by.data())) return std::nullopt;
  return out;
}

// ---- Triangles and windows

template <class Function>
bool triangle(Function function, const Overload& overload, const Tensor& out, const Tensor& self, int64_t diagonal) {
  if (out.numel() == 0) return true;
  if (self.dim() < 2) return false;
  const ContiguousOutput target(out);
  const Tensor source = self.contiguous();
  if (!function(overload, device_holding(self), view(target.tensor()), view(source), diagonal)) return false;
  target.finish();
  return true;
}
bool triu(const Overload& overload, const Tensor& out, const Tensor& self, int64_t diagonal) {
  return triangle(hp::ops::triu, overload, out, self, diagonal);
}
bool tril(const Overload& overload, const Tensor& out, const Tensor& self, int64_t diagonal) {
  return triangle(hp::ops::tril, overload, out, self, diagonal);
}

std::optional<Tensor> channel_shuffle(const Overload& overload, const Tensor& self, int64_t groups) {
  if (self.dim() <= 2 || groups <= 0 || self.size(1) % groups != 0) return std::nullopt;  // torch's own errors
  Tensor out = output_like(self);
  if (out.numel() == 0) return out;
  if (!hp::ops::channel_shuffle(overload, device_holding(self), view(out), view(self), groups)) return std::nullopt;
  return out;
}

std::optional<Tensor> unfold_backward(const Overload& overload, const Tensor& grad, at::IntArrayRef sizes, int64_t dim,
                                      int64_t size, int64_t step) {
  if (size < 0 || step <= 0) return std::nullopt;  // the CPU tier raises torch's error
  if (grad.is_complex()) {
    return map_complex_parts(
        grad, [&](const Tensor& part) { return unfold_backward(overload, part, sizes, dim, size, step); });
  }
  Tensor out = empty(sizes, grad.scalar_type(), grad.device().index());
  if (out.numel() == 0) return out;
  if (grad.numel() == 0) return out.zero_();
  const int64_t axis = at::maybe_wrap_dim(dim, out.dim());
  const Tensor dense_grad = grad.contiguous();
  if (!hp::ops::unfold_backward(overload, device_holding(grad), view(out), view(dense_grad), axis, size, step))
    return std::nullopt;
  return out;
}

// Parameters for height and width; nothing if torch rejects them.
std::optional<hp::ops::Im2colWindow> windows_of(at::IntArrayRef kernel, at::IntArrayRef dilation,
                                                at::IntArrayRef padding, at::IntArrayRef stride) {
  if (kernel.size() != 2 || dilation.size() != 2 || padding.size() != 2 || stride.size() != 2) return std::nullopt;
  hp::ops::Im2colWindow window;
  for (int a = 0; a < 2; ++a) {
    if (kernel[a] <= 0 || dilation[a] <= 0 || padding[a] < 0 || stride[a] <= 0) return std::nullopt;
    window.kernel[a] = kernel[a], window.dilation[a] = dilation[a];
    window.padding[a] = padding[a], window.stride[a] = stride[a];
  }
  return window;
}

// The number of windows over an image; nothing if none fits.
std::optional<int64_t> count_windows(const hp::ops::Im2colWindow& w, int64_t height, int64_t width) {
  const int64_t size[2] = {height, width};
  int64_t count = 1;
  for (int a = 0; a < 2; ++a) {
    const int64_t room = size[a] + 2 * w.padding[a] - w.dilation[a] * (w.kernel[a] - 1) - 1;
    if (room < 0) return std::nullopt;
    count *= room / w.stride[a] + 1;
  }
  return count;
}

// Whether one of the last dimensions is empty, which torch rejects; the batch may be.
bool without_room(const Tensor& tensor, int64_t dims) {
  for (int64_t d = 1; d <= dims; ++d) {
    if (tensor.size(-d) == 0) return true;
  }
  return false;
}

// Adds a batch dimension to unbatched tensors.
Tensor batched(const Tensor& tensor, int64_t dims) {
  return (tensor.dim() == dims ? tensor : tensor.unsqueeze(0)).contiguous();
}

std::optional<Tensor> im2col(const Overload& overload, const Tensor& self, at::IntArrayRef kernel,
                             at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride) {
  if (self.scalar_type() == at::kComplexDouble) {
    return map_complex_parts(
        self, [&](const Tensor& part) { return im2col(overload, part, kernel, dilation, padding, stride); });
  }
  const auto w = windows_of(kernel, dilation, padding, stride);
  if (!w || (self.dim() != 3 && self.dim() != 4) || without_room(self, 3)) return std::nullopt;
  const auto count = count_windows(*w, self.size(-2), self.size(-1));
  if (!count) return std::nullopt;
  const Tensor image = batched(self, 4);
  Tensor out =
      empty({image.size(0), image.size(1) * kernel[0] * kernel[1], *count}, self.scalar_type(), self.device().index());
  if (out.numel() == 0) return out;
  if (!hp::ops::im2col(overload, device_holding(self), view(out), view(image), *w)) return std::nullopt;
  return self.dim() == 3 ? out.squeeze(0) : out;
}

std::optional<Tensor> col2im(const Overload& overload, const Tensor& self, at::IntArrayRef output_size,
                             at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                             at::IntArrayRef stride) {
  if (self.is_complex()) {
    return map_complex_parts(self, [&](const Tensor& part) {
      return col2im(overload, part, output_size, kernel, dilation, padding, stride);
    });
  }
  const auto w = windows_of(kernel, dilation, padding, stride);
  if (!w || output_size.size() != 2 || (self.dim() != 2 && self.dim() != 3) || without_room(self, 2))
    return std::nullopt;
  const auto count = count_windows(*w, output_size[0], output_size[1]);
  if (!count || self.size(-1) != *count || self.size(-2) % (kernel[0] * kernel[1]) != 0) return std::nullopt;
  const Tensor columns = batched(self, 3);
  Tensor out = empty({columns.size(0), columns.size(1) / (kernel[0] * kernel[1]), output_size[0], output_size[1]},
                     self.scalar_type(), self.device().index());
  if (out.numel() == 0) return out;
  if (!hp::ops::col2im(overload, device_holding(self), view(out), view(columns), *w)) return std::nullopt;
  return self.dim() == 2 ? out.squeeze(0) : out;
}

bool im2col(const Overload& overload, const Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation,
            at::IntArrayRef padding, at::IntArrayRef stride, const Tensor& out) {
  return resize_and_copy(out, im2col(overload, self, kernel, dilation, padding, stride));
}
bool col2im(const Overload& overload, const Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel,
            at::IntArrayRef dilation, at::IntArrayRef padding, at::IntArrayRef stride, const Tensor& out) {
  return resize_and_copy(out, col2im(overload, self, output_size, kernel, dilation, padding, stride));
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/shape.inc"
