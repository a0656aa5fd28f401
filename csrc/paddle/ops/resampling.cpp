#include "ops/resampling.h"

#include <limits>

#include "ops/window_attributes.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::Resampling;

// Attributes: layout, out_d, out_h, out_w, scale, method, align_corners, align_mode.
struct ResamplingOptions {
  double scales[3] = {0, 0, 0};
  int rank;
  bool align;

  // False if not supported: sizes given as tensors, and rules that the standard operators lack (nearest with aligned
  // corners, and linear with align_mode 1, source coordinates without the half-pixel offset).
  bool read(const Call& call, Resampling mode, const View& x) {
    for (int i : {1, 2, 3}) {
      if (call.inputs(i).count != 0 && call.input(i) != nullptr) return false;
    }
    rank = x.ndim - 2;
    align = call.attr<bool>(6);
    const std::string& layout = call.attr<std::string>(0);
    // Paddle treats every other name as channels last, even "NCDHW".
    if (!is_float(x.dtype) || rank < 1 || rank > 3 || layout != "NCHW" || x.numel() == 0) return false;
    if (mode == Resampling::kNearest && align) return false;
    if (mode == Resampling::kLinear && !align && call.integer(7) != 0) return false;
    const auto& factors = call.attr<std::vector<double>>(4);
    if (factors.empty()) return true;
    if (factors.size() != 1 && static_cast<int>(factors.size()) != rank) return false;
    for (int d = 0; d < rank; ++d) scales[d] = factors.size() == 1 ? factors[0] : factors[d];
    return true;
  }
};

// Paddle takes a single output position from the first input, whatever the scale.
void fix_single_positions(ResamplingOptions& options, const View& out) {
  for (int d = 0; d < options.rank; ++d) {
    if (out.sizes[2 + d] == 1) options.scales[d] = std::numeric_limits<double>::infinity();
  }
}

bool forward(Call& call, Resampling mode) {
  const View x = call.view_of(0);
  ResamplingOptions options;
  if (!is_ready(call.input(0)) || !options.read(call, mode, x)) return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  fix_single_positions(options, out);
  return hp::ops::upsample(call.binding(), call.device, out, x, mode, options.align, options.scales, options.rank);
}

// Inputs: x, three for sizes, out_grad.
bool backward(Call& call, Resampling mode) {
  const View grad = call.view_of(4);
  ResamplingOptions options;
  if (!is_ready(call.input(4)) || !options.read(call, mode, grad)) return false;
  fix_single_positions(options, grad);
  return hp::ops::upsample_backward(call.binding(), call.device, call.allocate(0), grad, mode, options.align,
                                    options.scales, options.rank);
}

bool nearest_interp(Call& call) { return forward(call, Resampling::kNearest); }
bool nearest_interp_grad(Call& call) { return backward(call, Resampling::kNearest); }
bool linear_interp(Call& call) { return forward(call, Resampling::kLinear); }
bool linear_interp_grad(Call& call) { return backward(call, Resampling::kLinear); }
bool bilinear_interp(Call& call) { return forward(call, Resampling::kLinear); }
bool bilinear_interp_grad(Call& call) { return backward(call, Resampling::kLinear); }
bool trilinear_interp(Call& call) { return forward(call, Resampling::kLinear); }
bool trilinear_interp_grad(Call& call) { return backward(call, Resampling::kLinear); }
bool bicubic_interp(Call& call) { return forward(call, Resampling::kCubic); }
bool bicubic_interp_grad(Call& call) { return backward(call, Resampling::kCubic); }

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/resampling.inc"
