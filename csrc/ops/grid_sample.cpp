#include "ops/grid_sample.h"

#include <algorithm>

#include "core/dispatch/template_call.h"
#include "ops/detail/accumulation_buffer.h"
#include "ops/detail/spatial_shape.h"

namespace hp::ops {
namespace {

struct GridSamplerShape {
  int64_t batch, channels, in[3], out[3], align;

  int64_t samples() const { return out[0] * out[1] * out[2]; }
};

GridSamplerShape shape_of(const View& self, const View& out, bool align) {
  const SpatialShape planes = spatial_shape(self, out, self.ndim - 2);
  GridSamplerShape g{self.sizes[0], self.sizes[1], {}, {}, align};
  for (int a = 0; a < 3; ++a) g.in[a] = planes.in[a], g.out[a] = planes.out[a];
  return g;
}

// Samples per work-group: enough work for a single work-item, or one sample per work-item.
int64_t elements_each(const TemplateCall& call, const Device& device, int64_t work) {
  return std::max<int64_t>(call.rows_per_group(work), device.group_size());
}

}  // namespace

bool grid_sampler(const OpBinding& binding, Device& device, const View& out, const View& self, const View& grid,
                  const GridSamplerOptions& o) {
  if (call_vendor(binding, device,
                  {output(out), input(self), input(grid), attribute(o.interpolation), attribute(o.padding),
                   attribute(o.align)}))
    return true;
  static KernelTemplate kernels("grid_sample:forward", {"T"}, {"AXES", "MODE", "PAD"});
  if (!binding.portable_allowed || !is_float(self.dtype)) return false;
  TemplateCall call(kernels, device, {self.dtype},
                    {self.ndim - 2, static_cast<int>(o.interpolation), static_cast<int>(o.padding)});
  const GridSamplerShape g = shape_of(self, out, o.align);
  const int64_t samples = g.batch * g.samples(), per_group = elements_each(call, device, 8 * g.channels);
  call.arg(out).arg(self).arg(grid).integer(per_group).value(g);
  return call.run(binding, ceil_div(samples, per_group));
}

bool grid_sampler_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad_grid,
                           const View& grad, const View& self, const View& grid, const GridSamplerOptions& o) {
  if (call_vendor(binding, device,
                  {output(grad_input), output(grad_grid), input(grad), input(self), input(grid),
                   attribute(o.interpolation), attribute(o.padding), attribute(o.align)}))
    return true;
  static KernelTemplate grid_kernels("grid_sample:backward_grid", {"T"}, {"AXES", "MODE", "PAD"});
  static KernelTemplate input_kernels("grid_sample:backward_input", {"T", "G"}, {"AXES", "MODE", "PAD"});
  if (!binding.portable_allowed || !is_float(self.dtype)) return false;
  PortableScope scope(binding);
  const int axes = self.ndim - 2, mode = static_cast<int>(o.interpolation), pad = static_cast<int>(o.padding);
  const GridSamplerShape g = shape_of(self, grad, o.align);
  TemplateCall to_grid(grid_kernels, device, {self.dtype}, {axes, mode, pad});
  if (!to_grid.available()) return false;
  if (grad_input.defined()) {
    TemplateCall to_input(input_kernels, device, {self.dtype, accumulator(self.dtype)}, {axes, mode, pad});
    if (!to_input.available()) return false;
    const AccumulationBuffer sums(device, grad_input);
    const int64_t planes = g.batch * g.channels, per_group = to_input.rows_per_group(8 * g.samples());
    to_input.arg(sums.view).arg(grad).arg(grid).integer(per_group).value(g);
    to_input.launch(binding.op, ceil_div(planes, per_group));
    if (!sums.finish(binding, device)) return false;
  }
  const int64_t samples = g.batch * g.samples(), per_group = elements_each(to_grid, device, 16 * g.channels);
  to_grid.arg(grad_grid).arg(grad).arg(self).arg(grid).integer(per_group).value(g);
  to_grid.launch(binding.op, ceil_div(samples, per_group));
  return scope.done();
}

}  // namespace hp::ops
