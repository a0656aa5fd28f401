#include "ops/grid_sample.h"

#include "dispatch/composition.h"
#include "ops/creation.h"
#include "ops/reduction.h"

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

// ---- Affine grids: out[n, h, w, k] = theta[n, k, 0] x[w] + theta[n, k, 1] y[h] + theta[n, k, 2]. Attributes: the
// output's shape and align_corners.

// Positions from -1 to 1. With align_corners, these are the centers of the corner pixels, else the image's corners. A
// single aligned pixel has no position: NaN, as on Paddle's CPU.
bool fill_positions(Device& device, const View& out, bool aligned) {
  static StandardOp arange("arange");
  const auto size = static_cast<double>(out.numel());
  const double step = 2 / (aligned ? size - 1 : size);
  return hp::ops::arange(arange.on(device), device, out, aligned ? -1.0 : step / 2 - 1, step);
}

// Column `column` of the matrices, as batch x 1 x 1 x 2.
ShapedView theta_column(const View& theta, int column) {
  ShapedView view(theta);
  return view.narrow(2, column, 1).drop(2).unsqueeze(1).unsqueeze(1);
}

// Whether this is the shape of images: batch x channels x height x width. Shape inference leaves the grid's sizes open.
bool is_planar(const std::vector<int64_t>& shape) {
  return shape.size() == 4 && shape[0] > 0 && shape[2] > 0 && shape[3] > 0;
}

struct Positions {
  Positions(Device& device, const View& grid)
      : x(device, grid.dtype, 1, grid.sizes + 2), y(device, grid.dtype, 1, grid.sizes + 1) {}
  bool fill(Device& device, bool aligned) {
    return fill_positions(device, x, aligned) && fill_positions(device, y, aligned);
  }
  // As 1 x 1 x width x 1 and 1 x height x 1 x 1.
  ShapedView along_width() const { return ShapedView(x.view()).unsqueeze(1).unsqueeze(0).unsqueeze(0); }
  ShapedView along_height() const { return ShapedView(y.view()).unsqueeze(1).unsqueeze(1).unsqueeze(0); }
  Temporary x, y;
};

bool affine_grid(Call& call) {
  static PointwiseOp add_product("addcmul");
  const std::vector<int64_t> shape = call.integers(0);
  if (!call.inputs_ready() || !is_planar(shape) || !is_float(to_core(call.kernel.dtype))) return false;
  if (call.input(0)->dims() != phi::make_ddim({shape[0], 2, 3})) return false;
  Device& device = call.device;
  call.output(0)->Resize({shape[0], shape[2], shape[3], 2});
  const View theta = call.view_of(0), out = call.allocate(0);
  Positions at(device, out);
  return at.fill(device, call.attr<bool>(1)) &&
         add_product(device, out, {theta_column(theta, 2), theta_column(theta, 0), at.along_width()}, {1}) &&
         add_product(device, out, {out, theta_column(theta, 1), at.along_height()}, {1}) && count_decomposed(call);
}

// Inputs: out_grad.
bool affine_grid_grad(Call& call) {
  static PointwiseOp multiply("mul");
  static StandardOp sum("sum");
  const std::vector<int64_t> shape = call.integers(0);
  if (!call.inputs_ready() || !is_planar(shape) || !is_float(to_core(call.kernel.dtype))) return false;
  if (call.input(0)->dims() != phi::make_ddim({shape[0], shape[2], shape[3], 2})) return false;
  Device& device = call.device;
  call.output(0)->Resize({shape[0], 2, 3});
  const View grad = call.view_of(0), out = call.allocate(0);
  Positions at(device, grad);
  if (!at.fill(device, call.attr<bool>(1))) return false;
  const Temporary product(device, grad.dtype, 4, grad.sizes), total(device, grad.dtype, 2, out.sizes);
  const uint64_t pixels = 0b0110;
  for (int column = 0; column < 3; ++column) {
    if (column < 2 && !multiply(device, product, {grad, column == 0 ? at.along_width() : at.along_height()}))
      return false;
    ShapedView to(out);
    to.narrow(2, column, 1).drop(2);
    if (!hp::ops::sum(sum.on(device), device, total, column < 2 ? product.view() : grad, pixels, false) ||
        !copy(copy_op.on(device), device, to, total)) {
      return false;
    }
  }
  return count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/grid_sample.inc"
