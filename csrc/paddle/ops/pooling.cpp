#include "ops/pooling.h"

#include "ops/window_attributes.h"

namespace hp::paddle_adapter::ops {
namespace {

// A standard operator with separate names for two and three spatial dimensions.
class RankedOp {
 public:
  RankedOp(const char* two, const char* three) : two_(two), three_(three) {}
  const OpBinding& on(Device& device, int rank) { return (rank == 2 ? two_ : three_).on(device); }

 private:
  StandardOp two_, three_;
};

// `adaptive`: the windows divide the image evenly among the outputs (also global pooling); no other attribute applies.
struct Pooling {
  hp::ops::PoolingWindow windows{};
  int rank;
  bool is_max = true, adaptive, exclusive = true;

  bool set(const std::vector<int64_t>& kernel, const std::vector<int64_t>& strides,
           const std::vector<int64_t>& paddings, const std::string& algorithm, const View& x, const View& out) {
    rank = x.ndim - 2;
    if ((rank != 2 && rank != 3) || x.numel() == 0 || x.numel() / x.sizes[0] == 0) return false;
    if (adaptive) return true;
    SpatialSizes sizes, steps;
    Padding padding;
    if (!read_sizes(kernel, rank, sizes) || !read_sizes(strides, rank, steps) ||
        !padding.read(paddings, algorithm, rank, x.sizes + 2, steps, sizes)) {
      return false;
    }
    for (int d = 0; d < rank; ++d) {
      windows.kernel[d] = sizes[d];
      windows.stride[d] = steps[d];
      windows.padding[d] = padding.before[d];
      windows.dilation[d] = 1;
      // Not supported: windows entirely in the padding.
      if (padding.before[d] < 0 || padding.before[d] >= sizes[d]) return false;
      if ((out.sizes[2 + d] - 1) * steps[d] - padding.before[d] >= x.sizes[2 + d]) return false;
    }
    return true;
  }
};

// An image as the kernels take it, contiguous and N x C x spatial: a copy if its channels are last. Call `read` before
// a kernel reads it, `write` after a kernel wrote it.
class DenseImage {
 public:
  DenseImage(Device& device, const View& image, bool last) : device_(device), image_(channels_second(image, last)) {
    if (last) dense_.emplace(device, image.dtype, image.ndim, image_.view().sizes);
  }
  operator const View&() const { return dense_ ? dense_->view() : image_.view(); }
  bool read() { return !dense_ || copy(copy_op.on(device_), device_, *dense_, image_); }
  bool write() { return !dense_ || copy(copy_op.on(device_), device_, image_, *dense_); }

