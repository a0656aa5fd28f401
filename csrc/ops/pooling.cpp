#include "pooling.h"

#include <algorithm>

#include "../core/template_call.h"
#include "spatial.h"

namespace hp::ops {
namespace {

enum Placement { kStrided, kAdaptive, kFractional };  // the kernels' WINDOW

struct Geometry {
  Planes planes;
  int64_t kernel[3], stride[3], padding[3], dilation[3], include_pad, divisor;

  int64_t window() const { return kernel[0] * kernel[1] * kernel[2]; }
};

Geometry geometry_of(const View& in, const View& out, int rank, const PoolWindows* windows) {
  Geometry g{planes_of(in, out, rank), {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1, 0};
  if (windows == nullptr) {
    // Only to know how much there is to do.
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

Geometry geometry_of(const View& in, const View& out, int rank, const PoolWindows& windows, bool include_pad,
                     int64_t divisor) {
  Geometry g = geometry_of(in, out, rank, &windows);
  g.include_pad = include_pad;
  g.divisor = divisor;
  return g;
}

// The vendor's kernel for averages, or for their gradient.
bool call_average(const Service& service, Device& device, const View& to, const View& from, const PoolWindows& w,
                  bool include_pad, int64_t divisor, int rank) {
  return call_vendor(service, device,
                     {output(to), input(from), attribute(w.kernel, rank), attribute(w.stride, rank),
                      attribute(w.padding, rank), attribute(include_pad), attribute(divisor)});
}

int64_t size_of(const int64_t (&sizes)[3]) { return sizes[0] * sizes[1] * sizes[2]; }

bool largest(const Service& service, Device& device, const View& out, const View& indices, const View& self,
             const View& samples, const Geometry& g, Placement placement, int rank) {
  static TemplateKernels kernels("pooling:max", {"T"}, {"WINDOW"});
  // Places within a plane are counted in 32 bits on the way.
  if (!service.has_compiler || !self.defined() || is_complex(self.dtype) || size_of(g.planes.in) > INT32_MAX)
    return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {self.dtype}, {placement});
  if (!call.available()) return false;
  const int64_t rows = g.planes.count * g.planes.out[0] * g.planes.out[1];
  const int64_t per_group = call.rows_per_group(g.planes.out[2] * g.window());
  call.arg(out).arg(indices).arg(self).pointer(samples.defined() ? samples.data : self.data);
  call.integer(rows).integer(per_group).integer(rank).value(g);
  if (device.plugin.compiler.group_size == 1) {
    call.launch(service.op, (rows + per_group - 1) / per_group);
  } else {
    call.launch_elements(service.op, rows * g.planes.out[2]);
  }
  return scope.done();
}

bool gather(const Service& service, Device& device, const View& grad_input, const View& grad, const View& indices,
            const Geometry& g) {
  static TemplateKernels kernels("pooling:gather", {"T"}, {"WINDOW"});
  if (!service.has_compiler || !grad.defined() || is_complex(grad.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {grad.dtype}, {kStrided});
  if (!call.available()) return false;
  call.arg(grad_input).arg(grad).arg(indices).integer(grad_input.numel()).value(g);
  call.launch_elements(service.op, grad_input.numel());
  return scope.done();
}

bool scatter(const Service& service, Device& device, const View& to, const View& from, const View& indices, int rank,
             int add) {
  static TemplateKernels kernels("pooling:scatter", {"T"}, {"ADD"});
  if (!service.has_compiler || !from.defined() || is_complex(from.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {from.dtype}, {add});
  if (!call.available()) return false;
  const Planes planes = planes_of(from, to, rank);
  const int64_t per_group = call.rows_per_group(size_of(planes.in) + size_of(planes.out));
  call.arg(to).arg(from).arg(indices).integer(planes.count).integer(per_group);
  call.integer(size_of(planes.out)).integer(size_of(planes.in));
  call.launch(service.op, (planes.count + per_group - 1) / per_group);
  return scope.done();
}

bool average(const Service& service, Device& device, const View& out, const View& self, const Geometry& g,
             Placement placement) {
  static TemplateKernels kernels("pooling:average", {"T"}, {"WINDOW"});
  if (!service.has_compiler || !self.defined() || is_complex(self.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {self.dtype}, {placement});
  if (!call.available()) return false;
  const int64_t rows = g.planes.count * g.planes.out[0] * g.planes.out[1];
  const int64_t per_group = call.rows_per_group(g.planes.out[2] * g.window());
  call.arg(out).arg(self).integer(rows).integer(per_group).value(g);
  call.launch(service.op, (rows + per_group - 1) / per_group);
  return scope.done();
}

bool average_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                      const Geometry& g, Placement placement) {
  static TemplateKernels kernels("pooling:average_backward", {"T"}, {"WINDOW"});
  if (!service.has_compiler || !grad.defined() || is_complex(grad.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {grad.dtype}, {placement});
  if (!call.available()) return false;
  const int64_t rows = g.planes.count * g.planes.in[0] * g.planes.in[1];
  const int64_t per_group = call.rows_per_group(4 * g.planes.in[2]);
  call.arg(grad_input).arg(grad).integer(rows).integer(per_group).value(g);
  call.launch(service.op, (rows + per_group - 1) / per_group);
  return scope.done();
}

}  // namespace

bool max_pool(const Service& service, Device& device, const View& out, const View& indices, const View& self,
              const PoolWindows& w, int rank) {
  if (call_vendor(service, device,
                  {output(out), output(indices), input(self), attribute(w.kernel, rank), attribute(w.stride, rank),
                   attribute(w.padding, rank), attribute(w.dilation, rank)}))
    return true;
  return largest(service, device, out, indices, self, {}, geometry_of(self, out, rank, &w), kStrided, rank);
}

bool adaptive_max_pool(const Service& service, Device& device, const View& out, const View& indices, const View& self,
                       int rank) {
  if (call_vendor(service, device, {output(out), output(indices), input(self)})) return true;
  return largest(service, device, out, indices, self, {}, geometry_of(self, out, rank, nullptr), kAdaptive, rank);
}

bool fractional_max_pool(const Service& service, Device& device, const View& out, const View& indices, const View& self,
                         const View& samples, const int64_t* kernel, int rank) {
  if (call_vendor(service, device,
                  {output(out), output(indices), input(self), input(samples), attribute(kernel, rank)}))
    return true;
  if (samples.dtype != self.dtype || !is_float(self.dtype)) return false;
  PoolWindows windows{};
  for (int a = 0; a < rank; ++a) windows.kernel[a] = kernel[a], windows.stride[a] = windows.dilation[a] = 1;
  return largest(service, device, out, indices, self, samples, geometry_of(self, out, rank, &windows), kFractional,
                 rank);
}

bool max_pool_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                       const View& indices, int rank, const PoolWindows* windows) {
  if (call_vendor(service, device, {output(grad_input), input(grad), input(indices)})) return true;
  if (windows != nullptr && device.plugin.compiler.group_size != 1) {
    return gather(service, device, grad_input, grad, indices, geometry_of(grad_input, grad, rank, windows));
  }
  return scatter(service, device, grad_input, grad, indices, rank, 1);
}

bool max_unpool(const Service& service, Device& device, const View& out, const View& self, const View& indices,
                int rank) {
  if (call_vendor(service, device, {output(out), input(self), input(indices)})) return true;
  return scatter(service, device, out, self, indices, rank, 0);
}

bool avg_pool(const Service& service, Device& device, const View& out, const View& self, const PoolWindows& w,
              bool include_pad, int64_t divisor, int rank) {
  if (call_average(service, device, out, self, w, include_pad, divisor, rank)) return true;
  return average(service, device, out, self, geometry_of(self, out, rank, w, include_pad, divisor), kStrided);
}

bool avg_pool_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                       const PoolWindows& w, bool include_pad, int64_t divisor, int rank) {
  if (call_average(service, device, grad_input, grad, w, include_pad, divisor, rank)) return true;
  const Geometry g = geometry_of(grad_input, grad, rank, w, include_pad, divisor);
  return average_backward(service, device, grad_input, grad, g, kStrided);
}

bool adaptive_avg_pool(const Service& service, Device& device, const View& out, const View& self, int rank) {
  if (call_vendor(service, device, {output(out), input(self)})) return true;
  return average(service, device, out, self, geometry_of(self, out, rank, nullptr), kAdaptive);
}

bool adaptive_avg_pool_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                                int rank) {
  if (call_vendor(service, device, {output(grad_input), input(grad)})) return true;
  return average_backward(service, device, grad_input, grad, geometry_of(grad_input, grad, rank, nullptr), kAdaptive);
}

}  // namespace hp::ops
