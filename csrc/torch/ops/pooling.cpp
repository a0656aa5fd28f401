#include "ops/pooling.h"

#include <ATen/native/FractionalMaxPooling.h>
#include <ATen/native/Pool.h>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using at::IntArrayRef;
using Pair = std::tuple<Tensor, Tensor>;

// A list with one entry applies to every dimension; an empty one means `otherwise`.
int64_t entry(IntArrayRef list, int a, IntArrayRef otherwise) {
  if (list.empty()) list = otherwise;
  return list.size() == 1 ? list[0] : list[a];
}

hp::ops::PoolingWindow windows_of(IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                                  int rank) {
  hp::ops::PoolingWindow result;
  for (int a = 0; a < rank; ++a) {
    result.kernel[a] = entry(kernel, a, {1});
    result.stride[a] = entry(stride, a, kernel);
    result.padding[a] = entry(padding, a, {0});
    result.dilation[a] = entry(dilation, a, {1});
  }
  return result;
}

Tensor empty_like(const Tensor& like, IntArrayRef sizes, at::ScalarType dtype) {
  return empty(sizes, dtype, like.device().index());
}

// ---- Max pooling

bool max_pool(const Overload& overload, const Tensor& out, const Tensor& indices, const Tensor& self,
              IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int rank) {
  return with_contiguous(out, indices, self, [&](const View& values, const View& positions, const View& source) {
    return hp::ops::max_pool(overload, device_holding(self), values, positions, source,
                             windows_of(kernel, stride, padding, dilation, rank), rank);
  });
}

bool max_pool2d(const Overload& overload, const Tensor& out, const Tensor& indices, const Tensor& self,
                IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool /*ceil_mode*/) {
  return max_pool(overload, out, indices, self, kernel, stride, padding, dilation, 2);
}

std::optional<Pair> max_pool3d(const Overload& overload, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                               IntArrayRef padding, IntArrayRef dilation, bool ceil_mode) {
  for (IntArrayRef list : {kernel, stride, padding, dilation}) {
    if (list.size() != 1 && list.size() != 3 && !(list.empty() && list.data() == stride.data())) return std::nullopt;
  }
  if (self.dim() != 4 && self.dim() != 5) return std::nullopt;
  const auto w = windows_of(kernel, stride, padding, dilation, 3);
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end());
  for (int a = 0; a < 3; ++a) {
    // Windows that torch rejects.
    if (w.kernel[a] <= 0 || w.stride[a] <= 0 || w.dilation[a] <= 0 || w.padding[a] < 0) return std::nullopt;
    if (w.padding[a] > w.kernel[a] / 2 || sizes[self.dim() - 3 + a] == 0) return std::nullopt;
    int64_t& size = sizes[self.dim() - 3 + a];
    size = at::native::pooling_output_shape<int64_t>(size, w.kernel[a], w.padding[a], w.stride[a], w.dilation[a],
                                                     ceil_mode);
    if (size < 1) return std::nullopt;
  }
  if (self.size(self.dim() - 4) == 0) return std::nullopt;
  Tensor out = empty_like(self, sizes, self.scalar_type()), indices = empty_like(self, sizes, at::kLong);
  // Of all pooling operators, only this one keeps channels_last_3d without a batch dimension.
  const auto format = at::MemoryFormat::ChannelsLast3d;
  const bool channels_last = self.dim() == 5 ? self.suggest_memory_format() == format
                                             : !self.is_contiguous() && self.unsqueeze(0).is_contiguous(format);
  if (channels_last) {
    for (const Tensor& each : {out, indices}) {
      each.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, c10::get_channels_last_strides_3d(sizes));
    }
  }
  if (!max_pool(overload, out, indices, self, kernel, stride, padding, dilation, 3)) return std::nullopt;
  return Pair(std::move(out), std::move(indices));
}
bool max_pool3d(const Overload& overload, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, const Tensor& out, const Tensor& indices) {
  if (indices.scalar_type() != at::kLong || out.scalar_type() != self.scalar_type()) return false;
  const auto result = max_pool3d(overload, self, kernel, stride, padding, dilation, ceil_mode);
  return result && resize_and_copy(out, std::get<0>(*result)) && resize_and_copy(indices, std::get<1>(*result));
}