 private:
  Device& device_;
  const ShapedView image_;
  std::optional<Temporary> dense_;
};

bool supports_pooling(const Call& call) { return call.inputs_ready() && is_float(to_core(call.kernel.dtype)); }

// Attributes: kernel_size, strides, paddings, ceil_mode, exclusive, data_format, pooling_type, global_pooling,
// adaptive, padding_algorithm.
bool read_pooling(const Call& call, const View& x, const View& out, Pooling& pooling) {
  if (!supports_pooling(call)) return false;
  pooling.exclusive = call.attr<bool>(4);
  pooling.is_max = call.attr<std::string>(6) == "max";
  pooling.adaptive = call.attr<bool>(7) || call.attr<bool>(8);
  return pooling.set(call.integers(0), call.integers(1), call.integers(2), call.attr<std::string>(9), x, out);
}

bool run_max(Device& device, const Pooling& pooling, const View& out, const View& indices, const View& x) {
  static RankedOp strided("max_pool2d", "max_pool3d"), adaptive("adaptive_max_pool2d", "adaptive_max_pool3d");
  const int rank = pooling.rank;
  if (pooling.adaptive) return hp::ops::adaptive_max_pool(adaptive.on(device, rank), device, out, indices, x, rank);
  return hp::ops::max_pool(strided.on(device, rank), device, out, indices, x, pooling.windows, rank);
}

bool run_max_backward(Device& device, int rank, const View& grad_x, const View& grad, const View& indices,
                      const hp::ops::PoolingWindow* windows = nullptr) {
  static RankedOp step("max_pool2d_backward", "max_pool3d_backward");
  return hp::ops::max_pool_backward(step.on(device, rank), device, grad_x, grad, indices, rank, windows);
}

bool forward(Call& call) {
  static RankedOp strided("avg_pool2d", "avg_pool3d"), adaptive("adaptive_avg_pool2d", "adaptive_avg_pool3d");
  const View result = call.allocate(0);
  if (result.numel() == 0) return true;
  if (!supports_pooling(call)) return false;
  const bool last = channels_last(call.attr<std::string>(5));
  DenseImage images(call.device, call.view_of(0), last), results(call.device, result, last);
  const View &x = images, &out = results;
  Pooling pooling;
  if (!read_pooling(call, x, out, pooling) || !images.read()) return false;
  const int rank = pooling.rank;
  bool done;
  if (pooling.is_max) {
    const Temporary indices(call.device, DType::kI64, out.ndim, out.sizes);
    done = run_max(call.device, pooling, out, indices, x);
  } else if (pooling.adaptive) {
    done = hp::ops::adaptive_avg_pool(adaptive.on(call.device, rank), call.device, out, x, rank);
  } else {
    done = hp::ops::avg_pool(strided.on(call.device, rank), call.device, out, x, pooling.windows, !pooling.exclusive, 0,
                             rank);
  }
  return done && results.write() && count_decomposed(call);
}

// Inputs: x, out, out_grad. The forward pass does not save the indices of the maxima: max pooling runs again.
bool backward(Call& call) {
  static RankedOp strided("avg_pool2d_backward", "avg_pool3d_backward"),
      adaptive("adaptive_avg_pool2d_backward", "adaptive_avg_pool3d_backward");
  if (!supports_pooling(call) || call.input(2)->numel() == 0) return false;
  const bool last = channels_last(call.attr<std::string>(5));
  DenseImage images(call.device, call.view_of(0), last), grads(call.device, call.view_of(2), last);
  const View &x = images, &grad = grads;
  Pooling pooling;
  if (!read_pooling(call, x, grad, pooling) || !images.read() || !grads.read()) return false;
  const int rank = pooling.rank;
  DenseImage results(call.device, call.allocate(0), last);
  const View& grad_x = results;
  bool done;
  if (pooling.is_max) {
    const Temporary indices(call.device, DType::kI64, grad.ndim, grad.sizes),
        values(call.device, grad.dtype, grad.ndim, grad.sizes);
    done = run_max(call.device, pooling, values, indices, x) &&
           run_max_backward(call.device, rank, grad_x, grad, indices, pooling.adaptive ? nullptr : &pooling.windows);
  } else if (pooling.adaptive) {
    done = hp::ops::adaptive_avg_pool_backward(adaptive.on(call.device, rank), call.device, grad_x, grad, rank);
  } else {
    done = hp::ops::avg_pool_backward(strided.on(call.device, rank), call.device, grad_x, grad, pooling.windows,
                                      !pooling.exclusive, 0, rank);
  }
  return done && results.write() && count_decomposed(call);
}

bool pool2d(Call& call) { return forward(call); }
bool pool3d(Call& call) { return forward(call); }
bool pool2d_grad(Call& call) { return backward(call); }
bool pool3d_grad(Call& call) { return backward(call); }

// Attributes: kernel_size, strides, paddings, global_pooling, adaptive, ceil_mode. Outputs: out, mask (32-bit indices).
bool with_index(Call& call) {
  const View x = call.view_of(0), out = call.allocate(0), mask = call.allocate(1);
  if (out.numel() == 0) return true;
  Pooling pooling;
  pooling.adaptive = call.attr<bool>(3) || call.attr<bool>(4);
  if (!supports_pooling(call) ||
      !pooling.set(call.integers(0), call.integers(1), call.integers(2), "EXPLICIT", x, out)) {
    return false;
  }
  Converted indices(call.device, mask, DType::kI64);
  return run_max(call.device, pooling, out, indices, x) && indices.write() && count_decomposed(call);
}

// Inputs: x, mask, out_grad.
bool with_index_grad(Call& call) {
  const View x = call.view_of(0), grad = call.view_of(2);
  if (!supports_pooling(call) || grad.numel() == 0 || (x.ndim != 4 && x.ndim != 5)) return false;
  Converted indices(call.device, call.view_of(1), DType::kI64);
  const View grad_x = call.allocate(0);
  return indices.read() && run_max_backward(call.device, x.ndim - 2, grad_x, grad, indices) && count_decomposed(call);
}

bool max_pool2d_with_index(Call& call) { return with_index(call); }
bool max_pool3d_with_index(Call& call) { return with_index(call); }
bool max_pool2d_with_index_grad(Call& call) { return with_index_grad(call); }
bool max_pool3d_with_index_grad(Call& call) { return with_index_grad(call); }

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/pooling.inc"
