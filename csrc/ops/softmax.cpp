#include "softmax.h"

#include "../core/template_call.h"

namespace hp::ops {
namespace {

constexpr int kLogSumExp = 2;
constexpr int64_t kColumns = 64;  // COLUMNS in kernels/softmax.c

// A tensor as outer x n x inner around the dimension.
struct Geometry {
  int64_t outer = 1, n = 1, inner = 1;
};

Geometry around(const View& view, int64_t dim) {
  Geometry g;
  for (int d = 0; d < view.ndim; ++d) {
    (d < dim ? g.outer : d == dim ? g.n : g.inner) *= view.sizes[d];
  }
  return g;
}

int64_t blocks_of(const Geometry& g) { return (g.inner + kColumns - 1) / kColumns; }

// A kernel for rows, or for columns where there is an inner dimension; `call` has the tensors.
void launch(TemplateCall& call, Operator& op, const Geometry& g) {
  if (g.inner == 1) {
    const int64_t per_group = call.rows_per_group(g.n);
    call.integer(g.outer).integer(g.n).integer(per_group);
    call.launch(op, (g.outer + per_group - 1) / per_group);
  } else {
    call.integer(g.n).integer(g.inner).integer(blocks_of(g)).launch(op, g.outer * blocks_of(g));
  }
}

}  // namespace

bool softmax(const Service& service, Device& device, const View& out, const View& self, int64_t dim, bool logarithm) {
  if (call_vendor(service, device, {output(out), input(self), attribute(dim)})) return true;
  static TemplateKernels rows("softmax:rows", {"T", "R"}, {"LOG"}), columns("softmax:columns", {"T", "R"}, {"LOG"});
  if (!service.has_compiler || !is_float(self.dtype)) return false;
  PortableScope scope(service);
  const Geometry g = around(self, dim);
  TemplateCall call(g.inner == 1 ? rows : columns, device, {self.dtype, out.dtype}, {logarithm});
  if (!call.available()) return false;
  launch(call.arg(out).arg(self), service.op, g);
  return scope.done();
}

bool softmax_backward(const Service& service, Device& device, const View& out, const View& grad, const View& output,
                      int64_t dim, bool logarithm) {
  if (call_vendor(service, device, {hp::output(out), input(grad), input(output), attribute(dim)})) return true;
  static TemplateKernels rows("softmax:rows_backward", {"T", "R"}, {"LOG"}),
      columns("softmax:columns_backward", {"T", "R"}, {"LOG"});
  if (!service.has_compiler || !is_float(grad.dtype) || grad.dtype != output.dtype) return false;
  PortableScope scope(service);
  const Geometry g = around(grad, dim);
  TemplateCall call(g.inner == 1 ? rows : columns, device, {grad.dtype, out.dtype}, {logarithm});
  if (!call.available()) return false;
  launch(call.arg(out).arg(grad).arg(output), service.op, g);
  return scope.done();
}

bool logsumexp(const Service& service, Device& device, const View& out, const View& self) {
  if (call_vendor(service, device, {output(out), input(self)})) return true;
  static TemplateKernels kernels("softmax:rows", {"T", "R"}, {"LOG"});
  if (!service.has_compiler || !is_float(self.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {self.dtype, out.dtype}, {kLogSumExp});
  if (!call.available()) return false;
  const Geometry g = around(self, self.ndim - 1);
  const int64_t per_group = call.rows_per_group(g.n);
  call.arg(out).arg(self).integer(g.outer).integer(g.n).integer(per_group);
  call.launch(service.op, (g.outer + per_group - 1) / per_group);
  return scope.done();
}

}  // namespace hp::ops
