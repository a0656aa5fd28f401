#include "../../ops/pooling.h"

#include "../spatial.h"

namespace hp::paddle_adapter::ops {
namespace {

Step copying("copy");

// The standard operators have one name for two dimensions and one for three.
class RankedStep {
 public:
  RankedStep(const char* two, const char* three) : two_(two), three_(three) {}
  const Service& on(Device& device, int rank) { return (rank == 2 ? two_ : three_).on(device); }

 private:
  Step two_, three_;
};

// What is pooled, and how. `whole`: windows share the image out between them, so that these have no other attributes.
struct Pooling {
  hp::ops::PoolWindows windows{};
  int rank;
  bool largest = true, whole, exclusive = true;

  bool set(const std::vector<int64_t>& kernel, const std::vector<int64_t>& strides,
           const std::vector<int64_t>& paddings, const std::string& algorithm, const View& x, const View& out) {
    rank = x.ndim - 2;
    if ((rank != 2 && rank != 3) || x.numel() == 0 || x.numel() / x.sizes[0] == 0) return false;
    if (whole) return true;
    Sizes sizes, steps;
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
      // Windows with nothing of the image in them.
      if (padding.before[d] < 0 || padding.before[d] >= sizes[d]) return false;
      if ((out.sizes[2 + d] - 1) * steps[d] - padding.before[d] >= x.sizes[2 + d]) return false;
    }
    return true;
  }
};

// An image as the kernels take it: contiguous, N x C x ...; a copy of one whose channels come last.
class Planes {
 public:
  Planes(Device& device, const View& given, bool last) : device_(device), given_(channels_second(given, last)) {
    if (last) dense_.emplace(device, given.dtype, given.ndim, given_.view().sizes);
  }
  operator const View&() const { return dense_ ? dense_->view() : given_.view(); }
  bool read() { return !dense_ || copy(copying.on(device_), device_, *dense_, given_); }
  bool write() { return !dense_ || copy(copying.on(device_), device_, given_, *dense_); }

