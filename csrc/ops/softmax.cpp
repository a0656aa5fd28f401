#include "ops/softmax.h"

#include "core/dispatch/template_call.h"
#include "ops/detail/row_shape.h"

namespace hp::ops {
namespace {

constexpr int kLogSumExp = 2;
constexpr int64_t kSoftmaxColumns = 64;  // COLUMNS in kernels/sources/softmax.c

// Launches a row kernel, or a column kernel if there is an inner dimension. `call` already holds the tensors.
bool run_softmax(TemplateCall& call, const OpBinding& binding, const RowShape& g) {
  if (g.inner == 1) {
    const int64_t per_group = call.rows_per_group(g.n);
    return call.integer(g.outer).integer(g.n).integer(per_group).run(binding, ceil_div(g.outer, per_group));
  }
  const int64_t blocks = ceil_div(g.inner, kSoftmaxColumns);
  return call.integer(g.n).integer(g.inner).integer(blocks).run(binding, g.outer * blocks);
}

}  // namespace

bool softmax(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t dim, bool logarithm) {
  if (call_vendor(binding, device, {output(out), input(self), attribute(dim)})) return true;
  static KernelTemplate rows("softmax:rows", {"T", "R"}, {"LOG"}), columns("softmax:columns", {"T", "R"}, {"LOG"});
  if (!binding.portable_allowed || !is_float(self.dtype)) return false;
  const RowShape g(self, dim);
  TemplateCall call(g.inner == 1 ? rows : columns, device, {self.dtype, out.dtype}, {logarithm});
  return run_softmax(call.arg(out).arg(self), binding, g);
}

bool softmax_backward(const OpBinding& binding, Device& device, const View& out, const View& grad, const View& output,
                      int64_t dim, bool logarithm) {
  if (call_vendor(binding, device, {hp::output(out), input(grad), input(output), attribute(dim)})) return true;
  static KernelTemplate rows("softmax:rows_backward", {"T", "R"}, {"LOG"}),
      columns("softmax:columns_backward", {"T", "R"}, {"LOG"});
  if (!binding.portable_allowed || !is_float(grad.dtype) || grad.dtype != output.dtype) return false;
  const RowShape g(grad, dim);
  TemplateCall call(g.inner == 1 ? rows : columns, device, {grad.dtype, out.dtype}, {logarithm});
  return run_softmax(call.arg(out).arg(grad).arg(output), binding, g);
}

bool logsumexp(const OpBinding& binding, Device& device, const View& out, const View& self) {
  if (call_vendor(binding, device, {output(out), input(self)})) return true;
  static KernelTemplate kernels("softmax:rows", {"T", "R"}, {"LOG"});
  if (!binding.portable_allowed || !is_float(self.dtype)) return false;
  TemplateCall call(kernels, device, {self.dtype, out.dtype}, {kLogSumExp});
  return run_softmax(call.arg(out).arg(self), binding, RowShape(self, self.ndim - 1));
}

}  // namespace hp::ops
