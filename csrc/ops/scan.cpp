#include "ops/scan.h"

#include <algorithm>

#include "core/dispatch/template_call.h"
#include "ops/detail/complex_view.h"
#include "ops/detail/row_shape.h"

namespace hp::ops {
namespace {

constexpr int64_t kScanColumns = 128;  // as in kernels/sources/scan.c

// Adds the last argument, the tasks per work-group, and launches. A task is up to kScanColumns neighboring rows.
bool run_scan(TemplateCall& call, const OpBinding& binding, const RowShape& rows) {
  const int64_t tasks = rows.outer * ceil_div(rows.inner, kScanColumns);
  const int64_t per_group = call.rows_per_group(rows.n * std::min(rows.inner, kScanColumns));
  return call.integer(per_group).run(binding, ceil_div(tasks, per_group));
}

bool complex_scan(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t dim,
                  bool logarithm) {
  static KernelTemplate kernels("scan:complex", {"T"}, {"LOGARITHM"});
  if (out.dtype != self.dtype) return false;
  const RowShape rows(self, dim);
  TemplateCall call(kernels, device, {self.dtype}, {logarithm});
  return run_scan(call.arg(out).arg(self).integer(rows.outer).integer(rows.n).integer(rows.inner), binding, rows);
}

bool scan(const OpBinding& binding, Device& device, const View& result, const View& input_view, int64_t dim, int rule) {
  static KernelTemplate along("scan:rows", {"T", "A", "R"}, {"RULE"});
  static KernelTemplate across("scan:columns", {"T", "A", "R"}, {"RULE"});
  if (call_vendor(binding, device, {output(result), input(input_view), attribute(dim)})) return true;
  if (!binding.portable_allowed || !input_view.defined() || !result.defined()) return false;
  if (rule != 0 && is_complex(input_view.dtype))
    return complex_scan(binding, device, result, input_view, dim, rule == 2);
  // Complex sums add the real and imaginary parts separately.
  const bool parts = rule == 0 && is_complex(input_view.dtype) && is_complex(result.dtype) && input_view.ndim > 0;
  const ComplexAsReal to(result), from(input_view);
  const View &out = parts ? to.view : result, &self = parts ? from.view : input_view;
  if (is_complex(self.dtype) || is_complex(out.dtype) || (rule == 2 && !is_float(out.dtype))) return false;
  const RowShape rows(self, dim);
  TemplateCall call(rows.inner == 1 ? along : across, device, {self.dtype, accumulator(out.dtype), out.dtype}, {rule});
  call.arg(out).arg(self).integer(rows.outer).integer(rows.n);
  if (rows.inner > 1) call.integer(rows.inner);
  return run_scan(call, binding, rows);
}

bool extremes(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
              int64_t dim, bool largest) {
  static KernelTemplate kernels("scan:min_max", {"T"}, {"LARGEST"});
  if (call_vendor(binding, device, {output(values), output(indices), input(self), attribute(dim)})) return true;
  if (!binding.portable_allowed || !self.defined() || is_complex(self.dtype)) return false;
  const RowShape rows(self, dim);
  TemplateCall call(kernels, device, {self.dtype}, {largest});
  call.arg(values).arg(indices).arg(self).integer(rows.outer).integer(rows.n).integer(rows.inner);
  return run_scan(call, binding, rows);
}

}  // namespace

bool cumsum(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t dim) {
  return scan(binding, device, out, self, dim, 0);
}
bool cumprod(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t dim) {
  return scan(binding, device, out, self, dim, 1);
}
bool logcumsumexp(const OpBinding& binding, Device& device, const View& out, const View& self, int64_t dim) {
  return scan(binding, device, out, self, dim, 2);
}
bool cummax(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
            int64_t dim) {
  return extremes(binding, device, values, indices, self, dim, true);
}
bool cummin(const OpBinding& binding, Device& device, const View& values, const View& indices, const View& self,
            int64_t dim) {
  return extremes(binding, device, values, indices, self, dim, false);
}

}  // namespace hp::ops
