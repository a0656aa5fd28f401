#include "../../ops/resampling.h"

#include "../spatial.h"

namespace hp::paddle_adapter::ops {
namespace {

using hp::ops::Resampling;

// Attributes: layout, out_d, out_h, out_w, scale, method, align_corners, align_mode.
struct Resampled {
  double scales[3] = {0, 0, 0};
  int rank;
  bool align;

  // Not for sizes that come as tensors, nor for the rules that the standard operators do not have: the nearest element
  // of aligned corners, and source places that are counted from the first element instead of its edge.
  bool read(const Call& call, Resampling mode, const View& x) {
    for (int i : {1, 2, 3}) {
      if (call.inputs(i).count != 0 && call.input(i) != nullptr) return false;
    }
    rank = x.ndim - 2;
    align = call.attr<bool>(6);
    const std::string& layout = call.attr<std::string>(0);
    if (!is_float(x.dtype) || rank < 1 || rank > 3 || layout == "NWC" || channels_last(layout) || x.numel() == 0) {
      return false;
    }
    if (mode == Resampling::kNearest && align) return false;
    if (mode == Resampling::kLinear && !align && call.integer(7) != 0) return false;
    const auto& given = call.attr<std::vector<double>>(4);
    if (given.empty()) return true;
    if (given.size() != 1 && static_cast<int>(given.size()) != rank) return false;
    for (int d = 0; d < rank; ++d) scales[d] = given.size() == 1 ? given[0] : given[d];
    return true;
  }
};

bool forward(Call& call, Resampling mode) {
  const View x = call.view_of(0);
  Resampled how;
  if (!ready(call.input(0)) || !how.read(call, mode, x)) return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  return hp::ops::upsample(call.service(), call.device, out, x, mode, how.align, how.scales, how.rank);
}

// Inputs: x, three for sizes, and the gradient of out.
bool backward(Call& call, Resampling mode) {
  const View grad = call.view_of(4);
  Resampled how;
  if (!ready(call.input(4)) || !how.read(call, mode, grad)) return false;
  return hp::ops::upsample_backward(call.service(), call.device, call.allocate(0), grad, mode, how.align, how.scales,
                                    how.rank);
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
