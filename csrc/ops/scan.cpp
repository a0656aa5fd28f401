#include "scan.h"

#include <algorithm>

#include "../core/template_call.h"
#include "parts.h"
#include "rows.h"

namespace hp::ops {
namespace {

constexpr int64_t kColumns = 128;  // as in kernels/scan.c

int64_t strips(const Rows& rows) { return (rows.inner + kColumns - 1) / kColumns; }

bool complex_scan(const Service& service, Device& device, const View& out, const View& self, int64_t dim,
                  bool logarithm) {
  static TemplateKernels kernels("scan:complex", {"T"}, {"LOGARITHM"});
  if (out.dtype != self.dtype) return false;
  PortableScope scope(service);
  const Rows rows(self, dim);
  TemplateCall call(kernels, device, {self.dtype}, {logarithm});
  if (!call.available()) return false;
  const int64_t tasks = rows.outer * strips(rows);
  const int64_t per_group = call.rows_per_group(rows.n * std::min(rows.inner, kColumns));
  call.arg(out).arg(self).integer(rows.outer).integer(rows.n).integer(rows.inner).integer(per_group);
  call.launch(service.op, (tasks + per_group - 1) / per_group);
  return scope.done();
}

bool scan(const Service& service, Device& device, const View& result, const View& given, int64_t dim, int rule) {
  static TemplateKernels along("scan:rows", {"T", "A", "R"}, {"RULE"});
  static TemplateKernels across("scan:columns", {"T", "A", "R"}, {"RULE"});
  if (call_vendor(service, device, {output(result), input(given), attribute(dim)})) return true;
  if (!service.has_compiler || !given.defined() || !result.defined()) return false;
  if (rule != 0 && is_complex(given.dtype)) return complex_scan(service, device, result, given, dim, rule == 2);
  // Of complex numbers, the parts are added up apart.
  const bool parts = rule == 0 && is_complex(given.dtype) && is_complex(result.dtype) && given.ndim > 0;
  const Parts to(result), from(given);
  const View &out = parts ? to.view : result, &self = parts ? from.view : given;
  if (is_complex(self.dtype) || is_complex(out.dtype) || (rule == 2 && !is_float(out.dtype))) return false;
  PortableScope scope(service);
  const Rows rows(self, dim);
  TemplateCall call(rows.inner == 1 ? along : across, device, {self.dtype, accumulator(out.dtype), out.dtype}, {rule});
  if (!call.available()) return false;
  call.arg(out).arg(self).integer(rows.outer).integer(rows.n);
  if (rows.inner > 1) call.integer(rows.inner);
  const int64_t tasks = rows.outer * strips(rows);
  const int64_t per_group = call.rows_per_group(rows.n * std::min(rows.inner, kColumns));
  call.integer(per_group).launch(service.op, (tasks + per_group - 1) / per_group);
  return scope.done();
}

bool extremes(const Service& service, Device& device, const View& values, const View& places, const View& self,
              int64_t dim, bool largest) {
  static TemplateKernels kernels("scan:extremes", {"T"}, {"LARGEST"});
  if (call_vendor(service, device, {output(values), output(places), input(self), attribute(dim)})) return true;
  if (!service.has_compiler || !self.defined() || is_complex(self.dtype)) return false;
  PortableScope scope(service);
  const Rows rows(self, dim);
  TemplateCall call(kernels, device, {self.dtype}, {largest});
  if (!call.available()) return false;
  const int64_t tasks = rows.outer * strips(rows);
  const int64_t per_group = call.rows_per_group(rows.n * std::min(rows.inner, kColumns));
  call.arg(values).arg(places).arg(self).integer(rows.outer).integer(rows.n).integer(rows.inner).integer(per_group);
  call.launch(service.op, (tasks + per_group - 1) / per_group);
  return scope.done();
}

}  // namespace

bool cumsum(const Service& service, Device& device, const View& out, const View& self, int64_t dim) {
  return scan(service, device, out, self, dim, 0);
}
bool cumprod(const Service& service, Device& device, const View& out, const View& self, int64_t dim) {
  return scan(service, device, out, self, dim, 1);
}
bool logcumsumexp(const Service& service, Device& device, const View& out, const View& self, int64_t dim) {
  return scan(service, device, out, self, dim, 2);
}
bool cummax(const Service& service, Device& device, const View& values, const View& places, const View& self,
            int64_t dim) {
  return extremes(service, device, values, places, self, dim, true);
}
bool cummin(const Service& service, Device& device, const View& values, const View& places, const View& self,
            int64_t dim) {
  return extremes(service, device, values, places, self, dim, false);
}

}  // namespace hp::ops
