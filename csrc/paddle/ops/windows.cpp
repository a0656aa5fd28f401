// Images taken apart and put together: windows as columns, and channels as places.
#include "../../ops/shape.h"
#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

Step columns("im2col"), images("col2im"), copying("copy");

bool takes(const Call& call) {
  return call.plain() && is_float(to_core(call.kernel.dtype)) && call.input(0)->numel() != 0;
}

// Attributes from `first` on: kernel_sizes, strides, paddings, dilations.
bool windows_of(const Call& call, int first, hp::ops::Windows& windows) {
  const auto kernel = call.integers(first), stride = call.integers(first + 1), padding = call.integers(first + 2),
             dilation = call.integers(first + 3);
  if (kernel.size() != 2 || stride.size() != 2 || dilation.size() != 2) return false;
  if (padding.size() != 2 && padding.size() != 4) return false;
  for (int d : {0, 1}) {
    windows.kernel[d] = kernel[d];
    windows.stride[d] = stride[d];
    windows.dilation[d] = dilation[d];
    windows.padding[d] = padding[d];
    if (padding.size() == 4 && padding[d + 2] != padding[d]) return false;
  }
  return true;
}

bool unfold(Call& call) {
  hp::ops::Windows windows;
  if (!takes(call) || !windows_of(call, 0, windows)) return false;
  return hp::ops::im2col(columns.on(call.device), call.device, call.allocate(0), call.view_of(0), windows) &&
         decomposed(call);
}
// Inputs: x, the gradient.
bool unfold_grad(Call& call) {
  hp::ops::Windows windows;
  if (!ready(call.input(1)) || !is_float(to_core(call.kernel.dtype)) || !windows_of(call, 0, windows)) return false;
  return hp::ops::col2im(images.on(call.device), call.device, call.allocate(0), call.view_of(1), windows) &&
         decomposed(call);
}

// Attributes: output_sizes, and those of the windows.
bool fold(Call& call) {
  hp::ops::Windows windows;
  if (!takes(call) || !windows_of(call, 1, windows)) return false;
  return hp::ops::col2im(images.on(call.device), call.device, call.allocate(0), call.view_of(0), windows) &&
         decomposed(call);
}
bool fold_grad(Call& call) {
  hp::ops::Windows windows;
  if (!ready(call.input(1)) || !is_float(to_core(call.kernel.dtype)) || !windows_of(call, 1, windows)) return false;
  return hp::ops::im2col(columns.on(call.device), call.device, call.allocate(0), call.view_of(1), windows) &&
         decomposed(call);
}

// Between `deep`, N x (C * r * r) x H x W, and `wide`, N x C x (H * r) x (W * r).
bool shuffle_pixels(Call& call, int attribute, const View& input, bool widen) {
  const int64_t r = call.integer(attribute);
  if (call.attr<std::string>(attribute + 1) != "NCHW" || input.ndim != 4 || r <= 0) return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  const View &deep = widen ? input : out, &wide = widen ? out : input;
  const int64_t n = deep.sizes[0], c = wide.sizes[1], h = deep.sizes[2], w = deep.sizes[3];
  const int64_t of_deep[] = {n, c, r, r, h, w}, of_wide[] = {n, c, h, r, w, r};
  Shaped channels(deep.data, deep.dtype, 6, of_deep), places(wide.data, wide.dtype, 6, of_wide);
  places.swap(2, 3).swap(3, 5).swap(4, 5);  // n, c, r, r, h, w
  return copy(copying.on(call.device), call.device, widen ? places : channels, widen ? channels : places) &&
         decomposed(call);
}
bool pixel_shuffle(Call& call) { return call.plain() && shuffle_pixels(call, 0, call.view_of(0), true); }
bool pixel_shuffle_grad(Call& call) { return call.plain() && shuffle_pixels(call, 0, call.view_of(0), false); }
bool pixel_unshuffle(Call& call) { return call.plain() && shuffle_pixels(call, 0, call.view_of(0), false); }
bool pixel_unshuffle_grad(Call& call) { return call.plain() && shuffle_pixels(call, 0, call.view_of(0), true); }

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/windows.inc"