bool adaptive_max(const Overload& overload, const Tensor& out, const Tensor& indices, const Tensor& self, int rank) {
  return with_contiguous(out, indices, self, [&](const View& values, const View& positions, const View& source) {
    return hp::ops::adaptive_max_pool(overload, device_holding(self), values, positions, source, rank);
  });
}
bool adaptive_max_pool2d(const Overload& overload, const Tensor& out, const Tensor& indices, const Tensor& self,
                         IntArrayRef /*output_size*/) {
  return adaptive_max(overload, out, indices, self, 2);
}
bool adaptive_max_pool3d(const Overload& overload, const Tensor& out, const Tensor& indices, const Tensor& self,
                         IntArrayRef /*output_size*/) {
  return adaptive_max(overload, out, indices, self, 3);
}

bool fractional(const Overload& overload, const Tensor& out, const Tensor& indices, const Tensor& self,
                IntArrayRef kernel, const Tensor& samples, int rank) {
  const Tensor random = samples.contiguous();
  return with_contiguous(out, indices, self, [&](const View& values, const View& positions, const View& source) {
    return hp::ops::fractional_max_pool(overload, device_holding(self), values, positions, source, view(random),
                                        kernel.data(), rank);
  });
}
bool fractional_max_pool2d(const Overload& overload, const Tensor& out, const Tensor& indices, const Tensor& self,
                           IntArrayRef kernel, IntArrayRef /*output_size*/, const Tensor& samples) {
  at::native::fractional_max_pool_check_shape<2>(self, samples);
  return fractional(overload, out, indices, self, kernel, samples, 2);
}
bool fractional_max_pool3d(const Overload& overload, const Tensor& out, const Tensor& indices, const Tensor& self,
                           IntArrayRef kernel, IntArrayRef /*output_size*/, const Tensor& samples) {
  at::native::fractional_max_pool_check_shape<3>(self, samples);
  return fractional(overload, out, indices, self, kernel, samples, 3);
}

// ---- Gradients of max pooling

bool max_backward(const Overload& overload, const Tensor& grad_input, const Tensor& grad, const Tensor& indices,
                  int rank, const hp::ops::PoolingWindow* windows = nullptr) {
  if (grad_input.numel() == 0) return true;
  if (grad.sizes() != indices.sizes() || indices.scalar_type() != at::kLong) return false;
  const ContiguousOutput target(grad_input);
  const Tensor dense_grad = grad.contiguous(), positions = indices.contiguous();
  if (!hp::ops::max_pool_backward(overload, device_holding(grad), view(target.tensor()), view(dense_grad),
                                  view(positions), rank, windows))
    return false;
  target.finish();
  return true;
}

OptionalTensor max_backward3d(const Overload& overload, const Tensor& grad, const Tensor& self, const Tensor& indices,
                              const hp::ops::PoolingWindow* windows = nullptr) {
  if (grad.dim() != self.dim() || grad.scalar_type() != self.scalar_type()) return std::nullopt;
  Tensor result = empty_like(self, self.sizes(), self.scalar_type());
  if (self.dim() == 5) result.unsafeGetTensorImpl()->empty_tensor_restride(self.suggest_memory_format());
  if (!max_backward(overload, result, grad, indices, 3, windows)) return std::nullopt;
  return result;
}

