#include "ops/pooling.h"

#include <algorithm>

#include "core/dispatch/template_call.h"
#include "ops/detail/spatial_shape.h"

namespace hp::ops {
namespace {

enum Placement { kStrided, kAdaptive, kFractional };  // WINDOW in the kernels

struct PoolingShape {
  SpatialShape planes;
  int64_t kernel[3], stride[3], padding[3], dilation[3], include_pad, divisor;

  int64_t window() const { return kernel[0] * kernel[1] * kernel[2]; }
};

bool can_pool(const OpBinding& binding, const View& self) {
  return binding.portable_allowed && self.defined() && !is_complex(self.dtype);
}

PoolingShape shape_of(const View& in, const View& out, int rank, const PoolingWindow* windows) {
  PoolingShape g{spatial_shape(in, out, rank), {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1, 0};
  if (windows == nullptr) {
    // An estimate, used only to size the launch.
    for (int a = 0; a < 3; ++a) g.kernel[a] = g.planes.in[a] / std::max<int64_t>(1, g.planes.out[a]) + 1;
    return g;
  }
  for (int a = 0; a < rank; ++a) {
    const int to = 3 - rank + a;
    g.kernel[to] = windows->kernel[a];
    g.stride[to] = windows->stride[a];
    g.padding[to] = windows->padding[a];
    g.dilation[to] = windows->dilation[a];
  }
  return g;
}

PoolingShape shape_of(const View& in, const View& out, int rank, const PoolingWindow& windows, bool include_pad,
                      int64_t divisor) {
  PoolingShape g = shape_of(in, out, rank, &windows);
  g.include_pad = include_pad;
  g.divisor = divisor;
  return g;
}

// Calls the vendor kernel of avg_pool or its backward.
bool call_average(const OpBinding& binding, Device& device, const View& to, const View& from, const PoolingWindow& w,
                  bool include_pad, int64_t divisor, int rank) {
  return call_vendor(binding, device,
                     {output(to), input(from), attribute(w.kernel, rank), attribute(w.stride, rank),
                      attribute(w.padding, rank), attribute(include_pad), attribute(divisor)});
}

int64_t size_of(const int64_t (&sizes)[3]) { return sizes[0] * sizes[1] * sizes[2]; }

bool largest(const OpBinding& binding, Device& device, const View& out, const View& indices, const View& self,
             const View& samples, const PoolingShape& g, Placement placement, int rank) {
  static KernelTemplate kernels("pooling:max", {"T"}, {"WINDOW"});
  // Kernels hold offsets within a plane in 32 bits.
  if (!can_pool(binding, self) || size_of(g.planes.in) > INT32_MAX) return false;
  TemplateCall call(kernels, device, {self.dtype}, {placement});
  const int64_t rows = g.planes.count * g.planes.out[0] * g.planes.out[1];
  const int64_t per_group = call.rows_per_group(g.planes.out[2] * g.window());
  call.arg(out).arg(indices).arg(self).pointer(samples.defined() ? samples.data : self.data);
  call.integer(rows).integer(per_group).integer(rank).value(g);
  if (device.group_size() == 1) return call.run(binding, ceil_div(rows, per_group));
  return call.run_elements(binding, rows * g.planes.out[2]);
}

bool gather(const OpBinding& binding, Device& device, const View& grad_input, const View& grad, const View& indices,
            const PoolingShape& g) {
  static KernelTemplate kernels("pooling:gather", {"T"}, {"WINDOW"});
  if (!can_pool(binding, grad)) return false;
  TemplateCall call(kernels, device, {grad.dtype}, {kStrided});
  call.arg(grad_input).arg(grad).arg(indices).integer(grad_input.numel()).value(g);
  return call.run_elements(binding, grad_input.numel());
}

bool scatter(const OpBinding& binding, Device& device, const View& to, const View& from, const View& indices, int rank,
             int add) {
  static KernelTemplate kernels("pooling:scatter", {"T"}, {"ADD"});
  if (!can_pool(binding, from)) return false;
  TemplateCall call(kernels, device, {from.dtype}, {add});
  const SpatialShape planes = spatial_shape(from, to, rank);
  const int64_t per_group = call.rows_per_group(size_of(planes.in) + size_of(planes.out));
  call.arg(to).arg(from).arg(indices).integer(planes.count).integer(per_group);
  call.integer(size_of(planes.out)).integer(size_of(planes.in));
  return call.run(binding, ceil_div(planes.count, per_group));
}

bool average(const OpBinding& binding, Device& device, const View& out, const View& self, const PoolingShape& g,
             Placement placement) {
  static KernelTemplate kernels("pooling:average", {"T"}, {"WINDOW"});
  if (!can_pool(binding, self)) return false;
  TemplateCall call(kernels, device, {self.dtype}, {placement});
  const int64_t rows = g.planes.count * g.planes.out[0] * g.planes.out[1];
  const int64_t per_group = call.rows_per_group(g.planes.out[2] * g.window());
  call.arg(out).arg(self).integer(rows).integer(per_group).value(g);
  return call.run(binding, ceil_div(rows, per_group));
}

bool average_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                      const PoolingShape& g, Placement placement) {
  static KernelTemplate kernels("pooling:average_backward", {"T"}, {"WINDOW"});
  if (!can_pool(binding, grad)) return false;
  TemplateCall call(kernels, device, {grad.dtype}, {placement});
  const int64_t rows = g.planes.count * g.planes.in[0] * g.planes.in[1];
  const int64_t per_group = call.rows_per_group(4 * g.planes.in[2]);
  call.arg(grad_input).arg(grad).integer(rows).integer(per_group).value(g);
  return call.run(binding, ceil_div(rows, per_group));
}

}  // namespace

bool max_pool(const OpBinding& binding, Device& device, const View& out, const View& indices, const View& self,
              const PoolingWindow& w, int rank) {
  if (call_vendor(binding, device,
                  {output(out), output(indices), input(self), attribute(w.kernel, rank), attribute(w.stride, rank),
                   attribute(w.padding, rank), attribute(w.dilation, rank)}))
    return true;
  return largest(binding, device, out, indices, self, {}, shape_of(self, out, rank, &w), kStrided, rank);
}

bool adaptive_max_pool(const OpBinding& binding, Device& device, const View& out, const View& indices, const View& self,
                       int rank) {
  if (call_vendor(binding, device, {output(out), output(indices), input(self)})) return true;
  return largest(binding, device, out, indices, self, {}, shape_of(self, out, rank, nullptr), kAdaptive, rank);
}

bool fractional_max_pool(const OpBinding& binding, Device& device, const View& out, const View& indices,
                         const View& self, const View& samples, const int64_t* kernel, int rank) {
  if (call_vendor(binding, device,
                  {output(out), output(indices), input(self), input(samples), attribute(kernel, rank)}))
    return true;
  if (samples.dtype != self.dtype || !is_float(self.dtype)) return false;
  PoolingWindow windows{};
  for (int a = 0; a < rank; ++a) windows.kernel[a] = kernel[a], windows.stride[a] = windows.dilation[a] = 1;
  return largest(binding, device, out, indices, self, samples, shape_of(self, out, rank, &windows), kFractional, rank);
}

bool max_pool_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                       const View& indices, int rank, const PoolingWindow* windows) {
  if (call_vendor(binding, device, {output(grad_input), input(grad), input(indices)})) return true;
  if (windows != nullptr && device.group_size() != 1) {
    return gather(binding, device, grad_input, grad, indices, shape_of(grad_input, grad, rank, windows));
  }
  return scatter(binding, device, grad_input, grad, indices, rank, 1);
}

