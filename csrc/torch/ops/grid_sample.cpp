#include "ops/grid_sample.h"

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using Pair = std::tuple<Tensor, Tensor>;

// Whether torch accepts the operands.
bool fits(const Tensor& input, const Tensor& grid, int64_t interpolation, int64_t padding) {
  const int64_t axes = input.dim() - 2;
  if ((axes != 2 && axes != 3) || grid.dim() != input.dim() || grid.size(-1) != axes) return false;
  if (grid.size(0) != input.size(0) || grid.scalar_type() != input.scalar_type()) return false;
  if (interpolation < 0 || interpolation > (axes == 2 ? 2 : 1) || padding < 0 || padding > 2) return false;
  for (int64_t d = 2; d < input.dim(); ++d) {
    if (input.size(d) == 0) return false;
  }
  return true;
}

OptionalTensor grid_sampler(const Overload& overload, const Tensor& input, const Tensor& grid, int64_t interpolation,
                            int64_t padding, bool align) {
  if (!fits(input, grid, interpolation, padding)) return std::nullopt;
  std::vector<int64_t> sizes{input.size(0), input.size(1)};
  for (int64_t d = 1; d + 1 < grid.dim(); ++d) sizes.push_back(grid.size(d));
  Tensor out = empty(sizes, input.scalar_type(), input.device().index());
  if (out.numel() == 0) return out;
  const Tensor image = input.contiguous(), positions = grid.contiguous();
  if (!hp::ops::grid_sampler(overload, device_holding(input), view(out), view(image), view(positions),
                             {interpolation, padding, align}))
    return std::nullopt;
  return out;
}

std::optional<Pair> grid_sampler_backward(const Overload& overload, const Tensor& grad, const Tensor& input,
                                          const Tensor& grid, int64_t interpolation, int64_t padding, bool align,
                                          std::array<bool, 2> mask) {
  if (!fits(input, grid, interpolation, padding) || grad.scalar_type() != input.scalar_type()) return std::nullopt;
  const int index = input.device().index();
  Tensor grad_input, grad_grid = empty(grid.sizes(), grid.scalar_type(), index);
  if (mask[0]) grad_input = empty(input.sizes(), input.scalar_type(), index);
  if (grad.numel() == 0) {
    if (mask[0]) grad_input.zero_();
    grad_grid.zero_();
    return Pair(grad_input, grad_grid);
  }
  const Tensor dense_grad = grad.contiguous(), image = input.contiguous(), positions = grid.contiguous();
  if (!hp::ops::grid_sampler_backward(overload, device_holding(input), view(grad_input), view(grad_grid),
                                      view(dense_grad), view(image), view(positions), {interpolation, padding, align}))
    return std::nullopt;
  return Pair(std::move(grad_input), std::move(grad_grid));
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/grid_sample.inc"
