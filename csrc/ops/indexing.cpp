#include "indexing.h"

#include "../core/template_call.h"

namespace hp::ops {
namespace {

struct GatherGeometry {
  int64_t size[kMaxDimensions], out[kMaxDimensions], self[kMaxDimensions], index[kMaxDimensions];
};

}  // namespace

bool gather(const Service& service, Device& device, const View& out, const View& self, const View& index, int64_t dim) {
  if (call_vendor(service, device, {output(out), input(self), input(index), attribute(dim)})) return true;
  static TemplateKernels kernels("indexing:gather", {"T", "I"}, {"DIMS"});
  if (!service.has_compiler || out.ndim > kMaxDimensions || !self.defined()) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {self.dtype, index.dtype}, {out.ndim});
  if (!call.available()) return false;
  GatherGeometry geometry;
  for (int d = 0; d < out.ndim; ++d) {
    geometry.size[d] = out.sizes[d];
    geometry.out[d] = out.strides[d];
    geometry.self[d] = self.ndim == 0 ? 0 : self.strides[d];
    geometry.index[d] = index.strides[d];
  }
  const int64_t elements = out.numel(), limit = self.ndim == 0 ? 1 : self.sizes[dim];
  call.arg(out).arg(self).arg(index).integer(elements).integer(dim).integer(limit).value(geometry);
  call.launch_elements(service.op, elements);
  return scope.done();
}

bool embedding(const Service& service, Device& device, const View& out, const View& weight, const View& indices) {
  if (call_vendor(service, device, {output(out), input(weight), input(indices)})) return true;
  static TemplateKernels kernels("indexing:rows", {"T", "I"});
  if (!service.has_compiler || !weight.defined()) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {weight.dtype, indices.dtype});
  if (!call.available()) return false;
  const int64_t width = weight.sizes[1], rows = indices.numel(), per_group = call.rows_per_group(width);
  call.arg(out).arg(weight).arg(indices).integer(rows).integer(width).integer(weight.sizes[0]).integer(per_group);
  call.launch(service.op, (rows + per_group - 1) / per_group);
  return scope.done();
}

}  // namespace hp::ops
