#include "selection.h"

#include "../core/dimensions.h"
#include "../core/template_call.h"
#include "../core/words.h"
#include "parts.h"

namespace hp::ops {
namespace {

int parts_of(DType dtype) { return is_complex(dtype) ? 2 : 1; }

}  // namespace

Places::Places(const Service& service, Device& device, TemplateKernels& kernels, const View& self, DType type,
               int parts)
    : device_(&device) {
  static TemplateKernels scans("selection:scan", {}, {});
  if (!service.has_compiler || !self.defined()) return;
  TemplateCall count(kernels, device, {type}, {parts}), scan(scans, device, {}, {});
  if (!count.available() || !scan.available()) return;
  const int64_t elements = self.numel();
  groups_ = count.groups_for(elements);
  counts_ = std::make_unique<Scratch>(device, (groups_ + 1) * static_cast<int64_t>(sizeof(int64_t)));
  count.pointer(counts()).arg(self).integer(elements).launch(service.op, groups_);
  scan.pointer(counts()).integer(groups_).launch(service.op, 1);
}

Places Places::of_nonzero(const Service& service, Device& device, const View& self) {
  static TemplateKernels kernels("selection:count", {"T"}, {"PARTS"});
  return Places(service, device, kernels, self, part_of(self.dtype), parts_of(self.dtype));
}

Places Places::of_heads(const Service& service, Device& device, const View& self) {
  static TemplateKernels kernels("selection:heads", {"T"}, {"PARTS"});
  return Places(service, device, kernels, is_complex(self.dtype) ? View{} : self, self.dtype, 1);
}

Places Places::of_repeats(const Service& service, Device& device, const View& self) {
  static TemplateKernels kernels("selection:repeats", {"T"}, {"PARTS"});
  return Places(service, device, kernels, self, self.dtype, 1);
}

bool nonzero(const Service& service, Device& device, const View& out, const View& self, const Places& places) {
  static TemplateKernels kernels("selection:coordinates", {"T"}, {"PARTS", "DIMS"});
  if (self.ndim > kMaxDimensions) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {part_of(self.dtype)}, {parts_of(self.dtype), self.ndim});
  if (!call.available()) return false;
  int64_t sizes[kMaxDimensions] = {};
  for (int d = 0; d < self.ndim; ++d) sizes[d] = self.sizes[self.ndim - 1 - d];
  call.arg(out).arg(self).pointer(places.counts()).integer(self.numel()).integer(out.sizes[0]).value(sizes);
  call.launch_elements(service.op, self.numel());
  return scope.done();
}

bool masked_select(const Service& service, Device& device, const View& out, const View& self, const View& mask,
                   const Places& places) {
  static TemplateKernels kernels("selection:pick", {"R", "T"}, {"PARTS", "WORDS"});
  PortableScope scope(service);
  TemplateCall call(kernels, device, {word_of(self.dtype), mask.dtype}, {1, words_of(self.dtype)});
  if (!call.available()) return false;
  call.arg(out).arg(self).arg(mask).pointer(places.counts()).integer(mask.numel());
  call.launch_elements(service.op, mask.numel());
  return scope.done();
}

bool masked_scatter(const Service& service, Device& device, const View& out, const View& mask, const View& source,
                    const Places& places) {
  static TemplateKernels kernels("selection:place", {"R", "T"}, {"PARTS", "WORDS"});
  PortableScope scope(service);
  TemplateCall call(kernels, device, {word_of(out.dtype), mask.dtype}, {1, words_of(out.dtype)});
  if (!call.available()) return false;
  call.arg(out).arg(source).arg(mask).pointer(places.counts()).fault(service.op).integer(mask.numel());
  call.integer(source.numel());
  call.launch_elements(service.op, mask.numel());
  return scope.done();
}

bool masked_fill(const Service& service, Device& device, const View& out, const View& mask, const View& value) {
  if (call_vendor(service, device, {output(out), input(mask), input(value)})) return true;
  static TemplateKernels kernels("selection:fill", {"T"}, {"DIMS", "UNIT"});
  if (!service.has_compiler || !out.defined() || words_of(out.dtype) != 1) return false;
  PortableScope scope(service);
  Dimensions<2> dims;
  for (int d = out.ndim - 1; d >= 0; --d) dims.add(out.sizes[d], {out.strides[d], mask.strides[d]});
  dims.sort(0);
  dims.finish();
  if (dims.count() > kMaxDimensions) return false;
  const bool unit = dims[0].stride[0] == 1 && dims[0].stride[1] == 1;
  TemplateCall call(kernels, device, {word_of(out.dtype)}, {dims.count(), unit});
  if (!call.available()) return false;
  Geometry<2> geometry;
  dims.write(geometry);
  call.arg(out).arg(mask).arg(value).integer(dims.numel()).value(geometry).launch_elements(service.op, dims.numel());
  return scope.done();
}