bool max_pool2d_backward(const Overload& overload, const Tensor& grad_input, const Tensor& grad, const Tensor&,
                         IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool,
                         const Tensor& indices) {
  const auto windows = windows_of(kernel, stride, padding, dilation, 2);
  return max_backward(overload, grad_input, grad, indices, 2, &windows);
}
bool max_pool2d_backward(const Overload& overload, const Tensor& grad_input, const Tensor& grad, const Tensor&,
                         const Tensor& indices) {
  return max_backward(overload, grad_input, grad, indices, 2);
}
bool max_pool2d_backward(const Overload& overload, const Tensor& grad_input, const Tensor& grad, const Tensor&,
                         IntArrayRef, IntArrayRef, const Tensor& indices) {
  return max_backward(overload, grad_input, grad, indices, 2);
}
bool max_pool3d_backward(const Overload& overload, const Tensor& grad_input, const Tensor& grad, const Tensor&,
                         const Tensor& indices) {
  return max_backward(overload, grad_input, grad, indices, 3);
}
OptionalTensor max_pool3d_backward(const Overload& overload, const Tensor& grad, const Tensor& self, IntArrayRef kernel,
                                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool,
                                   const Tensor& indices) {
  const auto windows = windows_of(kernel, stride, padding, dilation, 3);
  return max_backward3d(overload, grad, self, indices, &windows);
}
bool max_pool3d_backward(const Overload& overload, const Tensor& grad, const Tensor& self, IntArrayRef kernel,
                         IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode,
                         const Tensor& indices, const Tensor& grad_input) {
  return resize_and_copy(
      grad_input, max_pool3d_backward(overload, grad, self, kernel, stride, padding, dilation, ceil_mode, indices));
}
OptionalTensor max_pool3d_backward(const Overload& overload, const Tensor& grad, const Tensor& self, IntArrayRef,
                                   IntArrayRef, const Tensor& indices) {
  return max_backward3d(overload, grad, self, indices);
}
bool max_pool3d_backward(const Overload& overload, const Tensor& grad, const Tensor& self, IntArrayRef, IntArrayRef,
                         const Tensor& indices, const Tensor& grad_input) {
  return resize_and_copy(grad_input, max_backward3d(overload, grad, self, indices));
}

// ---- Unpooling

OptionalTensor unpool(const Overload& overload, const Tensor& self, const Tensor& indices, IntArrayRef output_size,
                      int rank) {
  if (indices.scalar_type() != at::kLong || static_cast<int>(output_size.size()) != rank) return std::nullopt;
  if ((self.dim() != rank + 1 && self.dim() != rank + 2) || self.sizes() != indices.sizes()) return std::nullopt;
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end() - rank);
  sizes.insert(sizes.end(), output_size.begin(), output_size.end());
  for (int64_t d = self.dim() == rank + 2 ? 1 : 0; d < self.dim(); ++d) {
    if (self.size(d) == 0 || sizes[d] < 0) return std::nullopt;
  }
  // If several values have the same position, any of them may be written last.
  at::globalContext().alertNotDeterministic(rank == 2 ? "max_unpooling2d_forward_out" : "max_unpooling3d_forward_out");
  Tensor out = empty_like(self, sizes, self.scalar_type());
  if (out.numel() == 0) return out;
  const Tensor values = self.contiguous(), positions = indices.contiguous();
  if (!hp::ops::max_unpool(overload, device_holding(self), view(out), view(values), view(positions), rank))
    return std::nullopt;
  return out;
}
OptionalTensor max_unpool2d(const Overload& overload, const Tensor& self, const Tensor& indices,
                            IntArrayRef output_size) {
  return unpool(overload, self, indices, output_size, 2);
}
bool max_unpool2d(const Overload& overload, const Tensor& self, const Tensor& indices, IntArrayRef output_size,
                  const Tensor& out) {
  return resize_and_copy(out, unpool(overload, self, indices, output_size, 2));
}
OptionalTensor max_unpool3d(const Overload& overload, const Tensor& self, const Tensor& indices,
                            IntArrayRef output_size, IntArrayRef stride, IntArrayRef padding) {
  if (stride.size() != 3 || padding.size() != 3) return std::nullopt;
  for (int64_t step : stride) {
    if (step <= 0) return std::nullopt;
  }
  return unpool(overload, self, indices, output_size, 3);
}
bool max_unpool3d(const Overload& overload, const Tensor& self, const Tensor& indices, IntArrayRef output_size,
                  IntArrayRef stride, IntArrayRef padding, const Tensor& out) {
  return resize_and_copy(out, max_unpool3d(overload, self, indices, output_size, stride, padding));
}

// ---- Average pooling

template <class Function>
bool average(Function function, const Overload& overload, const Tensor& out, const Tensor& self, IntArrayRef kernel,
             IntArrayRef stride, IntArrayRef padding, bool include_pad, std::optional<int64_t> divisor, int rank) {
  if (divisor && *divisor == 0) return false;  // the CPU tier raises torch's error
  return with_contiguous(out, self, [&](const View& to, const View& from) {
    return function(overload, device_holding(self), to, from, windows_of(kernel, stride, padding, {1}, rank),
                    include_pad, divisor.value_or(0), rank);
  });
}

