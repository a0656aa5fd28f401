// Sampling at the places that a grid names; (batch, channels, ...) images, (batch, ..., axes) grids. All contiguous.
#pragma once

#include "../core/service.h"

namespace hp::ops {

struct GridOptions {
  int64_t interpolation, padding;  // the kernels' MODE and PAD, which are torch's numbers
  bool align;
};

bool grid_sampler(const Service& service, Device& device, const View& out, const View& self, const View& grid,
                  const GridOptions& options);
// grad_input may be undefined.
bool grid_sampler_backward(const Service& service, Device& device, const View& grad_input, const View& grad_grid,
                           const View& grad, const View& self, const View& grid, const GridOptions& options);

}  // namespace hp::ops