bool max_unpool(const OpBinding& binding, Device& device, const View& out, const View& self, const View& indices,
                int rank) {
  if (call_vendor(binding, device, {output(out), input(self), input(indices)})) return true;
  return scatter(binding, device, out, self, indices, rank, 0);
}

bool avg_pool(const OpBinding& binding, Device& device, const View& out, const View& self, const PoolingWindow& w,
              bool include_pad, int64_t divisor, int rank) {
  if (call_average(binding, device, out, self, w, include_pad, divisor, rank)) return true;
  return average(binding, device, out, self, shape_of(self, out, rank, w, include_pad, divisor), kStrided);
}

bool avg_pool_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                       const PoolingWindow& w, bool include_pad, int64_t divisor, int rank) {
  if (call_average(binding, device, grad_input, grad, w, include_pad, divisor, rank)) return true;
  const PoolingShape g = shape_of(grad_input, grad, rank, w, include_pad, divisor);
  return average_backward(binding, device, grad_input, grad, g, kStrided);
}

bool adaptive_avg_pool(const OpBinding& binding, Device& device, const View& out, const View& self, int rank) {
  if (call_vendor(binding, device, {output(out), input(self)})) return true;
  return average(binding, device, out, self, shape_of(self, out, rank, nullptr), kAdaptive);
}

bool adaptive_avg_pool_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                                int rank) {
  if (call_vendor(binding, device, {output(grad_input), input(grad)})) return true;
  return average_backward(binding, device, grad_input, grad, shape_of(grad_input, grad, rank, nullptr), kAdaptive);
}

}  // namespace hp::ops