#define HP_AVERAGE(RANK)                                                                                               \
  bool avg_pool##RANK##d(const Overload& overload, const Tensor& out, const Tensor& self, IntArrayRef kernel,          \
                         IntArrayRef stride, IntArrayRef padding, bool /*ceil_mode*/, bool include_pad,                \
                         std::optional<int64_t> divisor) {                                                             \
    return average(hp::ops::avg_pool, overload, out, self, kernel, stride, padding, include_pad, divisor, RANK);       \
  }                                                                                                                    \
  bool avg_pool##RANK##d_backward(const Overload& overload, const Tensor& grad_input, const Tensor& grad,              \
                                  const Tensor& /*self*/, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, \
                                  bool /*ceil_mode*/, bool include_pad, std::optional<int64_t> divisor) {              \
    return average(hp::ops::avg_pool_backward, overload, grad_input, grad, kernel, stride, padding, include_pad,       \
                   divisor, RANK);                                                                                     \
  }
HP_AVERAGE(2)
HP_AVERAGE(3)
#undef HP_AVERAGE

OptionalTensor adaptive_average(const Overload& overload, const Tensor& self, IntArrayRef output_size, int rank) {
  if (static_cast<int>(output_size.size()) != rank) return std::nullopt;
  if (self.dim() != rank + 1 && self.dim() != rank + 2) return std::nullopt;
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().end() - rank);
  for (int a = 0; a < rank; ++a) {
    if (output_size[a] < 0 || self.size(self.dim() - rank + a) == 0) return std::nullopt;
    sizes.push_back(output_size[a]);
  }
  Tensor out = empty_like(self, sizes, self.scalar_type());
  if (self.dim() == 4 && rank == 2) out.unsafeGetTensorImpl()->empty_tensor_restride(self.suggest_memory_format());
  const bool done = with_contiguous(out, self, [&](const View& to, const View& from) {
    return hp::ops::adaptive_avg_pool(overload, device_holding(self), to, from, rank);
  });
  return done ? OptionalTensor(out) : std::nullopt;
}

OptionalTensor adaptive_average_backward(const Overload& overload, const Tensor& grad, const Tensor& self, int rank) {
  if (grad.dim() != self.dim() || grad.dim() <= rank || grad.scalar_type() != self.scalar_type()) return std::nullopt;
  // An empty batch is fine; torch rejects other empty dimensions.
  for (int64_t d = 1; d < grad.dim(); ++d) {
    if (grad.size(d) == 0) return std::nullopt;
  }
  if (grad.size(0) != self.size(0)) return std::nullopt;
  Tensor out = empty_like(self, self.sizes(), self.scalar_type());
  if (self.dim() == 4 && rank == 2) out.unsafeGetTensorImpl()->empty_tensor_restride(self.suggest_memory_format());
  const bool done = with_contiguous(out, grad, [&](const View& to, const View& from) {
    return hp::ops::adaptive_avg_pool_backward(overload, device_holding(self), to, from, rank);
  });
  return done ? OptionalTensor(out) : std::nullopt;
}

#define HP_ADAPTIVE(RANK)                                                                                              \
  OptionalTensor adaptive_avg_pool##RANK##d(const Overload& overload, const Tensor& self, IntArrayRef size) {          \
    return adaptive_average(overload, self, size, RANK);                                                               \
  }                                                                                                                    \
  bool adaptive_avg_pool##RANK##d(const Overload& overload, const Tensor& self, IntArrayRef size, const Tensor& out) { \
    return resize_and_copy(out, adaptive_average(overload, self, size, RANK));                                         \
  }                                                                                                                    \
  OptionalTensor adaptive_avg_pool##RANK##d_backward(const Overload& overload, const Tensor& grad,                     \
                                                     const Tensor& self) {                                             \
    return adaptive_average_backward(overload, grad, self, RANK);                                                      \
  }
HP_ADAPTIVE(2)
HP_ADAPTIVE(3)
#undef HP_ADAPTIVE
bool adaptive_avg_pool3d_backward(const Overload& overload, const Tensor& grad, const Tensor& self,
                                  const Tensor& grad_input) {
  return resize_and_copy(grad_input, adaptive_average_backward(overload, grad, self, 3));
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/pooling.inc"
