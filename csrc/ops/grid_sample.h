// Samples images at grid coordinates. Images are (batch, channels, ...), grids (batch, ..., axes); all contiguous.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

struct GridSamplerOptions {
  int64_t interpolation, padding;  // MODE and PAD of the kernels, numbered as in torch
  bool align;
};

bool grid_sampler(const OpBinding& binding, Device& device, const View& out, const View& self, const View& grid,
                  const GridSamplerOptions& options);
// grad_input may be undefined.
bool grid_sampler_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad_grid,
                           const View& grad, const View& self, const View& grid, const GridSamplerOptions& options);

}  // namespace hp::ops
