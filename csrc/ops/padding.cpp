#include "padding.h"

#include "../core/template_call.h"
#include "../core/words.h"
#include "spatial.h"

namespace hp::ops {
namespace {

struct Geometry {
  Planes planes;
  int64_t before[3];
};

Geometry geometry_of(const View& in, const View& out, const int64_t* padding, int64_t count) {
  const int rank = static_cast<int>(count / 2);
  Geometry g{planes_of(in, out, rank), {0, 0, 0}};
  for (int a = 0; a < rank; ++a) g.before[2 - a] = padding[2 * a];
  return g;
}

bool forward(const Service& service, Device& device, const View& out, const View& self, const int64_t* padding,
             int64_t count, int reflect) {
  if (call_vendor(service, device, {output(out), input(self), attribute(padding, count)})) return true;
  static TemplateKernels kernels("padding:forward", {"T"}, {"REFLECT"});
  if (!service.has_compiler || !self.defined()) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {word_of(self.dtype)}, {reflect});
  if (!call.available()) return false;
  const Geometry g = geometry_of(self, out, padding, count);
  const int64_t rows = g.planes.count * g.planes.out[0] * g.planes.out[1], words = words_of(self.dtype);
  const int64_t per_group = call.rows_per_group(g.planes.out[2] * words);
  call.arg(out).arg(self).integer(rows).integer(per_group).integer(words).value(g);
  call.launch(service.op, (rows + per_group - 1) / per_group);
  return scope.done();
}

bool backward(const Service& service, Device& device, const View& grad_input, const View& grad, const int64_t* padding,
              int64_t count, int reflect) {
  if (call_vendor(service, device, {output(grad_input), input(grad), attribute(padding, count)})) return true;
  static TemplateKernels kernels("padding:backward", {"T"}, {"REFLECT"});
  if (!service.has_compiler || !grad.defined() || is_complex(grad.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {grad.dtype}, {reflect});
  if (!call.available()) return false;
  const Geometry g = geometry_of(grad_input, grad, padding, count);
  const int64_t rows = g.planes.count * g.planes.in[0] * g.planes.in[1];
  const int64_t per_group = call.rows_per_group(g.planes.in[2] * 4);
  call.arg(grad_input).arg(grad).integer(rows).integer(per_group).value(g);
  call.launch(service.op, (rows + per_group - 1) / per_group);
  return scope.done();
}

}  // namespace

bool reflection_pad(const Service& service, Device& device, const View& out, const View& self, const int64_t* padding,
                    int64_t count) {
  return forward(service, device, out, self, padding, count, 1);
}
bool reflection_pad_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                             const int64_t* padding, int64_t count) {
  return backward(service, device, grad_input, grad, padding, count, 1);
}
bool replication_pad(const Service& service, Device& device, const View& out, const View& self, const int64_t* padding,
                     int64_t count) {
  return forward(service, device, out, self, padding, count, 0);
}
bool replication_pad_backward(const Service& service, Device& device, const View& grad_input, const View& grad,
                              const int64_t* padding, int64_t count) {
  return backward(service, device, grad_input, grad, padding, count, 0);
}

}  // namespace hp::ops
