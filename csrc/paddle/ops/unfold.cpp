// unfold and fold (im2col and col2im), and pixel shuffle.
#include "dispatch/composition.h"
#include "ops/shape.h"

namespace hp::paddle_adapter::ops {
namespace {

StandardOp im2col_op("im2col"), col2im_op("col2im");

bool supports_unfold(const Call& call) {
  return call.inputs_ready() && is_float(to_core(call.kernel.dtype)) && call.input(0)->numel() != 0;
}

// Attributes from `first` on: kernel_sizes, strides, paddings, dilations.
bool read_windows(const Call& call, int first, hp::ops::Im2colWindow& window) {
  const auto kernel = call.integers(first), stride = call.integers(first + 1), padding = call.integers(first + 2),
             dilation = call.integers(first + 3);
  if (kernel.size() != 2 || stride.size() != 2 || dilation.size() != 2) return false;
  if (padding.size() != 2 && padding.size() != 4) return false;
  for (int d : {0, 1}) {
    window.kernel[d] = kernel[d];
    window.stride[d] = stride[d];
    window.dilation[d] = dilation[d];
    window.padding[d] = padding[d];
    if (padding.size() == 4 && padding[d + 2] != padding[d]) return false;
  }
  return true;
}

bool unfold(Call& call) {
  hp::ops::Im2colWindow window;
  if (!supports_unfold(call) || !read_windows(call, 0, window)) return false;
  return hp::ops::im2col(im2col_op.on(call.device), call.device, call.allocate(0), call.view_of(0), window) &&
         count_decomposed(call);
}
// Inputs: x, out_grad.
bool unfold_grad(Call& call) {
  hp::ops::Im2colWindow window;
  if (!is_ready(call.input(1)) || !is_float(to_core(call.kernel.dtype)) || !read_windows(call, 0, window)) return false;
  return hp::ops::col2im(col2im_op.on(call.device), call.device, call.allocate(0), call.view_of(1), window) &&
         count_decomposed(call);
}

// Attributes: output_sizes, then those of the window.
bool fold(Call& call) {
  hp::ops::Im2colWindow window;
  if (!supports_unfold(call) || !read_windows(call, 1, window)) return false;
  return hp::ops::col2im(col2im_op.on(call.device), call.device, call.allocate(0), call.view_of(0), window) &&
         count_decomposed(call);
}
bool fold_grad(Call& call) {
  hp::ops::Im2colWindow window;
  if (!is_ready(call.input(1)) || !is_float(to_core(call.kernel.dtype)) || !read_windows(call, 1, window)) return false;
  return hp::ops::im2col(im2col_op.on(call.device), call.device, call.allocate(0), call.view_of(1), window) &&
         count_decomposed(call);
}

// Copies between `deep`, N x (C * r * r) x H x W, and `wide`, N x C x (H * r) x (W * r); to `wide` if `widen`.
bool shuffle_pixels(Call& call, int attribute, const View& input, bool widen) {
  const int64_t r = call.integer(attribute);
  if (call.attr<std::string>(attribute + 1) != "NCHW" || input.ndim != 4 || r <= 0) return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  const View &deep = widen ? input : out, &wide = widen ? out : input;
  const int64_t n = deep.sizes[0], c = wide.sizes[1], h = deep.sizes[2], w = deep.sizes[3];
  const int64_t deep_sizes[] = {n, c, r, r, h, w}, wide_sizes[] = {n, c, h, r, w, r};
  ShapedView deep_view(deep.data, deep.dtype, 6, deep_sizes), wide_view(wide.data, wide.dtype, 6, wide_sizes);
  wide_view.swap(2, 3).swap(3, 5).swap(4, 5);  // n, c, r, r, h, w
  return copy(copy_op.on(call.device), call.device, widen ? wide_view : deep_view, widen ? deep_view : wide_view) &&
         count_decomposed(call);
}
bool pixel_shuffle(Call& call) { return call.inputs_ready() && shuffle_pixels(call, 0, call.view_of(0), true); }
bool pixel_shuffle_grad(Call& call) { return call.inputs_ready() && shuffle_pixels(call, 0, call.view_of(0), false); }
bool pixel_unshuffle(Call& call) { return call.inputs_ready() && shuffle_pixels(call, 0, call.view_of(0), false); }
bool pixel_unshuffle_grad(Call& call) { return call.inputs_ready() && shuffle_pixels(call, 0, call.view_of(0), true); }

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/unfold.inc"
