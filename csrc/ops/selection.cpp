#include "ops/selection.h"

#include "core/dispatch/template_call.h"
#include "core/memory/scratch.h"
#include "core/tensor/collapsed_dims.h"
#include "core/tensor/raw_view.h"
#include "ops/detail/complex_view.h"

namespace hp::ops {
namespace {

int parts_of(DType dtype) { return is_complex(dtype) ? 2 : 1; }

}  // namespace

SelectionOffsets::SelectionOffsets(const OpBinding& binding, Device& device, KernelTemplate& kernels, const View& self,
                                   DType type, int parts)
    : device_(&device) {
  static KernelTemplate scans("selection:scan", {}, {});
  if (!binding.portable_allowed || !self.defined()) return;
  TemplateCall count(kernels, device, {type}, {parts}), scan(scans, device, {}, {});
  if (!count.available() || !scan.available()) return;
  const int64_t elements = self.numel();
  groups_ = count.groups_for(elements);
  counts_ = std::make_unique<Scratch>(device, (groups_ + 1) * static_cast<int64_t>(sizeof(int64_t)));
  count.pointer(counts()).arg(self).integer(elements).launch(binding.op, groups_);
  scan.pointer(counts()).integer(groups_).launch(binding.op, 1);
}

SelectionOffsets SelectionOffsets::of_nonzero(const OpBinding& binding, Device& device, const View& self) {
  static KernelTemplate kernels("selection:count", {"T"}, {"PARTS"});
  return SelectionOffsets(binding, device, kernels, self, real_dtype(self.dtype), parts_of(self.dtype));
}

SelectionOffsets SelectionOffsets::of_run_starts(const OpBinding& binding, Device& device, const View& self) {
  static KernelTemplate kernels("selection:heads", {"T"}, {"PARTS"});
  return SelectionOffsets(binding, device, kernels, is_complex(self.dtype) ? View{} : self, self.dtype, 1);
}

SelectionOffsets SelectionOffsets::of_repeats(const OpBinding& binding, Device& device, const View& self) {
  static KernelTemplate kernels("selection:repeats", {"T"}, {"PARTS"});
  return SelectionOffsets(binding, device, kernels, self, self.dtype, 1);
}

bool nonzero(const OpBinding& binding, Device& device, const View& out, const View& self,
             const SelectionOffsets& offsets) {
  static KernelTemplate kernels("selection:coordinates", {"T"}, {"PARTS", "DIMS"});
  if (self.ndim > kMaxKernelRank) return false;
  TemplateCall call(kernels, device, {real_dtype(self.dtype)}, {parts_of(self.dtype), self.ndim});
  int64_t sizes[kMaxKernelRank] = {};
  for (int d = 0; d < self.ndim; ++d) sizes[d] = self.sizes[self.ndim - 1 - d];
  call.arg(out).arg(self).pointer(offsets.counts()).integer(self.numel()).integer(out.sizes[0]);
  call.integer(out.strides[0]).integer(out.strides[1]).value(sizes);
  return call.run_elements(binding, self.numel());
}

bool masked_select(const OpBinding& binding, Device& device, const View& out, const View& self, const View& mask,
                   const SelectionOffsets& offsets) {
  static KernelTemplate kernels("selection:pick", {"R", "T"}, {"PARTS", "WORDS"});
  TemplateCall call(kernels, device, {raw_dtype(self.dtype), mask.dtype}, {1, raw_units(self.dtype)});
  call.arg(out).arg(self).arg(mask).pointer(offsets.counts()).integer(mask.numel());
  return call.run_elements(binding, mask.numel());
}

bool masked_scatter(const OpBinding& binding, Device& device, const View& out, const View& mask, const View& source,
                    const SelectionOffsets& offsets) {
  static KernelTemplate kernels("selection:place", {"R", "T"}, {"PARTS", "WORDS"});
  TemplateCall call(kernels, device, {raw_dtype(out.dtype), mask.dtype}, {1, raw_units(out.dtype)});
  call.arg(out).arg(source).arg(mask).pointer(offsets.counts()).fault(binding.op).integer(mask.numel());
  call.integer(source.numel());
  return call.run_elements(binding, mask.numel());
}

bool masked_fill(const OpBinding& binding, Device& device, const View& out, const View& mask, const View& value) {
  if (call_vendor(binding, device, {output(out), input(mask), input(value)})) return true;
  static KernelTemplate kernels("selection:fill", {"T"}, {"DIMS", "UNIT"});
  if (!binding.portable_allowed || !out.defined() || raw_units(out.dtype) != 1) return false;
  CollapsedDims<2> dims;
  for (int d = out.ndim - 1; d >= 0; --d) dims.add(out.sizes[d], {out.strides[d], mask.strides[d]});
  dims.sort(0);
  dims.finish();
  if (dims.count() > kMaxKernelRank) return false;
  const bool unit = dims[0].stride[0] == 1 && dims[0].stride[1] == 1;
  TemplateCall call(kernels, device, {raw_dtype(out.dtype)}, {dims.count(), unit});
  StridedShape<2> geometry;
  dims.write(geometry);
  return call.arg(out).arg(mask).arg(value).integer(dims.numel()).value(geometry).run_elements(binding, dims.numel());
}

bool unique(const OpBinding& binding, Device& device, const View& out, const View& inverse, const View& lengths,
            const View& self, const View& order, const SelectionOffsets& offsets) {
  static KernelTemplate writers("selection:distinct", {"T"}, {"INVERSE", "ORDERED"});
  static KernelTemplate measures("selection:lengths", {}, {});
  PortableScope scope(binding);
  const int64_t elements = self.numel(), runs = out.numel();
  TemplateCall write(writers, device, {self.dtype}, {inverse.defined(), order.defined()}),
      measure(measures, device, {}, {});
  if (!write.available() || !measure.available()) return false;
  const Scratch starts(device, runs * static_cast<int64_t>(sizeof(int64_t)));
  write.arg(out).pointer(starts.get()).arg(inverse).arg(self).arg(order).pointer(offsets.counts()).integer(elements);
  write.launch_elements(binding.op, elements);
  if (lengths.defined()) {
    measure.arg(lengths).pointer(starts.get()).integer(runs).integer(elements);
    measure.launch_elements(binding.op, runs);
  }
  return scope.done();
}

bool repeat_interleave(const OpBinding& binding, Device& device, const View& out, const View& self,
                       const SelectionOffsets& offsets) {
  static KernelTemplate kernels("selection:repeat", {"T"}, {});
  TemplateCall call(kernels, device, {self.dtype}, {});
  call.arg(out).arg(self).pointer(offsets.counts()).integer(self.numel()).integer(out.numel());
  return call.run_elements(binding, self.numel());
}

bool searchsorted(const OpBinding& binding, Device& device, const View& out, const View& sorted, const View& self,
                  const View& sorter, bool right) {
  if (call_vendor(binding, device, {output(out), input(sorted), input(self), input(sorter), attribute(right)}))
    return true;
  static KernelTemplate kernels("selection:search", {"T", "R"}, {"SORTER", "RIGHT"});
  if (!binding.portable_allowed || !self.defined() || is_complex(self.dtype)) return false;
  TemplateCall call(kernels, device, {self.dtype, out.dtype}, {sorter.defined(), right});
  const int64_t elements = self.numel(), length = sorted.sizes[sorted.ndim - 1];
  const int64_t width = sorted.ndim == 1 ? elements : self.sizes[self.ndim - 1];
  call.arg(out).arg(self).arg(sorted).arg(sorter).integer(elements).integer(width).integer(length);
  return call.run_elements(binding, elements);
}

bool isin(const OpBinding& binding, Device& device, const View& out, const View& self, const View& among, bool invert) {
  if (call_vendor(binding, device, {output(out), input(self), input(among), attribute(invert)})) return true;
  static KernelTemplate kernels("selection:member", {"T"}, {"LINEAR"});
  if (!binding.portable_allowed || !self.defined() || is_complex(self.dtype)) return false;
  TemplateCall call(kernels, device, {self.dtype}, {among.numel() <= kMaxUnsortedMembers});
  call.arg(out).arg(self).arg(among).integer(self.numel()).integer(among.numel()).integer(invert);
  return call.run_elements(binding, self.numel());
}

bool triangle_indices(const OpBinding& binding, Device& device, const View& out, int64_t first_row, int64_t rows,
                      int64_t columns, int64_t offset, bool upper) {
  static KernelTemplate kernels("selection:triangle", {"T"}, {"UPPER"});
  if (!binding.portable_allowed || !out.defined() || !is_integer(out.dtype)) return false;
  TemplateCall call(kernels, device, {out.dtype}, {upper});
  const int64_t per_group = call.rows_per_group(columns);
  call.arg(out).integer(first_row).integer(rows).integer(columns).integer(offset).integer(out.sizes[1]);
  return call.integer(per_group).run(binding, ceil_div(rows, per_group));
}

}  // namespace hp::ops