bool unique(const Service& service, Device& device, const View& out, const View& inverse, const View& lengths,
            const View& self, const View& order, const Places& places) {
  static TemplateKernels writers("selection:distinct", {"T"}, {"INVERSE", "ORDERED"});
  static TemplateKernels measures("selection:lengths", {}, {});
  PortableScope scope(service);
  const int64_t elements = self.numel(), runs = out.numel();
  TemplateCall write(writers, device, {self.dtype}, {inverse.defined(), order.defined()}),
      measure(measures, device, {}, {});
  if (!write.available() || !measure.available()) return false;
  const Scratch starts(device, runs * static_cast<int64_t>(sizeof(int64_t)));
  write.arg(out).pointer(starts.get()).arg(inverse).arg(self).arg(order).pointer(places.counts()).integer(elements);
  write.launch_elements(service.op, elements);
  if (lengths.defined()) {
    measure.arg(lengths).pointer(starts.get()).integer(runs).integer(elements);
    measure.launch_elements(service.op, runs);
  }
  return scope.done();
}

bool repeat_interleave(const Service& service, Device& device, const View& out, const View& self,
                       const Places& places) {
  static TemplateKernels kernels("selection:repeat", {"T"}, {});
  PortableScope scope(service);
  TemplateCall call(kernels, device, {self.dtype}, {});
  if (!call.available()) return false;
  call.arg(out).arg(self).pointer(places.counts()).integer(self.numel()).integer(out.numel());
  call.launch_elements(service.op, self.numel());
  return scope.done();
}

bool searchsorted(const Service& service, Device& device, const View& out, const View& sorted, const View& self,
                  const View& sorter, bool right) {
  if (call_vendor(service, device, {output(out), input(sorted), input(self), input(sorter), attribute(right)}))
    return true;
  static TemplateKernels kernels("selection:search", {"T", "R"}, {"SORTER", "RIGHT"});
  if (!service.has_compiler || !self.defined() || is_complex(self.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {self.dtype, out.dtype}, {sorter.defined(), right});
  if (!call.available()) return false;
  const int64_t elements = self.numel(), length = sorted.sizes[sorted.ndim - 1];
  const int64_t width = sorted.ndim == 1 ? elements : self.sizes[self.ndim - 1];
  call.arg(out).arg(self).arg(sorted).arg(sorter).integer(elements).integer(width).integer(length);
  call.launch_elements(service.op, elements);
  return scope.done();
}

bool isin(const Service& service, Device& device, const View& out, const View& self, const View& among, bool invert) {
  if (call_vendor(service, device, {output(out), input(self), input(among), attribute(invert)})) return true;
  static TemplateKernels kernels("selection:member", {"T"}, {"LINEAR"});
  if (!service.has_compiler || !self.defined() || is_complex(self.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {self.dtype}, {among.numel() <= kFewMembers});
  if (!call.available()) return false;
  call.arg(out).arg(self).arg(among).integer(self.numel()).integer(among.numel()).integer(invert);
  call.launch_elements(service.op, self.numel());
  return scope.done();
}

bool triangle_indices(const Service& service, Device& device, const View& out, int64_t first_row, int64_t rows,
                      int64_t columns, int64_t offset, bool upper) {
  static TemplateKernels kernels("selection:triangle", {"T"}, {"UPPER"});
  if (!service.has_compiler || !out.defined() || !is_integer(out.dtype)) return false;
  PortableScope scope(service);
  TemplateCall call(kernels, device, {out.dtype}, {upper});
  if (!call.available()) return false;
  const int64_t per_group = call.rows_per_group(columns);
  call.arg(out).integer(first_row).integer(rows).integer(columns).integer(offset).integer(out.sizes[1]);
  call.integer(per_group).launch(service.op, (rows + per_group - 1) / per_group);
  return scope.done();
}

}  // namespace hp::ops
