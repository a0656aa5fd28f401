#include "grid.h"

#include <algorithm>

#include "../core/template_call.h"
#include "spatial.h"
#include "sums.h"

namespace hp::ops {
namespace {

struct Geometry {
  int64_t batch, channels, in[3], out[3], align;

  int64_t places() const { return out[0] * out[1] * out[2]; }
};

Geometry geometry_of(const View& self, const View& out, bool align) {
  const Planes planes = planes_of(self, out, self.ndim - 2);
  Geometry g{self.sizes[0], self.sizes[1], {}, {}, align};
  for (int a = 0; a < 3; ++a) g.in[a] = planes.in[a], g.out[a] = planes.out[a];
  return g;
}

// Samples that one group takes: enough work for one work-item, or a sample for each of many.
int64_t elements_each(const TemplateCall& call, const Device& device, int64_t work) {
  return std::max<int64_t>(call.rows_per_group(work), device.plugin.compiler.group_size);
}

}  // namespace

bool grid_sampler(const Service& service, Device& device, const View& out, const View& self, const View& grid,
                  const GridOptions& o) {
  if (call_vendor(service, device,
                  {output(out), input(self), input(grid), attribute(o.interpolation), attribute(o.padding),
                   attribute(o.align)}))
    return true;
  static TemplateKernels kernels("grid:forward", {"T"}, {"AXES", "MODE", "PAD"});
  if (!service.has_compiler || !is_float(self.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {self.dtype},
                    {self.ndim - 2, static_cast<int>(o.interpolation), static_cast<int>(o.padding)});
  if (!call.available()) return false;
  const Geometry g = geometry_of(self, out, o.align);
  const int64_t places = g.batch * g.places(), per_group = elements_each(call, device, 8 * g.channels);
  call.arg(out).arg(self).arg(grid).integer(per_group).value(g);
  call.launch(service.op, (places + per_group - 1) / per_group);
  return scope.done();
}

bool grid_sampler_backward(const Service& service, Device& device, const View& grad_input, const View& grad_grid,
                           const View& grad, const View& self, const View& grid, const GridOptions& o) {
  if (call_vendor(service, device,
                  {output(grad_input), output(grad_grid), input(grad), input(self), input(grid),
                   attribute(o.interpolation), attribute(o.padding), attribute(o.align)}))
    return true;
  static TemplateKernels grid_kernels("grid:backward_grid", {"T"}, {"AXES", "MODE", "PAD"});
  static TemplateKernels input_kernels("grid:backward_input", {"T", "G"}, {"AXES", "MODE", "PAD"});
  if (!service.has_compiler || !is_float(self.dtype)) return false;
  PortableScope scope(service);
  const int axes = self.ndim - 2, mode = static_cast<int>(o.interpolation), pad = static_cast<int>(o.padding);
  const Geometry g = geometry_of(self, grad, o.align);
  TemplateCall to_grid(grid_kernels, device, {self.dtype}, {axes, mode, pad});
  if (!to_grid.available()) return false;
  if (grad_input.defined()) {
    TemplateCall to_input(input_kernels, device, {self.dtype, accumulator(self.dtype)}, {axes, mode, pad});
    if (!to_input.available()) return false;
    const Sums sums(device, grad_input);
    const int64_t planes = g.batch * g.channels, per_group = to_input.rows_per_group(8 * g.places());
    to_input.arg(sums.view).arg(grad).arg(grid).integer(per_group).value(g);
    to_input.launch(service.op, (planes + per_group - 1) / per_group);
    if (!sums.finish(service, device)) return false;
  }
  const int64_t places = g.batch * g.places(), per_group = elements_each(to_grid, device, 16 * g.channels);
  to_grid.arg(grad_grid).arg(grad).arg(self).arg(grid).integer(per_group).value(g);
  to_grid.launch(service.op, (places + per_group - 1) / per_group);
  return scope.done();
}

}  // namespace hp::ops
