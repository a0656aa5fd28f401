#include "ops/grid_sample.h"

#include "dispatch/composition.h"

namespace hp::paddle_adapter::ops {
namespace {

// Attributes: mode, padding_mode, align_corners. False if the call is not supported.
bool read_options(const Call& call, hp::ops::GridSamplerOptions& options) {
  const auto &mode = call.attr<std::string>(0), &padding = call.attr<std::string>(1);
  if (mode != "bilinear" && mode != "nearest") return false;
  if (padding != "zeros" && padding != "border" && padding != "reflection") return false;
  options = {mode == "nearest", padding == "zeros" ? 0 : padding == "border" ? 1 : 2, call.attr<bool>(2)};
  return call.inputs_ready() && is_float(to_core(call.kernel.dtype)) && call.input(0)->numel() != 0 &&
         call.input(1)->numel() != 0;
}

bool grid_sample(Call& call) {
  hp::ops::GridSamplerOptions options;
  if (!read_options(call, options)) return false;
  return hp::ops::grid_sampler(call.binding(), call.device, call.allocate(0), call.view_of(0), call.view_of(1),
                               options);
}

// Inputs: x, grid, out_grad.
bool grid_sample_grad(Call& call) {
  hp::ops::GridSamplerOptions options;
  if (!read_options(call, options)) return false;
  const View grid = call.view_of(1);
  View grad_x;
  if (call.output(0) != nullptr) grad_x = call.allocate(0);
  // The kernel always computes the gradient of the grid.
  const Temporary spare(call.device, grid.dtype, grid.ndim, grid.sizes);
  const View grad_grid = call.output(1) != nullptr ? call.allocate(1) : spare.view();
  return hp::ops::grid_sampler_backward(call.binding(), call.device, grad_x, grad_grid, call.view_of(2),
                                        call.view_of(0), grid, options);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/grid_sample.inc"