 private:
  Device& device_;
  const Shaped given_;
  std::optional<Temporary> dense_;
};

bool takes(const Call& call) { return call.plain() && is_float(to_core(call.kernel.dtype)); }

// Attributes: kernel_size, strides, paddings, ceil_mode, exclusive, data_format, pooling_type, global_pooling,
// adaptive, padding_algorithm.
bool read_pooling(const Call& call, const View& x, const View& out, Pooling& pooling) {
  if (!takes(call)) return false;
  pooling.exclusive = call.attr<bool>(4);
  pooling.largest = call.attr<std::string>(6) == "max";
  pooling.whole = call.attr<bool>(7) || call.attr<bool>(8);
  return pooling.set(call.integers(0), call.integers(1), call.integers(2), call.attr<std::string>(9), x, out);
}

bool run_largest(Device& device, const Pooling& pooling, const View& out, const View& indices, const View& x) {
  static RankedStep strided("max_pool2d", "max_pool3d"), whole("adaptive_max_pool2d", "adaptive_max_pool3d");
  const int rank = pooling.rank;
  if (pooling.whole) return hp::ops::adaptive_max_pool(whole.on(device, rank), device, out, indices, x, rank);
  return hp::ops::max_pool(strided.on(device, rank), device, out, indices, x, pooling.windows, rank);
}

bool run_largest_backward(Device& device, int rank, const View& grad_x, const View& grad, const View& indices,
                          const hp::ops::PoolWindows* windows = nullptr) {
  static RankedStep step("max_pool2d_backward", "max_pool3d_backward");
  return hp::ops::max_pool_backward(step.on(device, rank), device, grad_x, grad, indices, rank, windows);
}

bool forward(Call& call) {
  static RankedStep strided("avg_pool2d", "avg_pool3d"), whole("adaptive_avg_pool2d", "adaptive_avg_pool3d");
  const View result = call.allocate(0);
  if (result.numel() == 0) return true;
  if (!takes(call)) return false;
  const bool last = channels_last(call.attr<std::string>(5));
  Planes images(call.device, call.view_of(0), last), results(call.device, result, last);
  const View &x = images, &out = results;
  Pooling pooling;
  if (!read_pooling(call, x, out, pooling) || !images.read()) return false;
  const int rank = pooling.rank;
  bool done;
  if (pooling.largest) {
    const Temporary indices(call.device, DType::kI64, out.ndim, out.sizes);
    done = run_largest(call.device, pooling, out, indices, x);
  } else if (pooling.whole) {
    done = hp::ops::adaptive_avg_pool(whole.on(call.device, rank), call.device, out, x, rank);
  } else {
    done = hp::ops::avg_pool(strided.on(call.device, rank), call.device, out, x, pooling.windows, !pooling.exclusive, 0,
                             rank);
  }
  return done && results.write() && decomposed(call);
}

// Inputs: x, out, and the gradient of out. The places of the largest were not kept.
bool backward(Call& call) {
  static RankedStep strided("avg_pool2d_backward", "avg_pool3d_backward"),
      whole("adaptive_avg_pool2d_backward", "adaptive_avg_pool3d_backward");
  if (!takes(call) || call.input(2)->numel() == 0) return false;
  const bool last = channels_last(call.attr<std::string>(5));
  Planes images(call.device, call.view_of(0), last), grads(call.device, call.view_of(2), last);
  const View &x = images, &grad = grads;
  Pooling pooling;
  if (!read_pooling(call, x, grad, pooling) || !images.read() || !grads.read()) return false;
  const int rank = pooling.rank;
  Planes results(call.device, call.allocate(0), last);
  const View& grad_x = results;
  bool done;
  if (pooling.largest) {
    const Temporary indices(call.device, DType::kI64, grad.ndim, grad.sizes),
        values(call.device, grad.dtype, grad.ndim, grad.sizes);
    done = run_largest(call.device, pooling, values, indices, x) &&
           run_largest_backward(call.device, rank, grad_x, grad, indices, pooling.whole ? nullptr : &pooling.windows);
  } else if (pooling.whole) {
    done = hp::ops::adaptive_avg_pool_backward(whole.on(call.device, rank), call.device, grad_x, grad, rank);
  } else {
    done = hp::ops::avg_pool_backward(strided.on(call.device, rank), call.device, grad_x, grad, pooling.windows,
                                      !pooling.exclusive, 0, rank);
  }
  return done && results.write() && decomposed(call);
}

bool pool2d(Call& call) { return forward(call); }
bool pool3d(Call& call) { return forward(call); }
bool pool2d_grad(Call& call) { return backward(call); }
bool pool3d_grad(Call& call) { return backward(call); }

// Attributes: kernel_size, strides, paddings, global_pooling, adaptive, ceil_mode. Places are of 32 bits in Paddle.
bool with_index(Call& call) {
  const View x = call.view_of(0), out = call.allocate(0), mask = call.allocate(1);
  if (out.numel() == 0) return true;
  Pooling pooling;
  pooling.whole = call.attr<bool>(3) || call.attr<bool>(4);
  if (!takes(call) || !pooling.set(call.integers(0), call.integers(1), call.integers(2), "EXPLICIT", x, out)) {
    return false;
  }
  Converted indices(call.device, mask, DType::kI64);
  return run_largest(call.device, pooling, out, indices, x) && indices.write() && decomposed(call);
}

// Inputs: x, mask, and the gradient of out.
bool with_index_grad(Call& call) {
  const View x = call.view_of(0), grad = call.view_of(2);
  if (!takes(call) || grad.numel() == 0 || (x.ndim != 4 && x.ndim != 5)) return false;
  Converted indices(call.device, call.view_of(1), DType::kI64);
  const View grad_x = call.allocate(0);
  return indices.read() && run_largest_backward(call.device, x.ndim - 2, grad_x, grad, indices) && decomposed(call);
}

bool max_pool2d_with_index(Call& call) { return with_index(call); }
bool max_pool3d_with_index(Call& call) { return with_index(call); }
bool max_pool2d_with_index_grad(Call& call) { return with_index_grad(call); }
bool max_pool3d_with_index_grad(Call& call) { return with_index_grad(call); }

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/pooling.inc"
