#include "hash.h"

#include "../core/template_call.h"

namespace hp::ops {

bool hash_tensor(const Service& service, Device& device, const View& out, const View& self) {
  static TemplateKernels kernels("hash:rows", {"T"});
  if (call_vendor(service, device, {output(out), input(self)})) return true;
  if (!service.has_compiler || !self.defined() || is_complex(self.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {self.dtype});
  if (!call.available()) return false;
  const int64_t rows = self.sizes[0], n = self.sizes[1], each = call.rows_per_group(n);
  call.arg(out).arg(self).integer(rows).integer(n).integer(each).launch(service.op, (rows + each - 1) / each);
  return scope.done();
}

}  // namespace hp::ops
