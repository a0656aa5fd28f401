#include "ops/padding.h"

#include "core/dispatch/template_call.h"
#include "core/tensor/raw_view.h"
#include "ops/detail/spatial_shape.h"

namespace hp::ops {
namespace {

struct PaddingShape {
  SpatialShape planes;
  int64_t before[3];
};

PaddingShape shape_of(const View& in, const View& out, const int64_t* padding, int64_t count) {
  const int rank = static_cast<int>(count / 2);
  PaddingShape g{spatial_shape(in, out, rank), {0, 0, 0}};
  for (int a = 0; a < rank; ++a) g.before[2 - a] = padding[2 * a];
  return g;
}

bool forward(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* padding,
             int64_t count, int reflect) {
  if (call_vendor(binding, device, {output(out), input(self), attribute(padding, count)})) return true;
  static KernelTemplate kernels("padding:forward", {"T"}, {"REFLECT"});
  if (!binding.portable_allowed || !self.defined()) return false;
  TemplateCall call(kernels, device, {raw_dtype(self.dtype)}, {reflect});
  const PaddingShape g = shape_of(self, out, padding, count);
  const int64_t rows = g.planes.count * g.planes.out[0] * g.planes.out[1], words = raw_units(self.dtype);
  const int64_t per_group = call.rows_per_group(g.planes.out[2] * words);
  call.arg(out).arg(self).integer(rows).integer(per_group).integer(words).value(g);
  return call.run(binding, ceil_div(rows, per_group));
}

bool backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
              const int64_t* padding, int64_t count, int reflect) {
  if (call_vendor(binding, device, {output(grad_input), input(grad), attribute(padding, count)})) return true;
  static KernelTemplate kernels("padding:backward", {"T"}, {"REFLECT"});
  if (!binding.portable_allowed || !grad.defined() || is_complex(grad.dtype)) return false;
  TemplateCall call(kernels, device, {grad.dtype}, {reflect});
  const PaddingShape g = shape_of(grad_input, grad, padding, count);
  const int64_t rows = g.planes.count * g.planes.in[0] * g.planes.in[1];
  const int64_t per_group = call.rows_per_group(g.planes.in[2] * 4);
  call.arg(grad_input).arg(grad).integer(rows).integer(per_group).value(g);
  return call.run(binding, ceil_div(rows, per_group));
}

}  // namespace

bool reflection_pad(const OpBinding& binding, Device& device, const View& out, const View& self, const int64_t* padding,
                    int64_t count) {
  return forward(binding, device, out, self, padding, count, 1);
}
bool reflection_pad_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                             const int64_t* padding, int64_t count) {
  return backward(binding, device, grad_input, grad, padding, count, 1);
}
bool replication_pad(const OpBinding& binding, Device& device, const View& out, const View& self,
                     const int64_t* padding, int64_t count) {
  return forward(binding, device, out, self, padding, count, 0);
}
bool replication_pad_backward(const OpBinding& binding, Device& device, const View& grad_input, const View& grad,
                              const int64_t* padding, int64_t count) {
  return backward(binding, device, grad_input, grad, padding, count, 0);
}

}  // namespace hp::ops
